"""How long the daemon waits, and how often it looks, on a loop whose time a test sets."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from nri import Identity
from nri.errors import RegistrationError
from v010_adapter.base.loop import Loop
from v010_adapter.daemon.adapter import Adapter
from v010_adapter.daemon.daemon import ConnectionState, Daemon, Origin
from v010_adapter.settings import Settings

from ..rig.loop import SteppedLoop


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SteppedLoop:
    """The loop of the daemons, whose state directory is this test's own."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    made = SteppedLoop()
    monkeypatch.setattr("v010_adapter.daemon.daemon.Loop", lambda: made)
    return made


def daemon_of(origin: Origin) -> Daemon:
    return Daemon(Settings(), [], Identity("00", "a"), lambda: (Settings(), []), origin)


def test_an_adapter_tries_to_join_every_half_second_at_last(loop: SteppedLoop) -> None:
    tried = []

    def connect() -> int:
        tried.append(round(loop.now - 1000, 2))
        raise RegistrationError("no runtime")

    daemon_of(Origin(connect))._try()
    for _ in range(200):
        loop.advance(0.01)
    assert tried == pytest.approx([0, 0.1, 0.3, 0.7, 1.2, 1.7], abs=0.06)


def test_a_connection_that_epoll_does_not_take_leaves_neither_a_descriptor_nor_a_reminder(
    loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """epoll has a limit for each user (fs.epoll.max_user_watches). The adapter joins when there is room."""
    caplog.set_level("INFO")
    runtime: list[socket.socket] = []

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def connect() -> int:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        runtime.append(theirs)
        return ours.detach()

    daemon = daemon_of(Origin(connect))
    with monkeypatch.context() as full:
        full.setattr(Loop, "watch", refuse)
        daemon._try()
        for _ in range(40):
            loop.advance(0.5)
    assert {theirs.recv(1) for theirs in runtime} == {b""}, "each one is closed"
    assert daemon.state is ConnectionState.APART
    assert "has not configured and synchronized" not in caplog.text
    loop.advance(0.5)
    assert runtime[-1].recv(100), "it registers"
    for theirs in runtime:
        theirs.close()


def test_the_end_waits_ten_seconds_for_plugins(
    loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Adapter, "when_idle", lambda *_: None)
    daemon_of(Origin())._finish(0)
    loop.advance(9)
    assert "still busy" not in caplog.text
    loop.advance(2)
    assert "still busy" in caplog.text


def test_the_log_says_every_ten_seconds_that_the_runtime_takes_its_time(
    loop: SteppedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    ours, theirs = socket.socketpair()
    with theirs:
        daemon_of(Origin())._join(ours.detach())
        for _ in range(35):
            loop.advance(1)
        assert caplog.text.count("has not configured and synchronized the adapter yet") == 3
