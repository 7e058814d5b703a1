"""The schedule of Python's garbage collector: off while a runtime waits for the start, and rare after that."""

from __future__ import annotations

import gc

THRESHOLD = 5000
"""The collector runs when the number of objects has grown by this since its last run."""


def pause() -> None:
    """Switches the collector off, while there is no garbage yet."""
    gc.disable()


def begin() -> None:
    """Switches the collector on. It ignores the objects that exist now, because they stay."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(THRESHOLD)
    gc.enable()
