"""Legacy plugins at a container's start and stop: none, one in each of four languages, and three in C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.arena import FRESH, IDLE, REFERENCE, STAND_BY, WAYS, Arena, recorded
from tests.bench.figures import Bench, Goal, Row, Times
from tests.bench.programs import ONES, chains, floor
from tests.peers.build import peer

PACED, BACK_TO_BACK = "legacy events 30 ms apart, µs", "legacy events back to back, µs"
PACES = {PACED: (30, 60), BACK_TO_BACK: (0, 6)}  # milliseconds before each event, seconds of each comparison
BLOCK = 10
"""Containers of one side's turn, if events are back to back and programs stand by.

What is started behind an answer is to be paid by the next event of the same side. Elsewhere the sides change after each
container: a virtual machine may run at half its speed for seconds, which turns of seconds take for a side's own.
"""
SETTLE = 100
"""Milliseconds before a turn behind which something may be started, so that the other side's processes are at rest."""
START = 30
"""Milliseconds more for each program of a chain: an interpreter takes as long to start."""
SPAWNS = 30
"""Runs of which the floor is taken."""
LIFE = [recorded("StartContainer"), recorded("StopContainer")]
MEMORY_GROUP = "memory after the events, MB"
MEMORY = Goal(24, absolute=True)
GOALS = {
    (BACK_TO_BACK, "no plugin", FRESH): Goal(0.6, 0.4),
    (BACK_TO_BACK, "one C plugin", FRESH): Goal(0.75, 0.5),
    (BACK_TO_BACK, "one Go plugin", FRESH): Goal(0.88),
    (BACK_TO_BACK, "three C plugins", FRESH): Goal(0.75),
    (PACED, "no plugin", FRESH): Goal(0.75),
    (PACED, "one C plugin", FRESH): Goal(0.9),
    (PACED, "one Go plugin", FRESH): Goal(0.95),
    (PACED, "three C plugins", FRESH): Goal(0.9),
    (PACED, "one C plugin", STAND_BY): Goal(0.7),
    (PACED, "one Go plugin", STAND_BY): Goal(0.5),
    (PACED, "one shell plugin", STAND_BY): Goal(0.6),
    (PACED, "one Python plugin", STAND_BY): Goal(0.2),
    (PACED, "three C plugins", STAND_BY): Goal(0.55),
}


def run(bench: Bench) -> Iterator[Row]:
    """Yield a row for each chain, pace and way; and the memory of chains of one."""
    yield from chains(measure, bench, (*ONES, (3, "C")))


def measure(bench: Bench, arena: Arena, case: str, programs: list[Path]) -> Iterator[Row]:
    """Yield the rows of one chain."""
    bench.say(f"{case} …")
    ways = launch(arena, programs, standby=1)
    for group, (pause, seconds) in PACES.items():
        for together in [ways] if pause else [[way] for way in ways]:
            sides = (REFERENCE, *together, *(() if programs else (IDLE,)))
            turns = turn(pause, STAND_BY in together, len(programs))
            samples = arena.compare(bench, seconds, sides, LIFE, pause_ms=pause, **turns)
            least = Times.of(floor(arena, programs, SPAWNS) if programs else samples[IDLE])
            for way in together:
                ours, theirs = Times.of(samples[way]), Times.of(samples[REFERENCE])
                yield Row(group, case, way, len(samples[way]), ours, theirs, least, GOALS.get((group, case, way)))
    if len(programs) <= 1:
        yield from memory(arena, case, ways, standby=1)


def turn(pause: int, stand_by: bool, programs: int) -> dict[str, int]:
    """Return what makes a side's turn: how many containers it has, and the rest before it."""
    rest = {"settle_ms": SETTLE + START * programs} if pause or stand_by else {}
    return {"block": BLOCK, **rest} if stand_by and not pause else rest


def launch(arena: Arena, programs: list[Path], standby: int) -> Sequence[str]:
    """Launch all sides with these programs as their chain, so many processes of each on stand-by; return our ways."""
    ways = WAYS if programs else (FRESH,)
    arena.launch_reference(REFERENCE, arena.chain(REFERENCE, programs))
    for way in ways:
        waiting = standby if way == STAND_BY else 0
        arena.launch_ours(way, {"legacy": {**arena.chain(way, programs), "standby": waiting}})
    arena.launch(IDLE, peer("idle"))
    return ways


def memory(arena: Arena, case: str, ways: Sequence[str], standby: int) -> Iterator[Row]:
    """Yield what the sides' processes hold."""
    theirs = arena.memory(REFERENCE)
    for way in ways:
        ours, goal = arena.memory(way), MEMORY if way == FRESH else None
        told = f"{way}, {standby} each" if way == STAND_BY else way
        yield Row(MEMORY_GROUP, case, told, 1, Times(ours, ours), Times(theirs, theirs), goal=goal)
