"""Tests of the embedded runtime. `tests.rig.embedded` has what launches plugins."""
