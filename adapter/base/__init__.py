"""The base of all other packages: the event loop, the trunk, JSON as Go writes it, text for logs. Without NRI."""
