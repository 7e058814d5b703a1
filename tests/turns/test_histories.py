"""Several adapters in histories of a node, a few where a person waits: the promise holds in each of them.

`world` makes them, `judge` knows the promise. These histories are the same in each run: of random ones, some in a
thousand have more faults at a time than the promise allows for, and the judge cannot tell these from a bug.
`python -m tests.turns NUMBER` plays random ones.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import CI

ROOT = Path(__file__).parents[2]
FEW, MANY = 10, 60
"""How many are played in a batch: where a person waits, and in CI."""


@pytest.mark.parametrize("first", [900_000, 900_200, 901_000])
def test_each_event_is_served_once_whatever_becomes_of_the_adapters(first: int) -> None:
    command = [sys.executable, "-m", "tests.turns", str(MANY if CI else FEW), str(first)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    found = re.search(r"(\d+) runs of plugins, 0 bad", told.stdout)
    assert found, told.stdout
    assert int(found[1]) > 100, "plugins have run"
