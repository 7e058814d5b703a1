"""From exec to registered."""

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


def run(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the start."""
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
