"""A node in a random history: what the dice make of it, what was seen, and the faults that come.

The adapters are whole and real, all with one state directory. A kill closes what they have open; both a kill and a stop
come at any step, inside a callback, too.

Most histories are calm: one adapter, which has no fault but lost connections. There plugins may be as bad as they can
(`rough`), events may come in any order, also while others wait for their answers (`wild`), and the judge knows exactly
what must follow.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterable
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from v010_adapter.events.work import PluginWork
from v010_adapter.host.trust import off
from v010_adapter.legacy.config import Entry
from v010_adapter.settings import LegacySettings, PluginSettings

if TYPE_CHECKING:
    from .playing import Holder

from ..rig.played import PlayedLoop
from .clock import Ended, Life
from .event import Call, Event, Hold, Stop
from .peer import Peer
from .run import MOMENTS, Run
from .runtime import Runtime

CALM = 0.75
"""The part of the histories that are calm."""
FAULTS = ("kill", "kill", "kill", "stop", "stop", "stop", "lost", "term", "surge", "restart")
DISK = ("full", "removed", "garbled", "cut_file")
STEPS = 400
"""The steps of the adapters in which faults come."""
KINDS = {
    "conf": "conf.json changes",
    "missing": "plugins are not found for a while",
    "one place": "all ids share a place for notes",
    "one byte": "all pods share their locks",
}
"""What is unusual in a history."""
HOLDS = None, None, 0.0, 0.5, inf
"""When containers are held, by the seed: in three of five histories."""
TYPES = "abcd"
"""The plugins."""
LISTS = (
    "StartContainer StopContainer",
    "StartContainer PostStartContainer StopContainer RemoveContainer RunPodSandbox StopPodSandbox",
    "StartContainer RemoveContainer UpdateContainer",
    "PostCreateContainer UpdateContainer StopContainer",
    "RunPodSandbox RemovePodSandbox UpdatePodSandbox",
    "StopContainer StopPodSandbox",
    "CreateContainer UpdateContainer StopContainer",
    "CreateContainer RemoveContainer StopContainer",
    "",
)
"""The lists of events that plugins may have, beside none."""


class World:
    """One history: its dice, and what was seen."""

    def __init__(self, seed: int, directory: str, kinds: Iterable[str] | None = None) -> None:
        """`kinds` is what is unusual; by default the dice decide."""
        self.dice = dice = random.Random(seed)  # noqa: S311 - no secret
        self.directory = directory
        self.clock = PlayedLoop()
        self.current: Life | None = None
        self.bugs: list[BaseException] = []
        self.log: list[str] = []
        self.marks: Counter[str] = Counter()
        """The faults that have come."""
        self.peers: list[Peer] = []
        self.calls: list[Call] = []
        self.call_of: dict[PluginWork, Call] = {}
        self.runs: list[Run] = []
        """The programs in the order of their starts, also those that could not be started."""
        self.trace: list[Run] = []
        """Those that have their requests, in that order."""
        self.cut: list[tuple[Run, float]] = []
        """The runs whose adapter was killed, with when."""
        self.noted: list[Run] = []
        """Creates that were noted and not run when their adapter was killed."""
        self.stops: list[Stop] = []
        self.holds: list[Hold] = []
        self.holders: list[Holder] = []
        self.stuck: list[str] = []
        """What should have ended, and has not."""
        self.left: list[str] = []
        """What should not be left at the end."""
        self.is_full = False
        self.is_calm = kinds is None and dice.random() < CALM
        self.is_rough = self.is_calm and dice.random() < 0.75
        self.is_wild = self.is_calm and dice.random() < 0.75
        drawn = frozenset(kind for kind in KINDS if dice.random() < 0.2)
        self.kinds = drawn if kinds is None else frozenset(kinds)
        self.moments = MOMENTS if dice.random() < 0.7 else (0.0, 0.001, 0.5)
        self.entries: tuple[Entry, ...] | None = tuple(Entry(type_, 0, "0.1", None) for type_ in TYPES)
        """What conf.json has; None if it is broken."""
        self.missing = set[str]()
        """The plugins that are not found."""
        self.refusals = dice.choice((0.05, 0.05, 0.5)) if self.is_rough else 0.0
        """The part of the programs that are not found, and of the others the part that cannot be started."""
        self.settings = self._settings()._replace(hold_after=HOLDS[seed % len(HOLDS)])
        self.is_crowded = kinds is None and not self.is_calm and dice.random() < 0.2
        """Whether there are three to five adapters, and many faults."""
        self.faults = self._faults()
        """What comes in which step."""
        self.can_stop = "stop" in self.faults.values()
        """Whether an adapter may be stopped inside a callback."""
        self.steps = 0
        self.runtime = Runtime(self)

    def _settings(self) -> LegacySettings:
        dice = self.dice
        lists = [None] * 5 + [frozenset(names.split()) for names in LISTS]
        plugins = {
            type_: PluginSettings(
                fail_create=dice.choice((None, None, True, False)),
                fail_delete=dice.choice((None, None, True, False)),
                timeout=dice.choice((None, None, 0.3, 3.0)),
                kill_on_timeout=dice.choice((None, None, True, False)),
                events=dice.choice(lists),
            )
            for type_ in TYPES
        }
        return LegacySettings(
            fail_create=dice.random() < 0.5,
            fail_delete=dice.random() < 0.3,
            timeout=dice.choice((0, 0, 1.0)),
            kill_on_timeout=dice.random() < 0.3,
            trust=off,
            plugins=plugins,
        )

    def _faults(self) -> dict[int, str]:
        dice = self.dice
        if self.is_calm:
            return {dice.randrange(STEPS // 2): "lost" for _ in range(dice.choice((0, 0, 1, 2, 3)))}
        kinds = (*FAULTS, *DISK) if dice.random() < 0.2 else FAULTS
        number = dice.choice((2, 5, 8, 12) if self.is_crowded else (0, 1, 1, 2, 3, 5))
        return {dice.randrange(STEPS): dice.choice(kinds) for _ in range(number)}

    def is_refused(self) -> bool:
        """Whether the dice let a program not be found, or not start."""
        return self.dice.random() < self.refusals

    # What is seen

    def say(self, text: str) -> None:
        self.log.append(f"{self.clock.now:11.5f} {text}")

    def add(self, call: Call) -> None:
        """An event has come to an adapter, or a delete comes that no event asks for."""
        call.number, call.entries = len(self.calls), self.entries
        self.calls.append(call)

    def unasked(self, work: PluginWork) -> Call:
        assert self.current is not None
        now, target = self.clock.now, work.target
        peer = next(peer for peer in self.peers if peer.life is self.current)
        call = Call(Event(-1, work.event, target.id, target.sandbox_id, now), peer, now)
        call.answers.append((now, None))
        self.add(call)
        call.entries = None
        return call

    def runs_of(self, peer: Peer) -> list[Run]:
        """Returns the programs of an adapter that run."""
        now = self.clock.now
        return [run for run in self.trace if run.life is peer.life and not run.is_over and run.ends > now - 60]

    def cut_off(self, peer: Peer) -> None:
        self.cut += [(run, self.clock.now) for run in self.runs_of(peer)]

    def end_hold(self) -> None:
        """The keeper, or somebody else, ends a hold."""
        for holder in self.holders:
            if holder.held:
                holder.life.call_soon(holder.end_any)
        self.clock.advance(0)

    # Faults

    def tick(self, seconds: float) -> None:
        """Makes two moments differ that only order matters of. What is due waits for its turn."""
        if not self.is_calm:
            self.clock.now += seconds

    def point(self, where: str) -> None:
        """A step of an adapter, in or after which a fault may come."""
        life = self.current
        if life is None:
            return
        if life.is_dead:
            raise Ended
        self.tick(1e-6)
        self.steps += 1
        kind = self.faults.pop(self.steps, None)
        if kind is None:
            return
        peer = next(peer for peer in self.peers if peer.life is life)
        if kind in ("kill", "stop") and self.dice.random() < 0.8:
            self.say(f"FAULT {kind} {peer} at {where}")
            self.marks[kind] += 1
            if kind == "kill":
                peer.die()
                raise Ended
            self._stop(peer)
            life.pause()
        else:
            self.clock.call_at(0, partial(self.fault, kind))

    def _stop(self, peer: Peer) -> None:
        peer.stop(self.dice.choice((0.5, 3.0, 30.0)), is_killed=self.dice.random() < 0.4)

    def fault(self, kind: str) -> None:
        """Something happens to an adapter, the runtime, or the state directory."""
        alive = [peer for peer in self.peers if not peer.life.is_dead]
        if not alive:
            return
        peer = self.dice.choice(alive)
        self.say(f"FAULT {kind} {peer}")
        self.marks[kind] += 1
        if kind == "kill":
            peer.die()
        elif kind == "stop" and not peer.life.is_stopped:
            self._stop(peer)
        elif kind == "lost":
            peer.hang_up()
        elif kind == "term":
            peer.term()
        elif kind == "restart":
            for each in self.runtime.peers.copy():
                each.hang_up()
        elif kind == "surge" and len(alive) < (5 if self.is_crowded else 3):
            Peer(self)
        elif kind in DISK:
            getattr(self, kind)()

    def absence(self) -> float:
        """Returns the seconds until an adapter joins again that has lost its connection."""
        return self.dice.choice((0.0, 1.0, 3.0, 40.0)) if self.is_calm else 0.1

    def full(self) -> None:
        self.is_full = True
        self.clock.call_at(self.clock.now + self.dice.choice((0.3, 3.0, 12.0)), self._free)

    def _free(self) -> None:
        self.is_full = False

    def removed(self) -> None:
        for path in Path(self.directory).glob("*.*"):
            shutil.rmtree(path)

    def _files(self) -> list[Path]:
        return [path for path in sorted(Path(self.directory).glob("*/*")) if path.is_file() and path.stat().st_size]

    def garbled(self) -> None:
        for path in self._files():
            if self.dice.random() < 0.5:
                with path.open("r+b") as file:
                    file.seek(self.dice.randrange(path.stat().st_size))
                    size = self.dice.choice((1, 100, 1000 if path.name != "turns" else 300_000))
                    file.write(self.dice.randbytes(size))

    def cut_file(self) -> None:
        for path in self._files():
            if self.dice.random() < 0.5 and path.name != "turns":
                os.truncate(path, self.dice.randrange(path.stat().st_size))
