"""The daemon's end of the socket: nothing is lost to a runtime that reads late, and closing tells nobody twice."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from v010_adapter.base.connected_socket import ConnectedSocket
from v010_adapter.base.loop import READ

from .rig.loop import SteppedLoop

MUCH = b"0123456789" * 500_000
"""More than any socket takes at once."""


class Session:
    """A trunk, the runtime's end of it, and what the trunk has reported."""

    def __init__(self, loop: SteppedLoop) -> None:
        self.loop = loop
        self.runtime, ours = socket.socketpair()
        self.runtime.setblocking(False)
        self.trunk = ConnectedSocket(loop, ours.detach())
        self.heard: list[bytes] = []
        self.reports: list[str] = []
        self.trunk.on_data = self.heard.append
        self.trunk.on_close = lambda reason: self.reports.append(reason or "closed")

    def report_sent(self) -> None:
        self.trunk.when_sent(lambda: self.reports.append("sent"))

    def read(self, length: int) -> bytes:
        """Reads as the runtime does, while the loop goes on."""
        got: list[bytes] = []
        self.loop.watch(self.runtime.fileno(), lambda: got.append(self.runtime.recv(1 << 20)))
        self.loop.until(lambda: sum(map(len, got)) >= length, "the trunk sends no more")
        self.loop.unwatch(self.runtime.fileno())
        return b"".join(got)


@pytest.fixture
def session(loop: SteppedLoop) -> Iterator[Session]:
    session = Session(loop)
    yield session
    session.trunk.close()
    session.runtime.close()


def test_a_runtime_that_reads_late_is_heard_and_gets_everything_in_order(
    loop: SteppedLoop, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    modify = Mock(wraps=loop.modify)
    monkeypatch.setattr(loop, "modify", modify)
    session.trunk.write(MUCH)
    session.trunk.write(b"and this")
    session.report_sent()
    session.runtime.send(b"hello")
    loop.until(lambda: session.heard == [b"hello"])
    assert session.reports == []
    assert session.read(len(MUCH) + 8) == MUCH + b"and this"
    assert session.reports == ["sent"]
    assert modify.call_args.args[2] == READ, "the loop does not turn for a socket that can be written to"


PART = b"x" * (1 << 20)
TOO_MUCH = "the other end does not read: more than 8388608 bytes wait to be sent"


@pytest.mark.parametrize("whole", [True, False], ids=["in one piece", "bit by bit"])
def test_a_runtime_that_does_not_read_8_mib_is_given_up(loop: SteppedLoop, session: Session, whole: bool) -> None:
    session.trunk.write(8 * PART)
    loop.settle()
    assert session.read(8 * len(PART)) == 8 * PART
    for part in [PART * 10] if whole else [PART] * 10:
        session.trunk.write(part)
        assert session.reports == []  # whoever writes is in the middle of something
    session.report_sent()
    loop.settle()
    session.trunk.write(b"lost")
    loop.settle()
    assert session.reports == ["sent", TOO_MUCH]


@pytest.mark.parametrize("data", [b"x", MUCH, 10 * PART], ids=["sent already", "unsent", "too much"])
def test_closing_drops_unsent_bytes_and_waiters_go_on_once(loop: SteppedLoop, session: Session, data: bytes) -> None:
    session.trunk.write(data)
    session.report_sent()
    session.trunk.close()
    session.trunk.close()
    session.trunk.write(b"lost")
    loop.settle()
    assert session.reports == ["sent"]


def test_a_trunk_that_is_closed_as_soon_as_all_is_sent_has_sent_all(session: Session) -> None:
    session.trunk.write(MUCH)
    session.trunk.when_sent(session.trunk.close)
    assert session.read(len(MUCH)) == MUCH
    assert (session.runtime.recv(1), session.reports) == (b"", [])


@pytest.mark.parametrize("unread", [b"", b"x"], ids=["in order", "with bytes of ours unread"])
def test_the_end_is_reported_once_and_writing_does_no_harm(loop: SteppedLoop, session: Session, unread: bytes) -> None:
    session.trunk.write(unread)
    session.runtime.close()
    session.trunk.write(b"lost")
    loop.until(lambda: session.reports == ["closed"])
    session.trunk.write(b"lost, too")
    loop.settle()
    assert session.reports == ["closed"]
