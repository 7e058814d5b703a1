"""From exec to registered, on empty and on full nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.bench.arena import FRESH, REFERENCE, Arena, reference_config
from tests.bench.figures import Bench, Goal, Row, Times
from tests.bench.programs import spawned
from tests.peers.build import peer
from tests.peers.harness import COMMAND

START = "from exec to registered, ms"
FIVE_INTERPRETERS = Goal(5)
CONTAINERS = (100, 1000, 5000)
PODS_OF = 4  # containers
BYTES = 1500  # of a container's message


def run(bench: Bench) -> Iterator[Row]:
    """Yield rows of the start, and of joining a node with containers."""
    bench.say("starts …")
    ours, theirs, interpreter = [], [], []
    for _ in bench.rounds(15):
        with Arena() as arena:
            # Without a configuration, as on most nodes: reading YAML costs a quarter more.
            ours.append(arena.launch(FRESH, COMMAND))
            arena.end(FRESH)  # what it does behind its start is no concern of the other's
            theirs.append(arena.launch(REFERENCE, peer("reference"), reference_config(arena.chain(REFERENCE, []))))
        interpreter += spawned(1, sys.executable, "-c", "pass")
    count, took, bare = len(ours), Times.of(ours, 1000), Times.of(interpreter, 1000)
    yield Row(START, "against upstream's", FRESH, count, took, Times.of(theirs, 1000))
    yield Row(START, "against a bare interpreter's start", FRESH, count, took, bare, goal=FIVE_INTERPRETERS)
    for containers in CONTAINERS:
        yield synchronize(bench, containers)


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
