"""A loop whose clock is moved by hand, and a program that follows it, in place of a process."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

from v010_adapter.base.loop import Timer
from v010_adapter.monitoring.trace import UNTRACED

from .clock import Clock


class PlayedLoop(Clock):
    """In place of the loop: time passes as a test says, with callbacks at their own moments."""

    def __init__(self) -> None:
        self.is_watchful = False
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = count()

    @property
    def quiet_at(self) -> float:
        return self.now

    def call_at(self, moment: float, callback: Callable[[], object]) -> Timer:
        timer = Timer()
        timer.callback = callback
        heapq.heappush(self._timers, (max(moment, self.now), next(self._order), timer))
        return timer

    def call_soon(self, callback: Callable[[], object]) -> Timer:
        return self.call_at(0, callback)

    def advance(self, seconds: float, met: Callable[[], bool] = lambda: False) -> None:
        """Lets time pass, until something is the case."""
        until = self.now + seconds
        while not met() and self._timers and self._timers[0][0] <= until:
            at, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, at)
            if timer.callback is not None:
                timer.callback()
        if not met():
            self.now = max(self.now, until)

    @property
    def is_idle(self) -> bool:
        return all(timer.callback is None for *_, timer in self._timers)


class Loop(Protocol):
    """What a program needs of a loop."""

    def time(self) -> float:
        """The time."""

    def call_soon(self, callback: Callable[[], object]) -> object:
        """Calls back in the loop's next turn."""


class PlayedProgram:
    """A program that ends when it is told to."""

    ending = ""
    stdout = b""
    """What it has printed so far."""
    max_stdout = 1 << 20

    def __init__(self, clock: Loop, name: str, on_end: Callable[[Any], object]) -> None:
        self.clock, self.name, self.on_end = clock, name, on_end
        self.started = clock.time()
        self.pid = 1
        self.status: int | None = None

        self.trace, self.title = UNTRACED, name

    @property
    def too_long(self) -> bool:
        return len(self.stdout) > self.max_stdout

    def leave(self, on_end: Callable[[Any], object]) -> None:
        assert self.status is None
        self.on_end = on_end

    def kill(self) -> None:
        self.clock.call_soon(lambda: self.end(-9))

    def end(self, status: int) -> None:
        if self.status is None:
            self.status = status
            self.on_end(self)
