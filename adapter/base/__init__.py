"""What the rest is built on: the event loop, JSON as Go writes it, text for logs. Knows nothing of NRI."""
