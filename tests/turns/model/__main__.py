"""Checks the model: python -m tests.turns.model [NAME …] [-DOPTION …].

Without a name, all checks of `CHECKS`. With options, one check with these; it prints the story of what it has found.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

MODEL = Path(__file__).with_name("turns.pml")
GCC = "gcc", "-DVECTORSZ=2048", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=3000"
NONE, KILL, STOP, LOSS = "KILLS=0 STOPS=0", "KILLS=1 STOPS=0", "KILLS=0 STOPS=1", "KILLS=0 STOPS=0 LOSSES=1"


class Check(NamedTuple):
    """Options of the model, and whether it breaks the promise under them."""

    options: str
    is_broken: bool = False
    is_large: bool = False
    """Whether a check takes longer than to compile it with optimization: from half a million states on."""


CHECKS = {
    "create and stop": Check(f"SCEN=1 {NONE}"),
    "a kill": Check(f"SCEN=1 {KILL}"),
    "a kill, late plugins are dropped": Check(f"SCEN=1 {KILL} KEEPS=0"),
    "a kill, creates fail": Check(f"SCEN=1 {KILL} FAILPOL=1"),
    "a kill, changes": Check(f"SCEN=1 {KILL} ADJ=1"),
    "two kills": Check("SCEN=1 KILLS=2 STOPS=0", is_large=True),
    "a kill among three": Check(f"SCEN=1 {KILL} N=3", is_large=True),
    "a stop": Check(f"SCEN=1 {STOP}", is_large=True),
    "a stop, late plugins are dropped": Check(f"SCEN=1 {STOP} KEEPS=0", is_large=True),
    "a stop, creates fail": Check(f"SCEN=1 {STOP} FAILPOL=1", is_large=True),
    "a stop, changes": Check(f"SCEN=1 {STOP} ADJ=1", is_large=True),
    "a lost connection": Check(f"SCEN=1 {LOSS}"),
    "two updates": Check(f"SCEN=2 {NONE}"),
    "two updates, which fail": Check(f"SCEN=2 {NONE} FAILPOL=1"),
    "two lives": Check(f"SCEN=3 {NONE}"),
    "a kill before a removal": Check(f"SCEN=4 {KILL}"),
    "a hold": Check(f"SCEN=1 {NONE} HOLD=1"),
    "a hold and a kill": Check(f"SCEN=1 {KILL} HOLD=1 FAILPOL=1"),
    "a hold and a stop": Check(f"SCEN=1 {STOP} HOLD=1 FAILPOL=1", is_large=True),
    "a hold and a lost connection": Check(f"SCEN=1 {LOSS} HOLD=1"),
    # Each rule is needed: without it, the promise breaks.
    "without: no note replaces a younger one": Check(f"SCEN=2 {NONE} OLDER", is_broken=True),
    "without: what failed after the time was up is past": Check(f"SCEN=1 {STOP} FAILPOL=1 FAILED", is_broken=True),
    "without: sent in time is on the safe side": Check(f"SCEN=1 {STOP} ADJ=1 UNSEEN", is_broken=True),
    "without: LATER": Check(f"SCEN=3 {NONE} NOLATER", is_broken=True),
    "without: notes at the first event after a look": Check(f"SCEN=1 {KILL} FIRSTLOOK", is_broken=True),
    "without: FAILED": Check(f"SCEN=1 {STOP} FAILPOL=1 ERASE", is_broken=True),
    "without: PAST for deletes, which take older creates": Check(f"SCEN=3 {NONE} TIMED", is_broken=True),
    "without: a stop refuses what is held": Check(f"SCEN=1 {NONE} HOLD=1 UNSTOPPED", is_broken=True),
    "without: the keeper": Check(f"SCEN=1 {KILL} HOLD=1 KEEPERLESS", is_broken=True),
    "without: a lost connection ends holds": Check(f"SCEN=1 {LOSS} HOLD=1 UNLOST", is_broken=True),
}


def check(options: list[str], directory: Path, *, shows: bool = False, is_large: bool = False) -> tuple[str, bool]:
    """Checks the model under some options; returns what spin tells, and whether the promise is broken."""
    (directory / MODEL.name).write_text(MODEL.read_text())
    run = {"cwd": directory, "capture_output": True, "text": True}
    spin = ["spin", "-a", *options, MODEL.name]
    subprocess.run(spin, check=True, **run)  # type: ignore[call-overload]
    subprocess.run([*GCC, "-O2" if is_large else "-O0", "-o", "pan", "pan.c"], check=True, **run)  # type: ignore[call-overload]
    told = subprocess.run(["./pan", "-m200000"], check=True, **run).stdout  # type: ignore[call-overload]
    states = re.search(r"(\d+) states, stored", told)
    errors = re.search(r"errors: (\d+)", told)
    if states is None or errors is None or "max search depth" in told:
        raise RuntimeError(told)
    found = re.search(r"pan:1: (.*) \(at depth", told)
    if shows and found:
        story = subprocess.run(["spin", "-t", *options, MODEL.name], check=False, **run)  # type: ignore[call-overload]
        print(story.stdout[: story.stdout.rindex("spin: trail ends")])
    return f"{states[1]} states, {found[1] if found else 'holds'}", errors[1] != "0"


def main() -> int:
    """Runs the checks that are asked for."""
    options = [word for word in sys.argv[1:] if word.startswith("-D")]
    names = [word for word in sys.argv[1:] if not word.startswith("-D")] or CHECKS
    with tempfile.TemporaryDirectory() as directory:
        if options:
            text, is_broken = check(options, Path(directory), shows=True)
            print(text)
            return int(is_broken)
        bad = 0
        for name in names:
            began, one = time.monotonic(), CHECKS[name]
            text, is_broken = check(
                [f"-D{word}" for word in one.options.split()], Path(directory), is_large=one.is_large
            )
            is_bad = is_broken is not one.is_broken
            bad += is_bad
            print(f"{'BAD ' if is_bad else ''}{name}: {text}, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{len(names)} checks, {bad} bad")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
