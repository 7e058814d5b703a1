"""Pods on real runtimes, which are built here: `make e2e`."""
