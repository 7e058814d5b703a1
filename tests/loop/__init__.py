"""The daemon's event loop."""
