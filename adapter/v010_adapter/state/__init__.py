"""What the adapter keeps in its state directory: notes of events, and the record of each pod and container."""
