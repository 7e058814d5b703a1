"""Random histories of a node whose adapter is killed, replaced and started again, all with one state directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adapter.base.loop import Timer
from adapter.daemon.bridge import Bridge
from adapter.host.lock import Lock
from adapter.legacy.job import PluginJob
from adapter.owed.handover import GLANCE

from .histories import CONTAINERS, PODS, History, Program, Try
from .judge import Judge
from .owning import Held
from .played import Clock


class Life:
    """The loop of one adapter: what it has asked for does not come any more when the adapter is dead."""

    def __init__(self, clock: Clock, owner: Held) -> None:
        self.clock, self.owner = clock, owner
        self.is_dead = False
        self._watched: dict[int, Callable[[], object]] = {}
        self.lateness: Callable[[], float] = lambda: 0.0
        """Returns the seconds after which the loop looks at a descriptor that has become ready."""
        self.on_end: list[Callable[[], object]] = []
        """What the kernel does when the process ends."""
        self.bridge: Bridge

    def time(self) -> float:
        return self.clock.time()

    def call_at(self, moment: float, callback: Callable[[], object]) -> Timer:
        return self.clock.call_at(moment, lambda: self.is_dead or callback())

    def call_soon(self, callback: Callable[[], object]) -> Timer:
        return self.call_at(0, callback)

    def watch(self, fd: int, callback: Callable[[], object]) -> None:
        self._watched[fd] = callback

    def unwatch(self, fd: int) -> None:
        self._watched.pop(fd, None)

    def become_ready(self, fd: int) -> None:
        """Lets what watches a descriptor look at it."""
        if fd in self._watched and not self.is_dead:
            self.call_at(self.time() + self.lateness(), partial(self._look, fd))

    def _look(self, fd: int) -> None:
        if fd in self._watched:
            self._watched[fd]()

    def end(self) -> None:
        """Closes what the end of a process closes."""
        if self.is_dead:
            return
        self.is_dead = True
        self.owner.die()
        for close in self.on_end.copy():
            close()
        self.bridge.ledger.resume_from(None)


class Lives(History):
    """One history of several adapters, which have one state directory."""

    HAPPENINGS: Mapping[str, int] = {"event": 55, "reconfigure": 5, "kill": 5, "replace": 5, "rejoin": 3, "wait": 27}

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.directory = directory
        self.lives: list[Life] = []
        self.may_repeat: set[tuple[str, str]] = set()
        """Ids and plugins whose delete ran when its adapter was killed."""
        self._repeatable_at: list[tuple[int, tuple[str, str]]] = []
        self._life_of: dict[Program, Life] = {}
        super().__init__(seed, monkeypatch)

    def begin(self, clock: Any, lock: Lock | None = None) -> Bridge:
        life = Life(clock, Held(str(self.directory)))
        self.lives.append(life)
        life.bridge = super().begin(life, life.owner)
        return life.bridge

    def jobs(self) -> list[PluginJob]:
        return [job for life in self.lives if not life.is_dead for job in self.queues[life.bridge].jobs]

    def _spawn(self, loop: Any, *rest: Any) -> Program:
        program = super()._spawn(loop, *rest)
        on_end = program.on_end
        program.on_end = lambda ended: loop.is_dead or on_end(ended)
        self._life_of[program] = loop
        return program

    # What happens

    def begin_to_serve(self) -> None:
        self.take_over()

    def finish(self) -> None:
        super().finish()
        for life in self.lives:
            life.end()

    def send(self, event: str, id_: str, within: float) -> None:
        self._gone.discard(id_)
        super().send(event, id_, within)

    def take_over(self) -> None:
        assert self.lives[-1].owner.take()
        pods, containers = self.listed()
        self.bridge.take_over([*(pod.id for pod in pods), *(container.id for container in containers)])
        self.bridge.synchronize(pods, containers)

    def kill(self) -> None:
        """The adapter is killed; another is started, perhaps when events have been missed."""
        self.end_in_between(self.lives[-1])
        self.miss_some()
        self.begin(self.clock)
        self.bridge = self.lives[-1].bridge
        self.take_over()

    def end_in_between(self, life: Life) -> None:
        """Ends a life, whatever is under way."""
        running = [program for program in self.alive if self._life_of[program] is life]
        for tried in self.trace:
            if tried.call.is_delete and tried.program in running:
                self._repeatable_at.append((len(self.trace), (tried.call.id, tried.type)))
        life.end()

    def miss_some(self) -> None:
        """Something happens perhaps while no adapter is there."""
        elsewhere = {job.target.id for job in self.jobs()}
        for id_ in self.dice.sample([*CONTAINERS, *PODS], self.dice.choice((0, 0, 1, 2))):
            if id_ not in elsewhere:  # three adapters in ten seconds, and a pod that goes unseen: not promised
                self.happen_unseen(id_)

    def happen_unseen(self, id_: str) -> None:
        if id_ in self._running:
            self._running.discard(id_)
            self._gone.add(id_)
        elif id_ in CONTAINERS:
            self._running.add(id_)

    def replace(self) -> None:
        """Another adapter is started, then this one gets SIGTERM; perhaps the other takes over only at an event."""
        old = self.lives[-1]
        if not old.owner.is_alone:
            return  # it would go on to serve until the previous adapter it has ended
        self.begin(self.clock)
        self.bridge = self.lives[-1].bridge
        assert not self.lives[-1].owner.take()
        old.bridge.release()
        old.bridge.when_idle(lambda: self.clock.call_soon(old.end))
        if old.owner.is_held:  # it has not looked yet whether the adapter before it has ended
            self.clock.advance(GLANCE)
        at_event = self.dice.random() < 0.5
        self.take_over()
        if at_event:
            self.event()

    def rejoin(self) -> None:
        owner = self.lives[-1].owner
        self.bridge.release()
        self.bridge.on_runtime_gone()
        self.clock.advance(self.dice.choice((0.0, 1.0, 3.0, 40.0)))
        assert owner.take()
        self.bridge.synchronize(*self.listed())

    # What became of it

    def judge(self) -> None:
        """Each create that was fed has one delete; a delete may repeat whose adapter was killed; a create never."""
        judge = Judge(self)
        owed: set[tuple[str, str]] = set()
        may_repeat: set[tuple[str, str]] = set()
        kills = iter([*self._repeatable_at, (len(self.trace) + 1, ("", ""))])
        at, killed = next(kills)
        for number, each in enumerate(self.trace):
            while at <= number:
                may_repeat.add(killed)
                at, killed = next(kills)
            self.judge_try(judge, each, owed, may_repeat)
        assert not owed, f"creates without a delete: {owed}"
        for call in self.calls:
            fed = [each.type for each in call.tries if each.program is not None and not self.runs_again(each)]
            assert call.is_unasked or len(fed) == len(set(fed)), f"{call}: a plugin ran twice"

    def runs_again(self, _each: Try) -> bool:
        """Whether the event may come to another adapter, too, and the plugin run there."""
        return False

    def judge_try(self, judge: Judge, each: Try, owed: set[tuple[str, str]], may_repeat: set[tuple[str, str]]) -> None:
        key = each.call.id, each.type
        if each.program is None:
            return
        if each.call.is_create and judge.owes(each.type, each.call.id):
            owed.add(key)
            may_repeat.discard(key)
        elif each.call.is_delete and key in owed:
            owed.discard(key)
        elif each.call.is_delete and not judge.runs_without_create(each.type, each.call):
            assert key in may_repeat, f"{each.call}: {each.type}: a delete without a create"
            may_repeat.discard(key)
