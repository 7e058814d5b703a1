"""Where both sides are measured: a Go runtime launches them, each in a host of its own, and plays to them in turn.

Two sides that do different work are no comparison: legacy plugins note their runs, and adjustments are counted.
"""

from __future__ import annotations

import json
import os
import select
import signal
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.bench.figures import Bench
from tests.peers.build import peer
from tests.peers.harness import COMMAND, PATIENT, GoRuntime, golden

REFERENCE, FRESH, STAND_BY = "reference", "fresh", "stand-by"
IDLE = "idle"
"""The plugin made of upstream's stub that has nothing to do: what the runtime and the connection take."""
WAYS = (FRESH, STAND_BY)
"""To run the adapter: programs are started for each event, or ahead of it."""
MEGABYTE = 1_000_000

Samples = Mapping[str, Sequence[float]]
"""Microseconds by side."""
Event = Mapping[str, Any]


class Unfair(Exception):
    """The sides have not done the same work."""


class Arena(ExitStack):
    """A directory and a Go runtime: `with Arena() as arena`."""

    def __enter__(self) -> Self:
        self.directory = Path(self.enter_context(tempfile.TemporaryDirectory()))
        self.runtime = self.enter_context(GoRuntime(self.directory))
        self.pids: dict[str, int] = {}
        self.callback(lambda: [self.end(side) for side in [*self.pids]])
        return self

    def launch(self, side: str, program: Path, config: str = "") -> float:
        """Have the runtime launch a side's plugin; return microseconds until synchronized."""
        self.runtime.open(program, config, name=f"00-{side}", host=side, runtime=("containerd", "2.4.2"), **PATIENT)
        started = self.runtime.play("start", host=side)
        assert started.names == [f"00-{side}"], started
        self.pids[side] = started.plugins[0].pid
        return started.us

    def launch_ours(self, side: str, settings: Mapping[str, object]) -> float:
        """Launch the adapter with these settings, by section; hooks are off unless they say otherwise."""
        settings = {"hooks": {"enabled": False}, **settings}
        config = "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())
        return self.launch(side, COMMAND, config)

    def launch_reference(self, side: str, legacy: Mapping[str, Any]) -> float:
        """Launch the plugin that runs legacy plugins as upstream's does."""
        return self.launch(side, peer("reference"), reference_config(legacy))

    def chain(self, side: str, programs: Iterable[Path]) -> dict[str, Any]:
        """Install legacy plugins for a side; see `install`."""
        return install(self.directory / f"legacy-{side}", programs)

    def compare(
        self, bench: Bench, seconds: float, sides: Collection[str], events: Sequence[Event], **fields: object
    ) -> Samples:
        """Play lives of these events to the sides in turn, after a warm-up. Raises Unfair."""
        self._play("compare", [*sides], events, {**fields, "block": 2})
        return self.rounds(bench, seconds, "compare", sides, events, **fields)

    def rounds(
        self, bench: Bench, seconds: float, op: str, sides: Collection[str], events: Sequence[Event], **fields: object
    ) -> Samples:
        """Play to one side after the other; the samples of a round are in a row. Raises Unfair."""
        samples: dict[str, list[float]] = {side: [] for side in sides}
        for number in bench.rounds(seconds):
            order = list(sides)[:: -1 if number % 2 else 1]
            for side, times in self._play(op, order, events, fields).items():
                samples[side] += times
        return samples

    def _play(self, op: str, sides: Sequence[str], events: Sequence[Event], fields: Event) -> Samples:
        before = {side: self.runs(side) for side in sides}
        reply = self.runtime.play(op, hosts=sides, events=events, **fields)
        if reply.error:
            raise Unfair(reply.error)
        ran = {side: self.runs(side) - before[side] for side in sides if side != IDLE}
        changed = {side: reply.changes.get(side, 0) for side in ran}
        if len({*ran.values()}) > 1 or len({*changed.values()}) > 1:
            raise Unfair(f"legacy plugins have run {ran}, adjustments were {changed}")
        return reply.samples

    def runs(self, side: str) -> int:
        """Return how many legacy plugins of a side have run."""
        log = self.directory / f"legacy-{side}" / "runs"
        return log.stat().st_size if log.exists() else 0

    def memory(self, side: str) -> float:
        """Return the megabytes of all processes of a side; what they share counts once (PSS)."""
        return sum(map(resident, family(self.pids[side])))

    def end(self, side: str) -> None:
        """End a side's processes, and wait for them: they write to the directory."""
        with ExitStack() as stack:
            pid = self.pids.pop(side)
            processes = [os.pidfd_open(each) for each in family(pid)]
            for process in processes:
                stack.callback(os.close, process)
            signal.pidfd_send_signal(processes[-1], signal.SIGTERM)
            for process in processes:
                select.select([process], [], [])


def install(home: Path, programs: Iterable[Path]) -> dict[str, Any]:
    """Install legacy plugins in a directory, where they note their runs; return the adapter's settings for them."""
    (home / "bin").mkdir(parents=True)
    plugins = []
    for number, program in enumerate(programs):
        (home / "bin" / f"plugin{number}").symlink_to(program)
        plugins.append({"type": f"plugin{number}", "conf": {"log": str(home / "runs")}})
    (home / "conf.json").write_text(json.dumps({"version": "0.1", "plugins": plugins}))
    return {"config": str(home / "conf.json"), "path": [str(home / "bin")]}


def reference_config(legacy: Mapping[str, Any]) -> str:
    """Return what the reference is told with Configure, of the adapter's settings."""
    return json.dumps({"config": legacy["config"], "path": legacy["path"][0]})


def recorded(name: str) -> dict[str, Any]:
    """Return an event as containerd sent it."""
    found = next(each for each in golden("containerd-2.4.2") if each.event == name)
    return {"event": name, "pod": found.pod, "container": found.container}


def family(pid: int) -> list[int]:
    """Return a process, as the last, and before it all that it has started and that live."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [*(each for child in children for each in family(child)), pid]


def resident(pid: int) -> float:
    """Return the megabytes of a process."""
    sizes = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in sizes if line.startswith("Pss:")) * 1024 / MEGABYTE
