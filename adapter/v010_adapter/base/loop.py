"""The daemon's event loop: calls back when file descriptors are ready and when timers are due.

The loop uses epoll itself. asyncio would add a third to the daemon's start-up time and memory, and would take more time
for each event than the daemon's own code.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import select
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

BUG = "a bug: no callback should raise"
STALL = 0.02
"""A turn of the loop that takes longer than this, in seconds, is a stall."""
READ = select.EPOLLIN
HANG_UP = select.EPOLLHUP
WRITE = select.EPOLLOUT
CLOSED = -1
"""In place of a descriptor that is not open."""
AT_ONCE = 0.001
"""Seconds. After a shorter wait, the descriptors may have been ready before the wait."""
OVERSLEPT = 0.1
"""Seconds. If a wait takes longer than it should by more than this, the process was stopped (SIGSTOP) meanwhile.

This decides how much of a deadline counts as gone, never whose turn an event is.
"""
LONGEST_WAIT = 86400
"""Maximum seconds of one wait: epoll accepts no more than 24 days."""
SHORT_WAIT = 0.05
"""Maximum seconds of one wait while `is_watchful`. It is shorter than the reserve before a deadline."""
FEW_TIMERS = 100
"""With fewer timers than this, the heap is not compacted."""


class Timer:
    """A callback that is called at a given time; None if it has been called or cancelled."""

    callback: Callable[[], object] | None = None

    def cancel(self) -> None:
        """Makes sure that the callback is not called any more."""
        self.callback = None


NO_TIMER = Timer()
"""Stands for a timer that has not been set."""


class Loop:
    """Calls back when descriptors are ready and when timers are due, one callback at a time.

    An exception of a callback is logged, and its descriptor is not watched any more.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, Callable[[], object]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._compact_at = FEW_TIMERS
        """The number of timers at which cancelled timers are removed from the heap."""
        self._order = itertools.count()
        self._soon: list[Callable[[], object]] = []
        self._running = False
        self.time = time.monotonic
        """The clock of `call_at`, in seconds."""
        self.ready_since = 0.0
        """The earliest time at which the descriptors that are being served may have become ready."""
        self.quiet_at = self.time()
        """A time at which these descriptors were certainly not ready, even if the process was stopped since then."""
        self.is_watchful = False
        """Whether `quiet_at` must be recent, so that short stops of the process are noticed, at 20 turns a second."""
        self.has_hung_up = False
        """Whether the other end of the descriptor that is served now is closed. There may still be bytes to read."""
        self.stalls = 0
        """How often the callbacks of one turn took longer than STALL."""
        self.longest = 0.0
        """The seconds of the longest turn."""

    def watch(self, fd: int, callback: Callable[[], object], events: int = READ) -> None:
        """Calls `callback` whenever `fd` is ready for `events`, has hung up or has an error."""
        self._epoll.register(fd, events)
        self._watched[fd] = callback

    def modify(self, fd: int, callback: Callable[[], object], events: int) -> None:
        """Changes the callback and the events of a watched descriptor."""
        self._epoll.modify(fd, events)
        self._watched[fd] = callback

    def unwatch(self, fd: int) -> None:
        """Stops watching a descriptor, if it is watched. Call this before closing the descriptor."""
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def call_at(self, moment: float, callback: Callable[[], object]) -> Timer:
        """Calls `callback` once `time()` has reached `moment`."""
        if len(self._timers) >= self._compact_at:
            self._drop_cancelled()
        timer = Timer()
        timer.callback = callback
        heapq.heappush(self._timers, (moment, next(self._order), timer))
        return timer

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Calls `callback` after the descriptors that are ready now, before the loop waits."""
        self._soon.append(callback)

    def stop(self) -> None:
        """Makes `run` return after the current callback."""
        self._running = False

    def run(self) -> None:
        """Serves until `stop` is called."""
        self._running = True
        watched = self._watched
        last_poll = self.time()
        while self._running:
            last_poll, found = self._poll(last_poll, self._call_due_timers())
            callbacks = [*map(watched.get, dict(found))]
            for (fd, events), callback in zip(found, callbacks, strict=True):
                # An earlier callback may have stopped the loop, unwatched this descriptor, or put another in its place.
                if callback is None or watched.get(fd) is not callback or not self._running:
                    continue
                self.has_hung_up = bool(events & HANG_UP)
                try:
                    callback()
                except Exception:
                    log.exception(BUG)
                    self.unwatch(fd)
            if self._soon:
                soon, self._soon = self._soon, []
                for callback in soon:
                    _call(callback)

    def _poll(self, last_poll: float, wait: float) -> tuple[float, list[tuple[int, int]]]:
        """Returns the time, and the descriptors that are ready now or within `wait` seconds.

        A descriptor that is ready at once may have been ready since `last_poll`, the time of the previous call. After
        a wait that took too long, the process was stopped, perhaps since the wait began.
        """
        begun = self.time()
        if begun - last_poll > STALL:
            self.stalls += 1
            self.longest = max(self.longest, begun - last_poll)
        if self._soon:
            wait = 0
        elif self.is_watchful:
            wait = SHORT_WAIT if wait < 0 else min(wait, SHORT_WAIT)
            if begun - self.quiet_at > SHORT_WAIT and not self._epoll.poll(0):
                self.quiet_at = begun
        else:
            wait = min(wait, LONGEST_WAIT)
        found = self._epoll.poll(wait)
        now = self.time()
        was_stopped = wait >= 0 and now - begun > wait + OVERSLEPT
        self.ready_since = last_poll if now - begun < AT_ONCE else begun if was_stopped else now
        if now - begun >= AT_ONCE or not found:
            self.quiet_at = begun
        return now, found

    def close(self) -> None:
        """Closes the epoll descriptor."""
        self._epoll.close()

    def _drop_cancelled(self) -> None:
        """Removes cancelled timers from the heap. Most timers are deadlines, which are cancelled long before."""
        self._timers[:] = [entry for entry in self._timers if entry[2].callback is not None]
        heapq.heapify(self._timers)
        self._compact_at = max(FEW_TIMERS, 2 * len(self._timers))

    def _call_due_timers(self) -> float:
        """Calls the timers that are due; returns the seconds until the next timer, -1 without one."""
        timers = self._timers
        while timers and self._running:
            moment, _, timer = timers[0]
            callback = timer.callback
            if callback is not None and (wait := moment - self.time()) > 0:
                return wait
            heapq.heappop(timers)
            if callback is not None:
                timer.cancel()
                _call(callback)
        return -1 if self._running else 0


def _call(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        log.exception(BUG)
