from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Node, listening


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node without a daemon. Whatever a test does to those it starts, none may end up in a traceback."""
    made = Node(tmp_path)
    try:
        yield made
    finally:
        made.close()
    for daemon in made.daemons:
        log = "\n".join(daemon.log)
        assert "Traceback" not in log, log


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """The NRI socket of the runtime that this process plays."""
    with listening(tmp_path / "nri.sock") as made:
        yield made
