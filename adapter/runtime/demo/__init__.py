"""`v010-adapter demo`: plays a recorded pod's life to the real adapter and its sample plugins, and shows it."""

from adapter.runtime.demo.play import main

__all__ = ["main"]
