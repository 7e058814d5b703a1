"""What becomes of an event: whose turn it is, what runs, what the runtime is answered, which delete is still owed."""
