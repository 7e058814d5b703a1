"""One process in a history: its loop, its programs, and what the kernel does when it stops or ends."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from functools import partial
from itertools import count
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, Any

from v010_adapter.base.loop import Timer

from ..rig.waiting import LIMIT

if TYPE_CHECKING:
    from .world import World


class Ended(BaseException):
    """The process ends here: what follows in its code does not happen."""


class Clock:
    """The time of a node, and what is to happen."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()

    def call_at(self, moment: float, callback: Callable[[], object]) -> None:
        heapq.heappush(self._heap, (max(moment, self.now), next(self._order), callback))

    def run(self, until: float, met: Callable[[], bool] = lambda: False) -> None:
        """Lets time pass, until something is the case."""
        while not met() and self._heap and self._heap[0][0] <= until:
            at, _, callback = heapq.heappop(self._heap)
            self.now = max(self.now, at)
            callback()
        if not met():
            self.now = max(self.now, until)


class Life:
    """The loop of a process. Each callback has a thread of its own, so that the process can be stopped inside it."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.is_dead = self.is_stopped = False
        self.is_ready = False
        """Whether the connection has something to read."""
        self.is_inside = False
        """Whether it is stopped inside a callback."""
        self.noting: tuple[int, str] | None = None
        """The create that has been noted last, by event and plugin, until its plugin has the request."""
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
        self._switch(Thread(target=self._call, args=(callback,), daemon=True).start)

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


class Program:
    """A run of a plugin, in place of a process."""

    last_line = ending = ""
    too_long = False

    def __init__(self, world: World, life: Life, program: Any, on_end: Callable[[Any], object], *_: object) -> None:
        world.point("spawn")
        self.world, self.life, self._on_end = world, life, on_end
        self.name = self.title = program.name
        self.stdout = b""
        self.started = world.clock.now
        self.pid = 1
        self.status: int | None = None
        self.is_noted = False
        """Whether the adapter has dealt with its end."""
        self.number, self.id, self.kind = -1, "", ""
        self.fed = self.ends = 0.0
        self.fails = False
        self.order = -1

    def __repr__(self) -> str:
        return f"{self.fed:.5f} {self.kind} {self.name} {self.id} (event {self.number}) by {self.life}"

    def feed(self, request: bytes) -> None:
        world = self.world
        world.point("before feed")
        body = json.loads(request)
        self.id, self.kind = body["id"], body["state"]
        self.number = int(call) if (call := str(body.get("labels", {}).get("call", "-1"))).lstrip("-").isdigit() else -1
        self.fed = world.clock.now
        kind = world.dice.random()
        self.ends = self.fed + (0.001 if kind < 0.85 else 0.4 if kind < 0.95 else 4.0)
        self.fails = self.kind != "delete" and world.dice.random() < 0.02
        self.order = len(world.trace)
        world.trace.append(self)
        self.life.noting = None
        world.say(f"RUN {self}, {self.ends - self.fed:.3f} s")
        self.life.call_at(self.ends, self._end)
        world.point("after feed")

    def _end(self) -> None:
        output: dict[str, Any] = {"error": "broken"} if self.fails else {}
        if self.name == "q" and not self.fails and self.kind == "create":
            output = {"spec": {"annotations": {"q": str(self.order)}}}
        self.stdout = json.dumps(output).encode()
        self.end(0)

    def end(self, status: int) -> None:
        if self.status is None:
            self.status = status
            self._on_end(self)
            self.is_noted = True

    def leave(self, on_end: Callable[[Any], object]) -> None:
        self._on_end = on_end

    def kill(self) -> None:
        if self.status is None:
            self.ends, self.fails = min(self.ends, self.world.clock.now), True
        self.life.call_soon(lambda: self.end(-9))
