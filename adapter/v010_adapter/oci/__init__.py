"""Converts OCI runtime specifications to NRI's messages and back: pure functions.

`spec` converts in both directions, `patch` merges the patches in plugins' results, `limits` has the reasons for
refusals. `resources` and `shapes` are separate modules, because each event needs them; only an event that adjusts a
container needs the others.
"""
