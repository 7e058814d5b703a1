"""Tests of nri."""
