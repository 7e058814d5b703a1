"""The way of an event is no longer than it was: Python calls, files, and moves from file to file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLACK = 25
"""Calls and moves of what the daemon does once in a second, which may come just then."""
LONGEST = {
    ("StartContainer", ""): (229, 39, 147),
    ("CreateContainer", ""): (134, 36, 81),
    ("StopContainer", ""): (79, 27, 54),
    ("CreateContainer", "adjust"): (760, 58, 225),
}
"""At most so many calls, files and moves: at an event, with a plugin for the usual events or one that adjusts."""


@pytest.mark.parametrize("way", ["", "adjust"])
def test_the_way_of_an_event_is_no_longer_than_it_was(way: str) -> None:
    command = [sys.executable, "-m", "tests.bench.route", *([way] if way else [])]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60).stdout)
    print(found)
    for (event, of), (calls, files, moves) in LONGEST.items():
        if of == way:
            most = {"calls": calls + SLACK, "files": files + 5, "moves": moves + SLACK}
            assert all(found[event][name] <= number for name, number in most.items()), (event, found[event])
