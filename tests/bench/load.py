"""A load on one plugin under nri's embedded runtime, beside the same under NRI's own runtime code.

`python -m tests.bench.load PLUGIN [PODS]` plays 1,000 pods to each, in ten turns, and prints the time of the answers to
CreateContainer. NRI's own time is that of the call, which it makes while it holds its lock.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from nri.testing import FLAVOURS, PluginFile, Runtime
from nri.testing.load import percentile, play
from tests.bench.arena import Arena, recorded
from tests.bench.pods import ENDS, STARTS

EVENT, TURNS = "CreateContainer", 10
PERCENTILES = 50, 90, 99


def main(plugin: Path, pods: int = 1000) -> None:
    """Print a line for each side, and their ratio."""
    ours: list[Sequence[float]] = []
    theirs: list[Sequence[float]] = []
    events = [recorded(event) for event in STARTS], [recorded(event) for event in ENDS]
    with Arena() as arena, Runtime(FLAVOURS["containerd/2.4.2"]) as runtime:
        arena.launch("load", plugin)
        runtime.launch(PluginFile(plugin, "00", "load"))
        for turn in range(TURNS):
            (found,) = [one for one in play(runtime, pods=pods // TURNS, seed=turn).figures if one.event == EVENT]
            ours.append([found.p50, found.p90, found.p99])
            arena.runtime.play("calls", host="load")
            done = arena.runtime.play(
                "pods", hosts=["load"], count=pods // TURNS, events=events[0], afterwards=events[1]
            )
            assert not done.error, done.error
            calls = arena.runtime.play("calls", host="load").calls
            times = sorted(call.us / 1e6 for call in calls if call.method == EVENT)
            theirs.append([percentile(times, part) for part in PERCENTILES])
    for part, mine, other in zip(PERCENTILES, zip(*ours, strict=True), zip(*theirs, strict=True), strict=True):
        ratio = median(one / two for one, two in zip(mine, other, strict=True))
        print(f"{EVENT} p{part}: embedded {median(mine) * 1e6:.0f} us, NRI {median(other) * 1e6:.0f} us: {ratio:.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
