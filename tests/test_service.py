"""What systemd is told over the socket that it names in the environment."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from v010_adapter.monitoring.service import Service

from .rig.loop import SteppedLoop

OURS, ANOTHERS = str(os.getpid()), "1"


@pytest.fixture
def loop() -> Iterator[SteppedLoop]:
    """Without a check of descriptors: a service keeps its socket as long as it lives."""
    loop = SteppedLoop()
    yield loop
    loop.close()


@pytest.fixture(params=["{path}", "@{path}"], ids=["path", "abstract"])
def environ(request: pytest.FixtureRequest, short_path: Path) -> dict[str, str]:
    return {"NOTIFY_SOCKET": request.param.format(path=short_path / "notify"), "LANG": "C"}


@pytest.fixture
def systemd(environ: dict[str, str]) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listening:
        listening.bind(environ["NOTIFY_SOCKET"].replace("@", "\0"))
        yield listening


def heard(systemd: socket.socket) -> list[str]:
    """All messages so far."""
    messages = []
    with suppress(BlockingIOError):
        while True:
            messages.append(systemd.recv(4096).decode())
    return messages


def test_messages_arrive_without_a_watchdog_there_is_no_timer_and_the_variables_are_gone(
    loop: SteppedLoop, environ: dict[str, str], systemd: socket.socket
) -> None:
    environ |= {"WATCHDOG_USEC": "1", "WATCHDOG_PID": ANOTHERS}
    Service(loop, environ).notify("READY=1\nSTATUS=fine")
    assert heard(systemd) == ["READY=1\nSTATUS=fine"]
    assert loop.is_idle
    assert environ == {"LANG": "C"}


def test_the_watchdog_is_fed_twice_in_time(loop: SteppedLoop, environ: dict[str, str], systemd: socket.socket) -> None:
    Service(loop, environ | {"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": OURS})
    for _ in range(3):
        assert heard(systemd) == ["WATCHDOG=1"]
        loop.advance(1.4)
        assert heard(systemd) == []
        loop.advance(0.1)


def test_a_watchdog_of_another_process_or_without_a_time_is_not_fed(
    loop: SteppedLoop, environ: dict[str, str], systemd: socket.socket
) -> None:
    for microseconds, pid in (("3000000", ANOTHERS), ("soon", OURS), ("0", OURS)):
        Service(loop, environ | {"WATCHDOG_USEC": microseconds, "WATCHDOG_PID": pid})
        assert not heard(systemd)
    for given in ({}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}):  # no address that can be used
        Service(loop, {**given, "WATCHDOG_USEC": "1"}).notify("READY=1")
    assert loop.is_idle


def test_nobody_who_listens_and_a_full_queue_hold_nothing_up(
    loop: SteppedLoop, environ: dict[str, str], request: pytest.FixtureRequest
) -> None:
    service = Service(loop, dict(environ))
    service.notify("READY=1")
    systemd: socket.socket = request.getfixturevalue("systemd")
    for _ in range(10_000):
        service.notify("READY=1")
    assert 0 < len(heard(systemd)) < 10_000
