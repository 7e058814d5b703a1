"""The adapter as a service of systemd, which is played by a socket: when it is ready, alive, and about to end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.sockets import bind

from ..rig.listeners import Systemd
from ..rig.machine import Machine, launched, patched
from ..rig.waiting import LIMIT

JOINING = "STATUS=the runtime has not configured and synchronized the adapter yet"
WAITS = ["READY=1", "STATUS=waits for the runtime"]


@pytest.fixture
def systemd(short_path: Path) -> Iterator[Systemd]:
    made = Systemd(short_path / "notify")
    with made.socket:
        yield made


def test_it_is_ready_while_it_waits_for_a_runtime_and_tells_when_it_has_joined(node: Machine, systemd: Systemd) -> None:
    with socket.socket(socket.AF_UNIX) as runtime:
        runtime.settimeout(LIMIT)
        bind(runtime, node.path / "nri.sock")
        daemon = node.external(environ=systemd.environ)
        assert systemd.next() == WAITS
        runtime.listen()
        daemon.accept(runtime)
        assert systemd.next() == [JOINING]
        daemon.handshake()
        assert systemd.next() == ["READY=1", "STATUS=joined with the runtime"]
        daemon.hang_up()
        assert systemd.next() == WAITS
        daemon.signal(signal.SIGTERM)
        while (message := systemd.next()) != ["STOPPING=1", "STATUS=waits for the running plugins"]:
            assert "STOPPING=1" not in message
        assert daemon.ended() == 0


def test_it_is_ready_though_the_runtime_takes_its_time_to_configure_it(node: Machine, systemd: Systemd) -> None:
    """Some runtimes let no plugin join while a container has its grace period."""
    daemon = node.spawn(patched("daemon.REMINDER = 0.01"), {**launched(), **systemd.environ})
    daemon.registration()
    assert [systemd.next(), systemd.next()] == [[JOINING], ["READY=1"]]
    daemon.logged("INFO the runtime has not configured and synchronized the adapter yet")
