"""The rows of the table: what is done to a node, and what must be true afterwards."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from threading import Event, Thread

from tests.e2e.pod import HarnessError as Finding
from tests.peers.harness import NAME
from tests.rig.processes import is_running

from .node import LIMIT, STEPS, GoNode, PodLife, balance

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
    if expected not in reply.error or bool(expected) != bool(reply.error) or reply.names != [NAME]:
        raise Finding(f"{STEPS[first]}: {reply.error!r}, then there are {reply.names}")
    node.plays(life, *STEPS[first + 1 :])
    return ends(node, life)


def new_runtime(node: GoNode) -> str:
    life, other = PodLife.make("a"), PodLife.make("b")
    for each in (life, other):
        node.plays(each, *STEPS[:2])
    launched = node.launched, node.guard, node.server
    node.runtime.kill()
    other.container["state"] = "CONTAINER_STOPPED"  # while there is no runtime
    if node.form == "launched":
        node.until(lambda: not any(map(is_running, launched)), "the end of what the old runtime has launched")
    node.start_runtime()
    node.joins()
    node.until(lambda: node.notes()[f"delete:{other.container['id']}"], "the delete of what stopped meanwhile")
    for each in (life, other):
        node.plays(each, *STEPS[2:])
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


def filled(node: GoNode) -> str:
    """Others have filled the disk of the state directory, and it stays so: the adapter has a reserve."""
    node.terminate_externals()
    state = node.directory / "state"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "none", state], check=False).returncode:
        return "not done: this process may not mount"
    try:
        node.start_external()
        node.rejoins()
        with suppress(OSError), (state / "filler").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        life = PodLife.make("full")
        node.plays(life, *STEPS[:2])
        if len(node.owed()) < len(life):
            raise Finding("the reserve was not used")
        node.kill()
        node.rejoins()
        node.plays(life, *STEPS[2:])
        return ends(node, life)
    finally:
        node.terminate_externals()
        subprocess.run(["umount", "-l", state], check=True)


ADAPTER_FAULTS: dict[str, Callable[[GoNode], str]] = {
    "runtime killed, a new one started": new_runtime,
    "runtime killed during a create": partial(new_runtime_during, state="create"),
    "runtime killed during a delete": partial(new_runtime_during, state="delete"),
}
EXTERNAL_FAULTS: dict[str, Callable[[GoNode], str]] = {"a full state directory, then SIGKILL": filled}
"""A mount over the directory is to be there before the adapter, which this one starts."""
