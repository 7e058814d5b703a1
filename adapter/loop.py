"""The daemon's event loop: file descriptors that become ready, and moments that come.

Everything the daemon waits for is one or the other. epoll by hand, for asyncio would cost a third of the start-up
and of the memory that the whole daemon may take, and more time per event than the rest of the path.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import select
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

READ = select.EPOLLIN
WRITE = select.EPOLLOUT


BUG = "a bug: no callback should raise"


class Timer:
    """A callback at a moment; `cancel` forgets it."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        """Takes what to call."""
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Makes sure that it is not called any more."""
        self.callback = None


class Loop:
    """Calls back when descriptors are ready and when moments come, one thing at a time.

    A callback that raises is logged, and its descriptor is not watched any more.
    """

    def __init__(self) -> None:
        """Opens the epoll descriptor."""
        self._epoll = select.epoll()
        self._watched: dict[int, Callable[[], object]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._running = False
        self.time = time.monotonic
        """The clock of `call_at`, in seconds."""

    def watch(self, fd: int, callback: Callable[[], object], events: int = READ) -> None:
        """Calls `callback` whenever `fd` is ready for `events`, has hung up or has an error."""
        self._epoll.register(fd, events)
        self._watched[fd] = callback

    def modify(self, fd: int, callback: Callable[[], object], events: int) -> None:
        """Changes what a watched descriptor is watched for."""
        self._epoll.modify(fd, events)
        self._watched[fd] = callback

    def unwatch(self, fd: int) -> None:
        """Forgets a descriptor; to be called before it is closed."""
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def call_at(self, moment: float, callback: Callable[[], object]) -> Timer:
        """Calls `callback` once `time()` has reached `moment`."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (moment, next(self._order), timer))
        return timer

    def call_soon(self, callback: Callable[[], object]) -> Timer:
        """Calls `callback` before the loop waits again."""
        return self.call_at(0, callback)

    def stop(self) -> None:
        """Makes `run` return after the callback in hand."""
        self._running = False

    def run(self) -> None:
        """Serves until `stop` is called."""
        self._running = True
        poll, watched = self._epoll.poll, self._watched
        while self._running:
            ready = [(fd, watched.get(fd)) for fd, _ in poll(self._call_due_timers())]
            for fd, callback in ready:
                # An earlier callback may have stopped the loop, unwatched this descriptor, or put another in its place.
                if callback is None or watched.get(fd) is not callback or not self._running:
                    continue
                try:
                    callback()
                except Exception:
                    log.exception(BUG)
                    self.unwatch(fd)

    def close(self) -> None:
        """Closes the epoll descriptor."""
        self._epoll.close()

    def _call_due_timers(self) -> float:
        """Calls what is due; returns the seconds until the next timer, -1 without one."""
        timers = self._timers
        while timers and self._running:
            moment, _, timer = timers[0]
            if timer.callback is not None and (wait := moment - self.time()) > 0:
                return wait
            heapq.heappop(timers)
            callback, timer.callback = timer.callback, None
            try:
                if callback is not None:
                    callback()
            except Exception:
                log.exception(BUG)
        return -1 if self._running else 0
