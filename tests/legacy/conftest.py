"""Fixtures of the legacy bridge's tests."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from .node import Node, Programs, SteppedLoop, children, open_descriptors


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


@pytest.fixture
def node(loop: SteppedLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Node]:
    caplog.set_level(logging.INFO)
    node = Node(loop, tmp_path / "node")
    yield node
    node.close()
