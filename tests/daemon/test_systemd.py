"""The adapter as a service of systemd, which is played by a socket: when it is ready, alive, and about to end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .harness import SAFETY, Daemon, Node


class Systemd:
    """Listens where NOTIFY_SOCKET says."""

    def __init__(self, path: Path) -> None:
        self.environ = {"NOTIFY_SOCKET": str(path)}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(SAFETY)
        self.socket.bind(str(path))

    def next(self) -> list[str]:
        """Waits for the next message; returns its lines."""
        return self.socket.recv(4096).decode().splitlines()

    @staticmethod
    @contextmanager
    def runtime(path: Path) -> Iterator[socket.socket]:
        """Listens as a runtime."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.settimeout(SAFETY)
            listening.bind(str(path))
            listening.listen()
            yield listening


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(tmp_path / "notify")
    yield made
    made.socket.close()


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.settimeout(SAFETY)
        listening.bind(str(tmp_path / "nri.sock"))
        yield listening


@pytest.fixture
def daemon(node: Node, systemd: Systemd, runtime: socket.socket, tmp_path: Path) -> Daemon:
    """An adapter whose runtime does not listen yet."""
    config = tmp_path / "adapter.yaml"
    config.write_text(node.settings())
    return node.external("-config", config, "-socket", tmp_path / "nri.sock", environ=systemd.environ)


def test_it_is_ready_while_it_waits_for_a_runtime_and_tells_when_it_has_joined(
    daemon: Daemon, systemd: Systemd, runtime: socket.socket
) -> None:
    assert systemd.next() == ["READY=1", "STATUS=waits for the runtime"]
    runtime.listen()
    daemon.accept(runtime)
    assert systemd.next() == ["STATUS=the runtime has not configured and synchronized the adapter yet"]
    daemon.handshake()
    assert systemd.next() == ["READY=1", "STATUS=joined with the runtime"]
    daemon.hang_up()
    assert systemd.next() == ["READY=1", "STATUS=waits for the runtime"]
    daemon.signal(signal.SIGTERM)
    while (message := systemd.next()) != ["STOPPING=1", "STATUS=finishes the plugins under way"]:
        assert "STOPPING=1" not in message
    assert daemon.ended() == 0


def test_with_a_runtime_there_it_is_ready_only_once_it_has_joined(
    node: Node, systemd: Systemd, runtime: socket.socket, tmp_path: Path
) -> None:
    runtime.listen()
    daemon = node.external("-socket", tmp_path / "nri.sock", listener=runtime, environ=systemd.environ)
    daemon.handshake(node.settings())
    told = [systemd.next(), systemd.next()]
    assert [message[0] for message in told] == [
        "STATUS=the runtime has not configured and synchronized the adapter yet",
        "READY=1",
    ]


def test_its_loop_feeds_the_watchdog(node: Node, systemd: Systemd, tmp_path: Path) -> None:
    environ = systemd.environ | {"WATCHDOG_USEC": "2000"}
    node.external("-socket", tmp_path / "nri.sock", environ=environ)
    fed = 0
    while fed < 10:
        fed += systemd.next() == ["WATCHDOG=1"]
