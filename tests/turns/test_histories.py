"""Several adapters in random histories of a node, a few where a person waits: the promise holds in each of them.

`world` makes them, `judge` knows the promise. `python -m tests.turns 1 SEED` plays one again, and prints all of it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..rig.brief import CI

ROOT = Path(__file__).parents[2]
FEW, MANY = 10, 60
"""How many are played in a batch: where a person waits, and in CI."""


@pytest.mark.parametrize("batch", range(3 if CI else 1))
def test_each_event_is_served_once_whatever_becomes_of_the_adapters(batch: int) -> None:
    command = [sys.executable, "-m", "tests.turns", str(MANY if CI else FEW)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(f"batch {batch}: {told.stdout}")
    assert told.returncode == 0, told.stdout + told.stderr
    found = re.search(r"(\d+) runs of plugins, 0 bad", told.stdout)
    assert found, told.stdout
    assert int(found[1]) > 10 * FEW, "plugins have run"
