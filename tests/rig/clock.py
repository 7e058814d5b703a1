"""A clock that stands still until a test moves it."""

from __future__ import annotations


class Clock:
    """The time is `now`."""

    now = 1000.0

    def time(self) -> float:
        return self.now

    __call__ = time
