from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .harness import SAFETY, Daemon, Node


@contextmanager
def opened(path: Path) -> Iterator[Node]:
    made = Node(path)
    try:
        yield made
    finally:
        made.close()
    for daemon in made.daemons:
        log = "\n".join(daemon.log)
        assert "Traceback" not in log, log


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node without a daemon. Whatever a test does to those it starts, none may end up in a traceback."""
    with opened(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node for all the tests of a module."""
    with opened(tmp_path_factory.mktemp("node")) as made:
        yield made


@pytest.fixture
def shared(shared_node: Node) -> Daemon:
    """A daemon on that node that has survived the tests before this one; a new one where they failed.

    Records and log are those of this test alone.
    """
    for path in shared_node.path.glob("*.requests"):
        path.unlink()
    shared_node.configure()
    if shared_node.lasting is None or not shared_node.lasting.is_running():
        shared_node.lasting = shared_node.launch()
    shared_node.lasting.forget()
    return shared_node.lasting


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """The NRI socket of the runtime that this process plays."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "nri.sock"))
        listening.listen()
        listening.settimeout(SAFETY)
        yield listening
