"""Fuzzing: bytes from peers, plugins and the disk, mutated so that they reach ever more of the adapter's code."""
