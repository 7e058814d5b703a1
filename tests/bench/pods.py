"""Pods that start at once: RunPodSandbox, CreateContainer and StartContainer of each in a goroutine of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.arena import IDLE, REFERENCE, STAND_BY, Arena, Samples, recorded
from tests.bench.events import SETTLE, launch, memory
from tests.bench.figures import Bench, Goal, Row, Times
from tests.bench.programs import ONES, chains

COUNTS = {20: 6, 100: 16}  # pods at once, seconds of the case
POOL = 8
"""Processes of each plugin that wait on stand-by."""
LAST = "pods at once, until the last runs, ms"
STARTS = ("RunPodSandbox", "CreateContainer", "StartContainer")
ENDS = ("StopContainer", "StopPodSandbox")
GOALS = {(100, "one Python plugin", STAND_BY): Goal(0.7)}


def run(bench: Bench) -> Iterator[Row]:
    """Yield, for each chain and number of pods, how long a pod took and when the last one ran."""
    yield from chains(measure, bench, ONES)


def measure(bench: Bench, arena: Arena, case: str, programs: list[Path]) -> Iterator[Row]:
    """Yield the rows of one chain."""
    ways = launch(arena, programs, standby=POOL)
    starts, ends = ([recorded(event) for event in events] for events in (STARTS, ENDS))
    for count, seconds in COUNTS.items():
        bench.say(f"{count} pods at once, {case} …")
        sides = (REFERENCE, *ways, IDLE)
        samples = arena.rounds(bench, seconds, "pods", sides, starts, afterwards=ends, count=count, settle_ms=SETTLE)
        last = {side: _last(times, count) for side, times in samples.items()}
        for way in ways:
            yield _row(f"{count} pods at once, until each runs, ms", case, way, samples)
            yield _row(f"{count} {LAST}", case, way, last, GOALS.get((count, case, way)))
    yield from memory(arena, f"{case}, many pods", ways, POOL)


def _last(times: Sequence[float], count: int) -> list[float]:
    """The longest of each round."""
    return [max(times[start : start + count]) for start in range(0, len(times), count)]


def _row(group: str, case: str, way: str, samples: Samples, goal: Goal | None = None) -> Row:
    ours, theirs, least = (Times.of(samples[side], 1000) for side in (way, REFERENCE, IDLE))
    return Row(group, case, way, len(samples[way]), ours, theirs, least, goal)
