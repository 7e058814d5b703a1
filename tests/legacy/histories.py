"""Random histories of a node: events, plugins that are late, broken or gone, runtimes that go and come back.

No process runs: programs are scripted here and the clock is moved.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any, NoReturn

import pytest

from nri import Context, Deferred, api
from v010_adapter.errors import ConfigError, PluginError
from v010_adapter.events.work import PluginWork, Queue
from v010_adapter.legacy.config import Config, Entry
from v010_adapter.legacy.plan import PluginStep
from v010_adapter.programs import process
from v010_adapter.settings import LegacySettings, PluginSettings

from ..rig.holder import PlayedHolder
from ..rig.serving import Alone, PluginServing
from .played import Clock, PlayedProgram

OK = b"{}"
ERROR = b'{"error":"broken"}'
OUTPUTS = (OK, OK, OK, ERROR, b'{"plugin":', b"", b"\xff", b"{}x", b"null", b"x" * ((1 << 20) + 1))
"""What programs print; besides ERROR only those in GOOD are results."""
GOOD = (OK, b"null")
MOMENTS = (0.0, 0.001, 0.5, 1.7, 1.89, 1.91, 2.5, 5.0, 31.0, 70.0, None)
"""Seconds after its start at which a program prints or exits; None for never."""
PODS = ("pod0", "pod1")
RUNNING, CREATED = api.CONTAINER_RUNNING, api.CONTAINER_CREATED
CONTAINERS = {"c0": "pod0", "c1": "pod0", "c2": "pod1"}
LISTS = (
    "StartContainer StopContainer",
    "StartContainer PostStartContainer StopContainer RemoveContainer RunPodSandbox StopPodSandbox",
    "StartContainer RemoveContainer UpdateContainer",
    "PostCreateContainer UpdateContainer StopContainer",
    "RunPodSandbox RemovePodSandbox UpdatePodSandbox",
    "StopContainer StopPodSandbox",
    "",
)
"""Plugins' lists of events."""
EVENTS = {
    "RunPodSandbox": 3,
    "UpdatePodSandbox": 1,
    "StopPodSandbox": 3,
    "RemovePodSandbox": 2,
    "PostCreateContainer": 1,
    "StartContainer": 8,
    "PostStartContainer": 2,
    "UpdateContainer": 2,
    "StopContainer": 8,
    "RemoveContainer": 4,
}
"""How often each comes, compared with the others."""


class Call:
    """An event as the runtime sees it."""

    def __init__(self, number: int, event: str, id_: str, pod: str, within: float, now: float, size: int = 0) -> None:
        self.number, self.event, self.id, self.pod = number, event, id_, pod
        self.came = now
        self.due = now + within - min(0.1 + size * 0.2e-6, max(within, 0) / 2)
        """When it must be answered; an event of 4 MB is due 0.8 s earlier, for to make its answer takes time."""
        self.answers: list[tuple[float, Exception | None]] = []
        self.config: Config | None = None
        """The conf.json that was in force."""
        self.is_dropped = False
        """Whether the runtime had gone before any program was started for it."""
        self.was_late = False
        """Whether it had been answered then."""
        self.waits = False
        """Whether it was not done with at once, so that other events may have to wait for it."""
        self.is_unasked = False
        """Whether no event asked for it: a delete that could not be started is tried again."""
        self.tries: list[Try] = []

    @property
    def is_delete(self) -> bool:
        return self.event.startswith(("Stop", "Remove"))

    @property
    def is_create(self) -> bool:
        return not self.is_delete and "Update" not in self.event

    def __repr__(self) -> str:
        return f"#{self.number} {self.event} {self.id} at {self.came:.3f}"


class Try:
    """The start of a program for an event; `program` is None if it could not be started."""

    def __init__(self, call: Call, type_: str, now: float) -> None:
        self.call, self.type, self.started = call, type_, now
        self.is_late = bool(call.answers)
        self.program: Program | None = None
        self.request: Mapping[str, Any] = {}


class Program(PlayedProgram):
    """Prints and ends at moments that the dice have chosen."""

    def __init__(self, history: History, name: str, on_end: Callable[[Any], object]) -> None:
        super().__init__(history.clock, name, on_end)
        self.history = history
        if history.dice.random() < 0.05:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        self.output = history.dice.choice(OUTPUTS)
        self.exits, self.prints = history.moment(), history.moment()
        if self.exits is not None:
            self.prints = min(self.exits, self.prints or self.exits)
        self.is_fed = False
        history.alive.append(self)

    def feed(self, request: bytes) -> None:
        assert not self.is_fed
        self.is_fed = True
        self.history.is_fed(self, json.loads(request))
        if self.exits is not None:
            self.clock.call_at(self.exits, lambda: self.end(0))

    @property
    def stdout(self) -> bytes:  # type: ignore[override]
        return self.output if self.prints is not None and self.prints <= self.clock.now else b""

    def end(self, status: int) -> None:
        if self.status is None:
            self.history.alive.remove(self)
        super().end(status)


class ConfFile:
    """In place of conf.json."""

    def __init__(self) -> None:
        self.now: Config | ConfigError = Config()

    @property
    def error(self) -> ConfigError | None:
        return self.now if isinstance(self.now, ConfigError) else None

    @property
    def fault(self) -> str:
        return str(self.error or "")

    def current(self) -> Config:
        if isinstance(self.now, ConfigError):
            raise self.now
        return self.now


def _bug(message: str, *arguments: object, **_: object) -> NoReturn:
    """What the adapter logs as a bug of its own, and survives."""
    raise AssertionError(message % arguments)


class WatchedQueue(Queue):
    """A queue whose jobs a history knows."""

    def __init__(self, history: History, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._history = history
        history.add_queue(self)

    def submit(self, job: PluginWork) -> None:
        super().submit(self._history.noted(job))

    @property
    def jobs(self) -> list[PluginWork]:
        return [work for id_ in sorted(self.ids()) for work in self.of(id_)]


class WatchedWork(PluginWork):
    """A job whose starts of programs a history knows."""

    def __init__(self, history: History, *arguments: Any, **options: Any) -> None:
        self._history = history
        super().__init__(*arguments, **options)

    def _program(self, step: PluginStep) -> process.Program:
        assert self._history.starting is None, "two jobs start a program at once"
        self._history.starting = self
        try:
            return super()._program(step)
        finally:
            self._history.starting = None


class History:
    """One history; `play` it, then ask what became of it."""

    HAPPENINGS: Mapping[str, int] = {"event": 60, "reconfigure": 10, "rejoin": 3, "wait": 27}
    """The methods that `play` calls, and how often, compared with each other."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - no secret
        self.clock = Clock()
        self.calls: list[Call] = []
        self.trace: list[Try] = []
        """The programs in the order of their starts."""
        self.alive: list[Program] = []
        self.moments = MOMENTS if self.dice.random() < 0.7 else (0.0, 0.001, 0.5)
        self.are_removed = self.dice.random() < 0.5
        """Whether pods and containers are removed in the end; else their stop must be enough."""
        self.settings = self._settings()
        self.holder = self._made_holder()
        self.conf = ConfFile()
        self._unasked: dict[PluginWork, Call] = {}
        self.queues: dict[PluginServing, WatchedQueue] = {}
        self.starting: PluginWork | None = None
        """The job that starts a program."""
        monkeypatch.setattr("v010_adapter.events.deletes.PluginWork", partial(WatchedWork, self))
        monkeypatch.setattr("v010_adapter.events.serving.PluginWork", partial(WatchedWork, self))
        self.serving = self.begin(self.clock)
        self._running: set[str] = set()
        self._gone: set[str] = set()
        """Pods and containers that the runtime has no longer: what becomes of these is in test_owed and `lives`."""
        monkeypatch.setattr("v010_adapter.programs.process.Process", self._spawn)
        monkeypatch.setattr("v010_adapter.events.work.log.exception", _bug)
        monkeypatch.setattr("v010_adapter.legacy.find.find", self._find)

    def begin(self, clock: Any) -> PluginServing:
        """Returns the serving of a new adapter."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("v010_adapter.legacy.plugins.ConfigFile", lambda *_, **__: self.conf)
            patch.setattr("v010_adapter.events.deletes.Queue", partial(WatchedQueue, self))
            self.turns = Alone(self.clock.time)
            serving = PluginServing(clock, self.settings, self.turns, holder=self.holder)
        self.queues[serving] = self._queue
        return serving

    def add_queue(self, queue: WatchedQueue) -> None:
        self._queue = queue

    # What the serving is given

    def _made_holder(self) -> PlayedHolder | None:
        """Returns what holds containers; None if nothing does."""
        return None

    def _settings(self) -> LegacySettings:
        dice = self.dice

        def perhaps(*values: Any) -> Any:
            return dice.choice((None, None, *values))

        lists = [None] * 3 + [frozenset(names.split()) for names in LISTS]
        plugins = {
            name: PluginSettings(
                perhaps(True, False), perhaps(True, False), perhaps(0.3, 3.0), perhaps(True, False), perhaps(*lists)
            )
            for name in "abc"
        }
        return LegacySettings(
            fail_create=dice.random() < 0.5,
            fail_delete=dice.random() < 0.3,
            timeout=dice.choice((0, 0, 1.0)),
            kill_on_timeout=dice.random() < 0.3,
            plugins=plugins,
        )

    def noted(self, job: PluginWork) -> PluginWork:
        if isinstance(job, WatchedWork) and not (job.is_awaited or self._is_of_event(job)):
            call = Call(len(self.calls), job.event, job.target.id, job.target.sandbox_id, inf, self.clock.now)
            call.is_unasked = True
            call.answers.append((self.clock.now, None))
            self.calls.append(call)
            self._unasked[job] = call
        return job

    def _is_of_event(self, job: PluginWork) -> bool:
        """Whether a job that nobody waits for is that of an event which was left to another adapter."""
        number = int(json.loads(job.target.labels or b"{}").get("call", -1))
        return number >= 0 and self.calls[number].event == job.event

    def jobs(self) -> list[PluginWork]:
        return self.queues[self.serving].jobs

    def _find(self, type_: str, *_: object) -> str:
        if self.starting is None:
            return type_  # an adapter that waits asks whether the program is there
        call = self._unasked.get(self.starting) or self.calls[int(json.loads(self.starting.target.labels)["call"])]
        call.tries.append(Try(call, type_, self.clock.now))
        self.trace.append(call.tries[-1])
        if self.dice.random() < 0.05:
            raise PluginError(type_, "not found")
        return type_

    def _spawn(self, _: object, program: process.Program, on_end: Callable[[Any], object], *rest: Any) -> Program:
        return Program(self, program.name, on_end)

    def is_fed(self, program: Program, request: Mapping[str, Any]) -> None:
        tried = self.trace[-1]
        assert tried.program is None, "fed twice"
        assert tried.type == program.name, "another program was fed than was started"
        if not tried.call.is_unasked:
            assert tried.call.number == int(request["labels"]["call"]), "it was fed another event's request"
        assert request["id"] == tried.call.id
        tried.program, tried.request = program, request

    def moment(self) -> float | None:
        """Returns when a program that starts now does something; no two things happen at the same moment."""
        seconds = self.dice.choice(self.moments)
        return None if seconds is None else self.clock.now + seconds + self.dice.random() * 1e-4

    # What happens

    def play(self, steps: int) -> None:
        self.reconfigure()
        self.begin_to_serve()
        for _ in range(steps):
            getattr(self, self._any_of(self.HAPPENINGS))()
        self.finish()

    def _any_of(self, weights: Mapping[str, int]) -> str:
        (chosen,) = self.dice.choices([*weights], [*weights.values()])
        return chosen

    def begin_to_serve(self) -> None:
        self.serving.synchronize([], [])

    def wait(self) -> None:
        self.clock.advance(self.dice.choice((0.0, 0.0005, 0.3, 1.8, 1.95, 6.0, 32.0)))

    def event(self) -> None:
        event = self._any_of(EVENTS)
        id_ = self.dice.choice(PODS if event.endswith("PodSandbox") else list(CONTAINERS))
        self.send(event, id_, self.dice.choice((2.0, 2.0, 2.0, 0.3, 60.0, 0.0, -1.0)))

    def send(self, event: str, id_: str, within: float) -> None:
        within += self.dice.random() * 1e-4 if within > 0 else 0
        pod = CONTAINERS.get(id_, id_)
        number = len(self.calls)
        message = api.PodSandbox(id=pod, labels={"call": str(number)})
        request = getattr(api, f"{event}Request")(pod=message)
        if id_ in CONTAINERS:
            request.container.CopyFrom(api.Container(id=id_, pod_sandbox_id=pod))
        call = Call(number, event, id_, pod, within, self.clock.now, request.ByteSize())
        call.config = None if self.conf.error else self.conf.current()
        self.calls.append(call)
        jobs = set(self.queues[self.serving].jobs)
        try:
            answer = self.serve(
                request, Context(event, within, self.clock.time, self.clock.now, size=request.ByteSize())
            )
        except ConfigError as error:
            call.answers.append((self.clock.now, error))
        else:
            if isinstance(answer, Deferred):
                answer.then(lambda _, error: call.answers.append((self.clock.now, error)))
            else:
                call.answers.append((self.clock.now, None))
        call.waits = bool(set(self.queues[self.serving].jobs) - jobs - self._unasked.keys())
        (self._running.add if event in ("StartContainer", "RunPodSandbox") else self._running.discard)(id_)

    def serve(self, request: Any, context: Context) -> Any:
        return self.serving.serve(request, context)

    def reconfigure(self) -> None:
        if self.dice.random() < 0.1:
            self.conf.now = ConfigError("conf.json", "broken")
            return
        types = self.dice.sample("abc", self.dice.choice((0, 2, 3, 3)))
        number = json.dumps(f"conf {self.dice.randint(0, 9)}").encode()
        self.conf.now = Config("0.1", tuple(Entry(type_, 0, "0.1", number) for type_ in types))

    def rejoin(self) -> None:
        """The runtime goes, and comes back at once or later; events do not come meanwhile."""
        for call in self.calls:
            failed = any(error for _, error in call.answers)
            if not (call.tries or call.is_delete or failed or call.is_dropped):
                call.is_dropped, call.was_late = True, bool(call.answers)
        self.serving.on_runtime_gone()
        self.clock.advance(self.dice.choice((0.0, 1.0, 3.0, 40.0)))
        self.serving.synchronize(*self.listed())

    def listed(self) -> tuple[list[api.PodSandbox], list[api.Container]]:
        """Returns what the runtime has."""
        states = {id_: RUNNING if id_ in self._running else CREATED for id_ in CONTAINERS if id_ not in self._gone}
        containers = [
            api.Container(id=id_, pod_sandbox_id=CONTAINERS[id_], state=state) for id_, state in states.items()
        ]
        pods = [api.PodSandbox(id=id_, labels={"call": "-1"}) for id_ in PODS if id_ not in self._gone]
        return pods, containers

    def finish(self) -> None:
        """Everything stops, and is removed perhaps; then all programs end that never did."""
        for kind, ids in (("Container", list(CONTAINERS)), ("PodSandbox", list(PODS))):
            for id_ in ids:
                self.send(f"Stop{kind}", id_, 2.0)
                if self.are_removed:
                    self.send(f"Remove{kind}", id_, 2.0)
        self.clock.advance(31 * 4 * len(self.calls))
        idle: list[bool] = []
        self.serving.when_idle(lambda: idle.append(True))
        assert idle, "it is never idle"
        for program in self.alive[:]:
            program.end(0)
