"""Fixtures of the legacy serving's tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..rig.loop import SteppedLoop
from ..rig.node import Node
from .scenarios import Player


@pytest.fixture
def node(loop: SteppedLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Node]:
    caplog.set_level(logging.INFO)
    node = Node(loop, tmp_path / "node")
    yield node
    node.close()


@pytest.fixture
def player(node: Node, caplog: pytest.LogCaptureFixture) -> Player:
    return Player(node, caplog)
