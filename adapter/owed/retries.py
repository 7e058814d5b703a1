"""When deletes that could not be started are tried again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from adapter.base.loop import Loop, Timer

FIRST_RETRY, LAST_RETRY = 10.0, 600.0
"""Seconds until a delete that could not be started is tried again: each wait is twice the one before."""


class Retries:
    """The pods and containers whose deletes are tried again. Each id has one timer for all its plugins."""

    def __init__(self, loop: Loop, retry: Callable[[str], object]) -> None:
        """`retry` is called with an id, and tries all deletes that the id is owed."""
        self._loop = loop
        self._retry = retry
        self._waits: dict[str, float] = {}
        self._timers: dict[str, Timer] = {}

    def __contains__(self, id_: object) -> bool:
        """Whether deletes of the id could not be started."""
        return id_ in self._waits

    def begin(self, id_: str) -> None:
        """Sets the timer of an id. `cancel` stops it."""
        self.cancel(id_)
        wait = self._waits.get(id_, FIRST_RETRY)
        self._waits[id_] = min(2 * wait, LAST_RETRY)
        self._timers[id_] = self._loop.call_at(self._loop.time() + wait, partial(self._retry, id_))

    def cancel(self, id_: str) -> None:
        """Stops the timer: the id lives, or its deletes are tried now."""
        if (timer := self._timers.pop(id_, None)) is not None:
            timer.cancel()

    def forget(self, id_: str) -> None:
        """Forgets an id that is owed nothing any more."""
        self.cancel(id_)
        self._waits.pop(id_, None)
