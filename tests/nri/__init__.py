"""Tests of adapter.nri."""
