"""How long the daemon waits, and how often it looks, on a loop whose time a test sets."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Any

import pytest

from nri import Identity
from nri.errors import RegistrationError
from v010_adapter.base.loop import Loop
from v010_adapter.daemon.adapter import Adapter
from v010_adapter.daemon.daemon import ConnectionState, Daemon, Origin
from v010_adapter.daemon.guard import Launch
from v010_adapter.monitoring import logs
from v010_adapter.programs.children import children
from v010_adapter.settings import Settings

from ..rig.loop import SteppedLoop
from ..rig.processes import failing


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SteppedLoop:
    """The loop of the daemons, whose state directory is this test's own."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    made = SteppedLoop()
    monkeypatch.setattr("v010_adapter.daemon.daemon.Loop", lambda: made)
    return made


def pass_by(loop: SteppedLoop, seconds: float) -> None:
    """Lets time pass in steps of a hundredth of a second."""
    for _ in range(round(seconds * 100)):
        loop.advance(0.01)


def daemon_of(origin: Origin, **settings: Any) -> Daemon:
    own = Settings(**settings)
    return Daemon(own, [], Identity("00", "a"), lambda: (own, []), origin)


def connected(runtime: list[socket.socket]) -> int:
    """A connection with a runtime, which is noted."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    runtime.append(theirs)
    return ours.detach()


def test_an_adapter_tries_every_half_second_at_last_after_a_loss_as_at_the_start_and_after_a_bug_in_a_second(
    loop: SteppedLoop,
) -> None:
    tried: list[float] = []
    runtime: list[socket.socket] = []

    def connect() -> int:
        tried.append(loop.now - 1000)
        if len(tried) not in {6, 9}:
            raise RegistrationError("no runtime")
        return connected(runtime)

    daemon = daemon_of(Origin(connect))
    daemon._try()
    pass_by(loop, 1.8)
    daemon.on_joined()
    runtime[0].close()
    loop.until(lambda: daemon.state is ConnectionState.APART, "it does not see the loss")
    pass_by(loop, 0.8)
    daemon.on_bug(ValueError("played"))
    assert runtime[1].recv(1000)
    assert runtime[1].recv(1) == b"", "the connection is closed"
    runtime[1].close()
    pass_by(loop, 1.1)
    assert tried == pytest.approx([0, 0.1, 0.3, 0.7, 1.2, 1.7, *(1.8 + 0.1, 1.8 + 0.3, 1.8 + 0.7), 2.6 + 1], abs=0.06)


def test_a_launched_adapter_joins_again_where_its_own_settings_say_unless_the_runtime_has_sent_others(
    loop: SteppedLoop,
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        launch = Launch(ours.fileno())
        daemon = daemon_of(Origin(launch=launch), socket="/own.sock")
        assert launch.socket == "/own.sock"
        daemon.keep_configuration("a text", "/runtime.sock")
        assert (launch.socket, launch.text()) == ("/runtime.sock", "a text")


def test_an_adapter_that_ends_leaves_its_port_to_others_and_waits_ten_seconds_for_its_plugins(
    loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Adapter, "when_idle", lambda *_: None)
    with socket.socket() as kept:  # from others: it does not listen
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        daemon = daemon_of(Origin(), metrics_listen=(f"127.0.0.1:{kept.getsockname()[1]}",))
        for one in (daemon, daemon_of(Origin())):
            one._open()
        with socket.create_connection(kept.getsockname()):
            daemon._finish(0)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(kept.getsockname())
    loop.advance(9)
    assert "still busy" not in caplog.text
    loop.advance(2)
    assert "still busy" in caplog.text


def test_it_looks_for_orphans_each_second_and_sooner_while_lines_are_written_that_had_to_wait(
    loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[float] = []
    written = iter([0, 0, 3, 1, 0, 0])
    monkeypatch.setattr(logs, "flush", lambda: next(written))
    monkeypatch.setattr(children, "reap_strangers", lambda: looked.append(loop.now - 1000))
    daemon_of(Origin())._keep_house()
    pass_by(loop, 3.5)
    assert looked == pytest.approx([0, 1, 2, 2, 2, 3], abs=0.06)


def test_a_connection_that_epoll_does_not_take_leaves_neither_a_descriptor_nor_a_reminder(
    loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """epoll has a limit for each user (fs.epoll.max_user_watches). The adapter joins when there is room."""
    caplog.set_level("INFO")
    runtime: list[socket.socket] = []
    daemon = daemon_of(Origin(lambda: connected(runtime)))
    with monkeypatch.context() as full:
        full.setattr(Loop, "watch", failing(errno.ENOSPC))
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
