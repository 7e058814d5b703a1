"""What holds for all tests: in CI, generated examples are the same each time, so that only a change turns it red."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from .processes import Programs, SteppedLoop, children, open_descriptors

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture
def loop() -> Iterator[SteppedLoop]:
    """A loop; when the test is over, nothing that was started on it may be left."""
    before = open_descriptors()
    loop = SteppedLoop()
    yield loop
    loop.close()
    left = children()
    for pid in left:  # not to spoil the tests to come
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert left == [], "children are left, or zombies"
    assert open_descriptors() == before, "descriptors are left open"


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path / "bin")
