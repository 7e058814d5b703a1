"""`v010-adapter check`: every fault of everything that is configured, each with its place, and what works."""
