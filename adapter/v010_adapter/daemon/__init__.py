"""The daemon: from its start to its end, and from an event to its answer."""
