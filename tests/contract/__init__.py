"""Tests of the contract between runtimes and plugins."""
