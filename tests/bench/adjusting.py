"""A legacy plugin that adjusts containers, against the same as an NRI plugin in Go, which runs all the time."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.arena import FRESH, STAND_BY, WAYS, Arena, recorded
from tests.bench.events import PACES, SETTLE, START
from tests.bench.figures import Bench, Row, Times
from tests.peers.build import c_program, peer

DAEMON = "daemon"
GROUPS = "adjusted containers 30 ms apart, µs", "adjusted containers back to back, µs"
OWN = {"plugins": {"plugin0": {"events": ["CreateContainer"]}}}
CASE = "CreateContainer, one C plugin; an NRI plugin in Go"


def run(bench: Bench) -> Iterator[Row]:
    """Yield a row for each pace and way."""
    bench.say(f"{CASE} …")
    with Arena() as arena:
        launch(arena)
        for group, (pause, seconds) in zip(GROUPS, PACES.values(), strict=True):
            rest = {"settle_ms": SETTLE + START} if pause else {}
            ways = WAYS if pause else (FRESH,)
            event = [recorded("CreateContainer")]
            samples = arena.compare(bench, seconds, (DAEMON, *ways), event, pause_ms=pause, **rest)
            for way in ways:
                ours, theirs = Times.of(samples[way]), Times.of(samples[DAEMON])
                yield Row(group, CASE, way, len(samples[way]), ours, theirs)


def launch(arena: Arena) -> None:
    """Launch the adapter both ways, and the plugin in Go."""
    for way in WAYS:
        chain = arena.chain(way, [c_program("adjusting")])
        arena.launch_ours(way, {"legacy": {**chain, **OWN, "standby": int(way == STAND_BY)}})
    arena.launch(DAEMON, peer("adjuster"))
