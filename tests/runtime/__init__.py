"""Tests of the embedded runtime. `fixtures` has what other tests may use to launch plugins of their own."""
