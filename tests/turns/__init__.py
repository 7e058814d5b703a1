"""Whose turn it is: notes, fates and locks, and a model of the rules. Whole adapters are in `tests.histories`."""
