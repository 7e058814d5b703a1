"""Converts OCI runtime specifications to NRI's messages and back: pure functions.

`spec` converts in both directions, `patch` merges the patches in plugins' results, `limits` is the table of the changes
that are refused. `resources` and `shapes` are separate modules, because each event needs them; only an event that
adjusts a container needs the others.
"""
