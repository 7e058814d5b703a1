"""The base of all other packages: the event loop, the trunk, JSON as Go writes it, the log's handlers. Without NRI."""
