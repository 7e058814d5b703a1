"""Plays many histories: python -m tests.histories NUMBER [FIRST SEED]."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections import Counter

from ..rig.brief import MEMORY
from .playing import play


def main() -> None:
    """Plays many histories. The order of sets is the same in each run."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.histories", *sys.argv[1:]])  # noqa: S606
    number, first = (
        int(sys.argv[1]),
        int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32),
    )
    marks, bad, events, runs, calm = Counter[str](), 0, 0, 0, 0
    with tempfile.TemporaryDirectory(dir=MEMORY) as above:
        for seed in range(first, first + number):
            world, found = play(seed, f"{above}/state")
            marks += world.marks
            events, runs, calm = events + len(world.calls), runs + len(world.trace), calm + world.is_calm
            if found:
                bad += 1
                kinds = [name for name in ("calm", "rough", "wild") if getattr(world, f"is_{name}")]
                title = f"{seed}: {[*kinds, *world.kinds, *world.marks]}, {world.runtime}"
                print(title, *found[:4], sep="\n    ", flush=True)
            if number == 1:
                print(*world.log, sep="\n")
    seen = f"{calm} calm, {events} events at adapters, {runs} runs of plugins"
    print(f"{number} histories from {first}: {seen}, {bad} bad; faults: {dict(marks)}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
