"""The OCI runtime specification and NRI's messages, one made of the other: pure functions.

`spec` has the way there and back, `patch` merges what plugins answer, `limits` is the table of what is refused.
`resources` and `shapes` stand apart: each event needs them, and the rest only an event that adjusts a container.
"""
