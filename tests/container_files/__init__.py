"""Containers as people have them at hand: what is read of their files."""
