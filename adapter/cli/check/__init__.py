"""`v010-adapter check`: everything that is configured on this node, and whether it would work."""
