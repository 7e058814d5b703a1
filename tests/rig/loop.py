"""A loop that goes step by step, with a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable

from v010_adapter.base.loop import READ, Loop, Timer

from .waiting import limit


class SteppedLoop(Loop):
    """A loop that can be run until something is the case, and whose time passes only when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.time = lambda: self.now
        self._met: Callable[[], bool] = lambda: False
        self._bugs: list[Exception] = []

    def until(self, met: Callable[[], bool], what: str = "") -> None:
        """Runs until a condition holds, which is looked at after each callback."""
        self._met = met
        with limit(what):
            while not met():
                self.run()
                self._complain()

    def settle(self, turns: int = 3) -> None:
        """Runs what is ready or due, without waiting for anything."""
        self._met = lambda: False
        for _ in range(turns):
            super().call_at(self.time(), self.stop)  # the machine may have started a moment ago
            with limit("the loop does not stop"):
                self.run()
            self._complain()

    @property
    def is_idle(self) -> bool:
        """Whether no timer runs."""
        return all(timer.callback is None for *_, timer in self._timers)

    def _complain(self) -> None:
        if self._bugs:
            raise self._bugs.pop()

    def advance(self, seconds: float) -> None:
        """Lets time pass; what is due then is called."""
        self.now += seconds
        self.settle()

    def watch(self, fd: int, callback: Callable[[], object], events: int = READ) -> None:
        super().watch(fd, self._checked(callback), events)

    def modify(self, fd: int, callback: Callable[[], object], events: int) -> None:
        super().modify(fd, self._checked(callback), events)

    def call_at(self, moment: float, callback: Callable[[], object]) -> Timer:
        return super().call_at(moment, self._checked(callback))

    def call_soon(self, callback: Callable[[], object]) -> None:
        super().call_soon(self._checked(callback))

    def _checked(self, callback: Callable[[], object]) -> Callable[[], object]:
        def checked() -> None:
            try:
                callback()
            except Exception as bug:
                self._bugs.append(bug)
                self.stop()
                raise
            if self._met():
                self.stop()

        return checked
