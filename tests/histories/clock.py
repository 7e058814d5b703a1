"""The loop of one process on the clock of a node, with what the kernel does when that stops or ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Semaphore, Thread
from typing import TYPE_CHECKING

from v010_adapter.base.loop import Timer

from ..rig.waiting import LIMIT

if TYPE_CHECKING:
    from .event import Call
    from .run import Run
    from .world import World


class Ended(BaseException):
    """The process ends here: what follows in its code does not happen."""


class Life:
    """The loop of a process. Where it may be stopped inside a callback, each callback has a thread of its own."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.is_dead = self.is_stopped = False
        self.is_ready = False
        """Whether the connection has something to read."""
        self.is_inside = False
        """Whether it is stopped inside a callback."""
        self.call: Call | None = None
        """The event that has been read last."""
        self.starting: Run | None = None
        """The program that has been started last."""
        self.timers: list[Timer] = []
        self.is_watchful = False
        self.quiet_at = 0.0
        """A time at which the connection had nothing to read."""
        self._parked: list[Timer] = []
        self._parked_reads: list[Timer] = []
        """Timers that are due come before what there is to read."""
        self._has_gone_on, self._is_back = Semaphore(0), Semaphore(0)

    def __str__(self) -> str:
        return self.name

    def time(self) -> float:
        return self.world.clock.now

    def call_at(self, moment: float, callback: Callable[[], object]) -> Timer:
        timer = Timer()
        timer.callback = callback
        self.timers.append(timer)
        self.world.clock.call_at(moment, partial(self._run, timer))
        return timer

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.call_at(0, callback)

    def call_ready(self, callback: Callable[[], object]) -> None:
        """Calls back as soon as the process sees that it can read."""
        timer = Timer()
        timer.callback = callback
        self.world.clock.call_at(0, partial(self._run, timer, is_read=True))

    def watch(self, fd: int, callback: Callable[[], object]) -> None:
        raise AssertionError("nothing is watched here")

    def _run(self, timer: Timer, *, is_read: bool = False) -> None:
        if self.is_dead or timer.callback is None:
            return
        if self.is_stopped:
            (self._parked_reads if is_read else self._parked).append(timer)
            return
        callback = timer.callback
        timer.cancel()
        call = partial(self._call, callback)
        self._switch(Thread(target=call, daemon=True).start if self.world.can_stop else call)

    def _switch(self, begin: Callable[[], object]) -> None:
        """Lets a thread run until the callback ends, or is stopped."""
        before, self.world.current = self.world.current, self
        begin()
        assert self._is_back.acquire(timeout=LIMIT), f"{self} does not come back"
        if not self.is_stopped and not self.is_ready:
            self.quiet_at = self.world.clock.now
        self.world.current = before

    def _call(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Ended:
            pass
        except BaseException as bug:  # it is raised in the main thread
            self.world.bugs.append(bug)
        self._is_back.release()

    def pause(self) -> None:
        """Stops the callback that runs, until the process goes on."""
        self.is_inside = True
        self._is_back.release()
        self._has_gone_on.acquire()
        if self.is_dead:
            raise Ended

    def go_on(self) -> None:
        """Lets a stopped process go on, or end if it is dead."""
        self.is_stopped = False
        if self.is_inside:
            self.is_inside = False
            self._switch(self._has_gone_on.release)
        parked, reads, self._parked, self._parked_reads = self._parked, self._parked_reads, [], []
        for timer in parked:
            self.world.clock.call_at(0, partial(self._run, timer))
        for timer in reads:
            self.world.clock.call_at(0, partial(self._run, timer, is_read=True))
