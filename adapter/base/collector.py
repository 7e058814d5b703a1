"""When Python looks for garbage: not while a runtime waits for the start, and seldom after it."""

from __future__ import annotations

import gc

THRESHOLD = 5000
"""Objects more than there were at the last look, at which Python looks again."""


def pause() -> None:
    """Looks no more: there is no garbage yet."""
    gc.disable()


def begin() -> None:
    """Looks from now on. The objects that exist now stay: they are not visited again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(THRESHOLD)
    gc.enable()
