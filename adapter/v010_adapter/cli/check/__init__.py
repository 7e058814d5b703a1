"""`v010-adapter check`: checks everything that is configured on this node."""
