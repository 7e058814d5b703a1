"""The base of all other packages: the event loop, connected sockets, JSON as Go reads and writes it. Without NRI."""
