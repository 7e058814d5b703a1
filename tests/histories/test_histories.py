"""Random histories of a node, a few where a person waits: the promises hold in each of them.

`judge` has the promises. `python -m tests.histories 1 SEED` plays a history again, and prints all of it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..rig.brief import CI

ROOT = Path(__file__).parents[2]
FEW, MANY = 45, 400
"""How many are played in a batch: where a person waits, and in CI."""


@pytest.mark.parametrize("batch", range(3 if CI else 1))
def test_what_is_promised_of_any_history_holds(batch: int, seed: int) -> None:
    number = MANY if CI else FEW
    command = [sys.executable, "-m", "tests.histories", str(number), str(seed % (1 << 32) + batch * number)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(f"batch {batch}: {told.stdout}")
    assert told.returncode == 0, told.stdout + told.stderr
    found = re.search(r"(\d+) runs of plugins, 0 bad", told.stdout)
    assert found, told.stdout
    assert int(found[1]) > 5 * number, "plugins have run"
