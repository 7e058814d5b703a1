"""Plays many histories: python -m tests.turns NUMBER [FIRST SEED]."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections import Counter

from .playing import play


def main() -> None:
    """Plays many histories. The order of sets is the same in each run."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.turns", *sys.argv[1:]])  # noqa: S606
    number, first = (
        int(sys.argv[1]),
        int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32),
    )
    marks, bad, events, runs = Counter[str](), 0, 0, 0
    with tempfile.TemporaryDirectory(dir="/dev/shm") as above:
        for seed in range(first, first + number):
            world, found = play(seed, f"{above}/state")
            marks += world.marks
            events, runs = events + len(world.runtime.events), runs + len(world.trace)
            if found:
                bad += 1
                print(
                    f"{seed}: {world.runtime.order}, keeps={world.runtime.keeps}, {dict(world.marks)}",
                    *found[:4],
                    sep="\n    ",
                    flush=True,
                )
                if number == 1:
                    print(*world.log, sep="\n")
    print(f"{number} histories from {first}, {events} events, {runs} runs of plugins, {bad} bad; faults: {dict(marks)}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
