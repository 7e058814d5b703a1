"""Random histories of a node with several adapters, which share the work of events in one state directory."""
