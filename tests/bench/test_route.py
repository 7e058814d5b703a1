"""The way of an event is no longer than it was: Python calls, files, and moves from file to file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLACK = {"calls": 8, "files": 2, "moves": 8}
"""For a turn of the loop more, and for other versions of Python."""
LONGEST = {
    ("StartContainer", ""): (152, 35, 105),
    ("CreateContainer", ""): (92, 31, 60),
    ("StopContainer", ""): (47, 23, 39),
    ("CreateContainer", "adjust"): (320, 56, 184),
}
"""At most so many calls, files and moves: at an event, with a plugin for the usual events or one that adjusts."""


@pytest.mark.parametrize("way", ["", "adjust"])
def test_the_way_of_an_event_is_no_longer_than_it_was(way: str) -> None:
    command = [sys.executable, "-m", "tests.bench.route", *([way] if way else [])]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    print(found)
    for (event, of), (calls, files, moves) in LONGEST.items():
        if of == way:
            most = {"calls": calls, "files": files, "moves": moves}
            assert all(found[event][name] <= number + SLACK[name] for name, number in most.items()), (event, found)
