"""Plugins that misbehave, kills and large containers, with real processes and NRI's own runtime: `make faults`."""
