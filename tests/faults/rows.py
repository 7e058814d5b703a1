"""The rows of the table: what is done to a node, and what must be true afterwards."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from threading import Event, Thread

from tests.e2e.pod import HarnessError as Finding

from .node import LIMIT, NAME, STEPS, GoNode, PodLife, balance

ENDS, CONTAINERS = 12, 100
KILL, STOP, TERMINATE, INTERRUPT = signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT
"""Of the row with three adapters."""
FAULTS = {
    "error": "plugin: legacy-fp: as told",
    **dict.fromkeys(("half", "mute", "deaf"), "plugin: legacy-fp: no result"),
    "flood": "plugin: legacy-fp: ",
    **dict.fromkeys(("noise", "linger"), ""),
    **dict.fromkeys(("slow", "hang"), "plugin: legacy-fp: no result within"),
}
"""Faults of the program, each with part of the runtime's error at a create; empty: the create succeeds."""
CHANGED = {"create": "StartContainer", "delete": "StopContainer"}
"""The event at which the program runs in this state for a container."""


def start(node: GoNode) -> str:
    node.start_runtime()
    if node.form == "external":
        node.start_external()
    node.joins()
    return ""


def ends(node: GoNode, *lives: PodLife, kills: int = 0, excused: Collection[str] = ()) -> str:
    ids = {part["id"] for life in lives for part in life}
    node.until(lambda: not ids & node.owed(), "that nothing is owed")
    return balance(node.notes(), ids, kills, excused)


def program_fault(node: GoNode, fault: str, error: str, state: str) -> str:
    life, first = PodLife.make(f"{fault}-{state}"), STEPS.index(CHANGED[state])
    node.plays(life, *STEPS[:first])
    with node.fault(state, life, fault):
        reply = node.play(STEPS[first], life)
    expected = error if state == "create" else ""
    if expected not in reply.error or bool(expected) != bool(reply.error) or reply.names != node.names:
        raise Finding(f"{STEPS[first]}: {reply.error!r}, then there are {reply.names}")
    node.plays(life, *STEPS[first + 1 :])
    return ends(node, life)


def kill_between(node: GoNode) -> str:
    life = PodLife.make("a")
    node.plays(life, *STEPS[:2])
    node.kill()
    node.rejoins()
    node.plays(life, *STEPS[2:])
    return ends(node, life)


def kill_during(node: GoNode, state: str) -> str:
    life = PodLife.make("a")
    first = STEPS.index(CHANGED[state])
    node.plays(life, *STEPS[:first])
    with node.fault(state, life, "hold", node.kill):
        if error := node.play(STEPS[first], life).error:
            raise Finding(error)
    node.rejoins()
    node.plays(life, *STEPS[first + 1 :])
    return ends(node, life, kills=int(state == "delete"))


def new_runtime(node: GoNode) -> str:
    life, other = PodLife.make("a"), PodLife.make("b")
    for each in (life, other):
        node.plays(each, *STEPS[:2])
    pidfds = list(map(os.pidfd_open, node.pids()))
    node.runtime.kill()
    other.container["state"] = "CONTAINER_STOPPED"  # while there is no runtime
    if node.form == "launched":
        for fd in pidfds:
            if not select.select([fd], [], [], 60)[0]:
                raise Finding("what the old runtime has launched does not end")
    node.start_runtime()
    node.joins()
    node.until(lambda: node.notes()[f"delete:{other.container['id']}"], "the delete of what stopped meanwhile")
    for each in (life, other):
        node.plays(each, *STEPS[2:])
    for fd in pidfds:
        os.close(fd)
    return ends(node, life, other)


def new_runtime_during(node: GoNode, state: str) -> str:
    """The old server finishes what it has under way; the adapter of the new runtime neither repeats nor forgets it."""
    life = PodLife.make("a")
    first = STEPS.index(CHANGED[state])
    node.plays(life, *STEPS[:first])
    with node.fault(state, life, "hold", node.runtime.kill), suppress(RuntimeError):
        node.play(STEPS[first], life)
    life.container["state"] = "CONTAINER_RUNNING" if state == "create" else "CONTAINER_STOPPED"
    node.start_runtime()
    node.joins()
    node.plays(life, *STEPS[first + 1 :])
    return ends(node, life)


def handover(node: GoNode) -> str:
    """SIGTERM during a create; a second adapter waits."""
    life, first = PodLife.make("a"), node.pids()[0]
    node.start_external("01")
    node.names = ["00-v010-adapter", "01-v010-adapter"]
    node.until(lambda: node.runtime.play("plugins").names == node.names, "the second adapter")
    node.plays(life, "RunPodSandbox")
    with node.fault("create", life, "hold", lambda: os.kill(first, signal.SIGTERM)):
        if error := node.play("StartContainer", life).error:
            raise Finding(error)
    node.names = ["01-v010-adapter"]
    node.until(lambda: node.runtime.play("plugins").names == node.names, "the end of the first adapter")
    node.plays(life, *STEPS[2:])
    return ends(node, life)


class Traffic:
    """Pods that live and die in random order, five at a time.

    An event takes less than `limit` microseconds. `tolerated` are parts of errors that an event may have.
    """

    def __init__(self, node: GoNode, rng: random.Random, limit: int = LIMIT, tolerated: tuple[str, ...] = ()) -> None:
        self._limit, self._tolerated = limit, tolerated
        self.events = 0
        self.lives: list[PodLife] = []
        self.creates: dict[str, tuple[float, float]] = {}  # when they were under way, by what was created
        self.spans: list[tuple[PodLife, tuple[float, float]]] = []  # when each event was under way
        self._node, self._rng = node, rng
        self._open: dict[int, int] = {}

    def step(self) -> None:
        if len(self._open) < 5:
            self._open[len(self.lives)] = 0
            self.lives.append(PodLife.make(str(len(self.lives))))
        self._advance(self._rng.choice(list(self._open)))

    def _advance(self, number: int) -> None:
        event, life, begin = STEPS[self._open[number]], self.lives[number], time.monotonic()
        reply = self._node.play(event, life, self._limit)
        if reply.error and not any(part in reply.error for part in self._tolerated):
            raise Finding(reply.error)
        if not reply.names and (error := self._node.runtime.play("wait", plugin=NAME).error):
            raise Finding(error)
        if event in {"RunPodSandbox", "StartContainer"} and not reply.error:
            of = life.pod if event == "RunPodSandbox" else life.container
            self.creates[of["id"]] = begin, time.monotonic()
        self.spans.append((life, (begin, time.monotonic())))
        self.events += 1
        self._open[number] += 1
        if self._open[number] == len(STEPS):
            del self._open[number]

    def finish(self) -> None:
        while self._open:
            self._advance(next(iter(self._open)))


def kill_loop(node: GoNode, kills: int, seed: int) -> str:
    rng = random.Random(seed)  # noqa: S311 - no secret
    moments = [rng.uniform(0, 2) for _ in range(kills)]
    killed: list[float] = []
    stop = Event()

    def kill() -> None:
        for moment in moments:
            if stop.wait(moment):
                return
            node.kill()
            killed.append(moment)

    traffic, killer = Traffic(node, rng), Thread(target=kill)
    killer.start()
    try:
        while killer.is_alive():
            traffic.step()
    finally:
        stop.set()
        killer.join()
    if len(killed) < kills:
        raise Finding(f"only {len(killed)} kills")
    node.rejoins()
    traffic.finish()
    return f"{traffic.events} events, {ends(node, *traffic.lives, kills=kills)}"


class Adapter:
    """One of three. `process` is None for the one that the runtime has launched, as long as that lives."""

    def __init__(self, node: GoNode, index: str) -> None:
        self.node, self.index = node, index
        self.process = node.externals[-1] if node.externals else None
        self._has_first_server = True

    def is_joined(self) -> bool:
        of_runtime = self.node.launched if self._has_first_server else self.node.server
        return (self.process.pid if self.process is not None else of_runtime) in self.node.joined()

    def end(self, how: signal.Signals) -> None:
        """Ends it, and sees to it that another follows: a guard does so for a server that is killed or stopped."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
        else:
            is_servers = how in {KILL, STOP}
            pid = self.node.server if is_servers else self.node.guard
            pidfd = os.pidfd_open(pid)
            os.kill(pid, how)
            has_ended = select.select([pidfd], [], [], 60)[0]
            os.close(pidfd)
            if not has_ended:
                raise Finding(f"{how.name} does not end process {pid}")
            if is_servers:
                self._has_first_server = False
                return
        self.node.start_external(self.index)
        self.process = self.node.externals[-1]


def three(node: GoNode, seed: int) -> str:
    """No create is lost but those under way at a kill, and none runs twice."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    adapters = [Adapter(node, "00")]
    for index in ("01", "02"):
        node.start_external(index)
        adapters.append(Adapter(node, index))
    traffic, kills = Traffic(node, rng), list[float]()

    def are_joined() -> bool:
        return all(adapter.is_joined() for adapter in adapters)

    def end(adapter: Adapter, how: signal.Signals, pause: float) -> None:
        select.select([], [], [], pause)
        if how in {KILL, STOP}:
            kills.append(time.monotonic())
        adapter.end(how)

    node.until(are_joined, "three adapters")
    for number in range(ENDS):
        adapter, how = rng.choice(adapters), rng.choice([KILL, TERMINATE, STOP])
        if how is STOP and adapter.process is not None:  # nobody replaces it
            how = INTERRUPT if number % 2 else KILL
        ender = Thread(target=end, args=(adapter, how, rng.uniform(0, 0.05)))
        ender.start()
        while ender.is_alive() or len(traffic.lives) < (number + 1) * CONTAINERS // ENDS:
            traffic.step()
        ender.join()
        node.until(are_joined, f"three adapters after {how.name}")
    traffic.finish()
    notes = node.notes()
    lost = [id_ for id_ in traffic.creates if not notes[f"create:{id_}"]]
    figures = ends(node, *traffic.lives, kills=len(kills))
    for id_ in lost:
        begin, end_ = traffic.creates[id_]
        if not any(begin <= kill <= end_ for kill in kills):
            raise Finding(f"{figures}; lost though no kill was near: {id_}")
    return f"{traffic.events} events, {len(kills)} kills of {ENDS} ends, {figures}, {len(lost)} creates lost to kills"


ADAPTER_FAULTS: dict[str, Callable[[GoNode], str]] = {
    "SIGKILL between create and delete": kill_between,
    "SIGKILL during a create": partial(kill_during, state="create"),
    "SIGKILL during a delete": partial(kill_during, state="delete"),
    "runtime killed, a new one started": new_runtime,
    "runtime killed during a create": partial(new_runtime_during, state="create"),
    "runtime killed during a delete": partial(new_runtime_during, state="delete"),
    "SIGTERM during a create, another waits": handover,
}
