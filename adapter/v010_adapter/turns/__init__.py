"""Whose turn it is: which of several adapters does the work of an event. `fates` has the theory."""
