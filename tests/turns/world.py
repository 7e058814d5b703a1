"""A node in a random history: a runtime that delivers events in turn, adapters that fail, plugins that they run.

The adapters are whole and real, all with one state directory. A kill closes what they have open; both a kill and a stop
come at any step, inside a callback, too. `python -m tests.turns NUMBER` plays many.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from v010_adapter.events.deletes import LAST_RETRY
from v010_adapter.events.turns import ENDS
from v010_adapter.host.trust import off
from v010_adapter.legacy.config import Entry
from v010_adapter.settings import LegacySettings, PluginSettings

from .events import CREATES, MORE, Hold
from .life import Clock, Ended, Life, Program
from .peer import Peer
from .runtime import Runtime

FAULTS = ("kill", "kill", "kill", "stop", "stop", "stop", "lost", "term", "surge", "restart")
DISK = ("full", "removed", "garbled", "cut_file")
STEPS = 400
"""The steps of the adapters in which faults come."""
KINDS = {
    "events": "plugins with some events only: at an end without a create, and at two moments of a container",
    "policies": "each plugin has its own policy and time limit",
    "conf": "conf.json changes",
    "missing": "plugins are not found for a while",
    "one place": "all ids share a place for notes",
    "one byte": "all pods share their locks",
}
"""What is unusual in a history."""


EVENTS = {
    "q": frozenset({"CreateContainer", "StopContainer"}),
    "u": frozenset({"UpdateContainer"}),
    "v": frozenset({"StartContainer", "StopContainer"}),
    "s": frozenset({"StopContainer"}),
    "w": frozenset({"RemoveContainer"}),
}
"""The events of the plugins that run at some only."""


def _entries(types: Iterable[str], conf: bytes | None = None) -> tuple[Entry, ...]:
    return tuple(Entry(type_, 0, "0.1", conf) for type_ in types)


class World:
    """One history; `play` it, then judge it."""

    def __init__(self, seed: int, directory: str, kinds: Iterable[str] | None = None) -> None:
        """`kinds` is what is unusual; by default the dice decide."""
        self.dice = random.Random(seed)  # noqa: S311 - no secret
        self.seed, self.directory = seed, directory
        self.clock = Clock()
        self.current: Life | None = None
        self.bugs: list[BaseException] = []
        self.peers: list[Peer] = []
        self.trace: list[Program] = []
        self.log: list[str] = []
        self.marks: Counter[str] = Counter()
        self.cut: list[tuple[Program, float]] = []
        """The runs whose adapter was killed, with when."""
        self.noted: list[tuple[int, str]] = []
        """Creates that were noted and not run when their adapter was killed: event and plugin."""
        self.graces: list[tuple[Peer, float]] = []
        self.holds: list[Hold] = []
        self.held: set[int] = set()
        """The events whose containers are held, or were refused while they were."""
        self.is_full = False
        self.with_disk = self.dice.random() < 0.2
        drawn = frozenset(kind for kind in KINDS if self.dice.random() < 0.2)
        self.kinds = drawn if kinds is None else frozenset(kinds)
        self.plugins_at = CREATES | MORE if "events" in self.kinds else CREATES
        self.types = "".join(sorted({type_ for types in self.plugins_at.values() for type_ in types}))
        self.entries = _entries(self.types)
        """What conf.json has."""
        self.version = 0
        self.missing = set[str]()
        """The plugins that are not found."""
        self.may_lack_plugins = not self.kinds.isdisjoint({"conf", "missing"})
        self.settings = self._settings()
        self.fails_creates = any(self.settings.of(type_, "fail_create") for type_ in self.types)
        self.is_crowded = kinds is None and self.dice.random() < 0.2
        """Whether there are three to five adapters, and many faults."""
        number = self.dice.choice((2, 5, 8, 12) if self.is_crowded else (0, 1, 1, 2, 3, 5))
        faults = (*FAULTS, *DISK) if self.with_disk else FAULTS
        self.faults = {self.dice.randrange(STEPS): self.dice.choice(faults) for _ in range(number)}
        self.steps = 0
        self.runtime = Runtime(self)

    def _settings(self) -> LegacySettings:
        dice, fail_create = self.dice, self.dice.random() < 0.5
        if "policies" not in self.kinds:
            plugins = {type_: PluginSettings(events=of) for type_, of in EVENTS.items()}
            return LegacySettings(fail_create=fail_create, trust=off, plugins=plugins)
        plugins = {
            type_: PluginSettings(
                events=EVENTS.get(type_),
                fail_create=dice.random() < 0.5,
                kill_on_timeout=dice.random() < 0.3,
                timeout=dice.choice((None, None, 0.3, 1.0)),
            )
            for type_ in self.types
        }
        return LegacySettings(fail_create=fail_create, fail_delete=dice.random() < 0.3, trust=off, plugins=plugins)

    def say(self, text: str) -> None:
        self.log.append(f"{self.clock.now:11.5f} {text}")

    def runs_of(self, peer: Peer) -> list[Program]:
        """Returns the programs of an adapter that run."""
        now = self.clock.now
        return [run for run in self.trace if run.life is peer.life and not run.is_noted and run.ends > now - 60]

    def cut_off(self, peer: Peer) -> None:
        self.cut += [(run, self.clock.now) for run in self.runs_of(peer)]

    # Faults

    def point(self, where: str) -> None:
        """A step of an adapter, in or after which a fault may come."""
        life = self.current
        if life is None:
            return
        if life.is_dead:
            raise Ended
        self.clock.now += 1e-6
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
                    file.write(
                        self.dice.randbytes(self.dice.choice((1, 100, 1000 if path.name != "turns" else 300_000)))
                    )

    def cut_file(self) -> None:
        for path in self._files():
            if self.dice.random() < 0.5 and path.name != "turns":
                os.truncate(path, self.dice.randrange(path.stat().st_size))

    # What happens

    def play(self) -> None:
        dice = self.dice
        for _ in range(dice.choice((3, 4, 5) if self.is_crowded else (1, 1, 2, 3))):
            Peer(self)
            self.wait(0.1)
        slots: dict[str, str] = {}
        lives = Counter[str]()
        for _ in range(dice.choice((10, 25, 40))):
            if not any(not peer.life.is_dead and not peer.is_ending for peer in self.peers):
                Peer(self)
                self.wait(dice.choice((0.2, 3.0)))
            self._change_plugins()
            self._happen(dice.choice(("pod0", "pod1", "c0", "c1", "c2")), slots, lives)
            self.wait(dice.choice((0.0, 0.001, 0.05, 0.05, 1.0, 6.0)))
        for slot in sorted(slots):
            self._stop_id(slots[slot])
        self.finish()

    def _change_plugins(self) -> None:
        """What conf.json has, or which plugins are found, changes."""
        dice = self.dice
        if "conf" in self.kinds and dice.random() < 0.2:
            self.version += 1
            some = dice.sample(self.types, dice.randrange(1, len(self.types) + 1))
            self.entries = _entries(sorted(some) if dice.random() < 0.7 else self.types, b"%d" % self.version)
            self.say(f"CONF {self.entries}")
        if "missing" in self.kinds and dice.random() < 0.15:
            self.missing = set(dice.sample(self.types, dice.choice((0, 1, 1, 2))))
            self.say(f"MISSING {self.missing}")

    def _happen(self, slot: str, slots: dict[str, str], lives: Counter[str]) -> None:
        """The next event of a pod or container."""
        dice, runtime = self.dice, self.runtime
        is_pod = slot.startswith("pod")
        id_ = slots.get(slot, "")
        state = runtime.living.get(id_, "")
        if not state:
            pod = "" if is_pod else slots.get(f"pod{int(slot[1]) % 2}", "")
            if not is_pod and pod not in runtime.living:
                return
            if not (
                id_ and dice.random() < 0.15 and runtime.pods.get(id_, id_) in (pod, id_)
            ):  # else the same id again
                lives[slot] += 1
                id_ = slots[slot] = f"{slot}.{lives[slot]}"
            runtime.pods[id_] = pod or id_
            self._begin_id(id_, is_pod=is_pod)
        elif state == "CREATED":
            runtime.living[id_] = "RUNNING"
            if runtime.deliver("StartContainer", id_).has_failed:
                self._stop_id(id_)
        elif is_pod:
            if dice.random() < 0.4:
                for other, pod in list(runtime.pods.items()):
                    if pod == id_ != other and other in runtime.living:
                        self._stop_id(other)
                self._stop_id(id_)
        else:
            self._change(id_)

    def _change(self, id_: str) -> None:
        """Something happens to a container that runs."""
        runtime, roll = self.runtime, self.dice.random()
        if roll < 0.3:
            runtime.deliver("UpdateContainer", id_)
            while self.dice.random() < 0.3:
                runtime.deliver("UpdateContainer", id_)
        elif roll < 0.4:
            runtime.deliver("StartContainer", id_)  # it has ended, which nobody has told, and starts again
        elif roll < 0.5:
            runtime.end(id_)  # it goes, which nobody tells
        else:
            self._stop_id(id_)

    def _begin_id(self, id_: str, *, is_pod: bool) -> None:
        runtime = self.runtime
        runtime.living[id_] = "RUNNING" if is_pod else "CREATED"
        event = runtime.deliver("RunPodSandbox" if is_pod else "CreateContainer", id_)
        if event.has_failed:
            if is_pod or runtime.tells_refused:
                self._stop_id(id_)
            else:
                runtime.end(id_)

    def _stop_id(self, id_: str) -> None:
        kind = "Container" if self.runtime.pods[id_] != id_ else "PodSandbox"
        if id_ not in self.runtime.living:
            return
        self.runtime.end(id_)
        self.runtime.deliver(f"Stop{kind}", id_)
        if self.dice.random() < 0.5:
            self.runtime.deliver(f"Remove{kind}", id_)

    def wait(self, seconds: float) -> None:
        until = self.clock.now + seconds
        self.clock.run(until)
        self.runtime.let_join()

    def finish(self) -> None:
        """The faults end, all work ends; then a last adapter looks at what is left."""
        self.faults.clear()
        self.is_full = False
        self.missing.clear()
        self.wait(31)  # who is stopped goes on, or is killed
        self.wait(LAST_RETRY + 60 if "missing" in self.kinds else 60)
        self.stuck = [f"{peer}: {job}" for peer in self.peers if not peer.life.is_dead for job in self._jobs(peer)]
        self.stuck += [
            f"{p}: locks {p.adapter._turns._held}"
            for p in self.peers
            if not p.life.is_dead and p.adapter._turns and p.adapter._turns._held
        ]
        latest = {event.id: event.method for event in self.runtime.events}
        ended = {id_ for id_, method in latest.items() if method.startswith(ENDS)}  # others may end and nobody tells
        self.untried = [name for name in self._records() if name.rpartition("+")[2] in ended and not self.marks]
        for peer in self.peers:
            peer.term()
        self.wait(15)
        for peer in self.peers:
            assert peer.life.is_dead, f"{peer} does not end"
        last = Peer(self)
        self.wait(0.1)
        self.wait(60)
        self.left = last.adapter.owed
        self.files = self._records()
        last.die()

    def _records(self) -> list[str]:
        return sorted(path.name for path in Path(self.directory).glob("*/*") if path.name[0] in "+n")

    def _jobs(self, peer: Peer) -> list[Any]:
        serving = peer.adapter._serving
        return serving.deletes.queue.works if serving is not None else []
