"""What systemd is told over the socket that it names in the environment."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from adapter.base.loop import Loop
from adapter.monitoring.service import Service


class Timers:
    """A loop whose clock stands still; `due` has its timers."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], object]]] = []
        self.time = lambda: 100.0

    def call_at(self, moment: float, callback: Callable[[], object]) -> None:
        self.due.append((moment, callback))


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.fixture(params=["{path}", "@{path}"], ids=["path", "abstract"])
def environ(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    return {"NOTIFY_SOCKET": request.param.format(path=tmp_path / "notify"), "LANG": "C"}


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


def service(timers: Timers, environ: dict[str, str]) -> Service:
    return Service(cast(Loop, timers), environ)


def test_messages_arrive_without_a_watchdog_there_is_no_timer_and_the_variables_are_gone(
    timers: Timers, environ: dict[str, str], systemd: socket.socket
) -> None:
    environ |= {"WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}
    service(timers, environ).notify("READY=1\nSTATUS=fine")
    assert heard(systemd) == ["READY=1\nSTATUS=fine"]
    assert not timers.due
    assert environ == {"LANG": "C"}


def test_the_watchdog_is_fed_at_once_and_then_by_the_loop_twice_in_its_time(
    timers: Timers, environ: dict[str, str], systemd: socket.socket
) -> None:
    service(timers, environ | {"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())})
    for _ in range(3):
        assert heard(systemd) == ["WATCHDOG=1"]
        [(moment, feed)], timers.due = timers.due, []
        assert moment == 101.5
        feed()


def test_a_watchdog_of_another_process_or_without_a_time_is_not_fed(
    timers: Timers, environ: dict[str, str], systemd: socket.socket
) -> None:
    for watchdog in (
        {"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "0"},
    ):
        service(timers, environ | watchdog)
        assert not heard(systemd)
    for given in ({}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}):  # no address that can be used
        service(timers, {**given, "WATCHDOG_USEC": "1"}).notify("READY=1")
    assert not timers.due


def test_nobody_who_listens_and_a_full_queue_hold_nothing_up(timers: Timers, environ: dict[str, str]) -> None:
    address = environ["NOTIFY_SOCKET"].replace("@", "\0")
    telling = service(timers, environ)
    telling.notify("READY=1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        for _ in range(10_000):
            telling.notify("READY=1")
        systemd.setblocking(False)
        assert 0 < len(heard(systemd)) < 10_000
