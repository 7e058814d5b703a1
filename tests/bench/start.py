"""From exec to registered, on empty and on full nodes; and the bundle against the venv."""

from __future__ import annotations

import platform
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.arena import FRESH, REFERENCE, Arena, reference_config
from tests.bench.events import MEMORY_GROUP
from tests.bench.figures import Bench, Goal, Row, Times
from tests.bench.programs import spawned
from tests.peers.build import peer
from tests.peers.harness import COMMAND

BUNDLES = Path(__file__).resolve().parents[2] / ".cache" / "bundle"
BUNDLE = "bundle"
START = "from exec to registered, ms"
FIVE_INTERPRETERS = Goal(5)
CONTAINERS = (100, 1000, 5000)
PODS_OF = 4  # containers
BYTES = 1500  # of a container's message


def run(bench: Bench) -> Iterator[Row]:
    """Yield rows of the start, of memory after it, and of joining a node with containers."""
    with TemporaryDirectory() as name:
        yield from starts(bench, {FRESH: COMMAND, REFERENCE: peer("reference"), **bundle(Path(name), bench)})
    for containers in CONTAINERS:
        yield synchronize(bench, containers)


def bundle(directory: Path, bench: Bench) -> Mapping[str, Path]:
    """Unpack the bundle that `make bundle` has built, if it has."""
    found = sorted(BUNDLES.glob(f"*-linux-{platform.machine()}.tar.gz"), key=lambda path: path.stat().st_mtime)
    if not found:
        bench.missing.append("the bundle: `make bundle` has not built it")
        return {}
    with tarfile.open(found[-1]) as archive:
        archive.extractall(directory, filter="tar")
    return {BUNDLE: directory / found[-1].name.removesuffix(".tar.gz") / "bin" / "v010-adapter"}


def starts(bench: Bench, programs: Mapping[str, Path]) -> Iterator[Row]:
    """Start all in turn, without a configuration of their own, as on most nodes: reading YAML costs a quarter more."""
    bench.say("starts …")
    times: dict[str, list[float]] = {side: [] for side in programs}
    memory: dict[str, list[float]] = {side: [] for side in programs}
    interpreter: list[float] = []
    for _ in bench.rounds(15):
        with Arena() as arena:
            for side, program in programs.items():
                config = reference_config(arena.chain(side, [])) if side == REFERENCE else ""
                times[side].append(arena.launch(side, program, config))
                memory[side].append(arena.memory(side))
                arena.end(side)
        interpreter += spawned(1, sys.executable, "-c", "pass")
    count, ours, bare = len(interpreter), Times.of(times[FRESH], 1000), Times.of(interpreter, 1000)
    yield Row(START, "against upstream's", FRESH, count, ours, Times.of(times[REFERENCE], 1000))
    yield Row(START, "against a bare interpreter's start", FRESH, count, ours, bare, goal=FIVE_INTERPRETERS)
    if BUNDLE in programs:
        yield Row(START, "the bundle against the venv", BUNDLE, count, Times.of(times[BUNDLE], 1000), ours)
        held, venv = Times.of(memory[BUNDLE]), Times.of(memory[FRESH])
        yield Row(MEMORY_GROUP, "at the start, the bundle against the venv", BUNDLE, count, held, venv)


def synchronize(bench: Bench, containers: int) -> Row:
    """Join a node that has so many containers. Both sides get the same messages, and have nothing to answer."""
    bench.say(f"Synchronize of {containers} containers …")
    state = {"make_pods": containers // PODS_OF, "make_containers": containers, "bytes": containers * BYTES}
    samples: dict[str, list[float]] = {FRESH: [], REFERENCE: []}
    for _ in bench.rounds(8):
        with Arena() as arena:
            arena.launch_reference(REFERENCE, arena.chain(REFERENCE, []), **state)
            arena.launch_ours(FRESH, {"legacy": arena.chain(FRESH, [])}, **state)
            for side, times in samples.items():
                times.append(arena.synchronizing(side))
                arena.end(side)
    ours, theirs = (Times.of(samples[side], 1000) for side in (FRESH, REFERENCE))
    return Row("Synchronize, ms", f"{containers} containers", FRESH, len(samples[FRESH]), ours, theirs)
