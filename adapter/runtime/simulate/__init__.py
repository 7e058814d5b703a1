"""`v010-adapter simulate`: plays events to NRI plugins as a runtime does, and shows what they make of them."""

from adapter.runtime.simulate.command import main

__all__ = ["main"]
