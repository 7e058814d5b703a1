"""Fuzzing: bytes from peers and plugins, mutated so that they reach ever more of the adapter's code."""
