"""Of two adapters with one network, the one that serves the events has the port; each has its unix socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.sockets import connect
from v010_adapter.host.trust import off
from v010_adapter.monitoring.endpoints import Endpoints
from v010_adapter.monitoring.status import shares_network

from ..rig.loop import SteppedLoop

REOPEN_AFTER = 10.0


class Pair:
    """The endpoints of two adapters, with one port."""

    def __init__(self, loop: SteppedLoop, path: Path) -> None:
        self.loop = loop
        self._held = socket.socket()
        """Keeps the port from others, and does not listen."""
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))
        self.port = self._held.getsockname()[1]
        self.paths = [path / name for name in ("first.sock", "second.sock")]
        self.first, self.second = (Endpoints(loop, dict) for _ in self.paths)
        self.listens = [(f"unix:{one}", f"127.0.0.1:{self.port}") for one in self.paths]
        self.state = str(path / "state")

    def close(self) -> None:
        self.first.close()
        self.second.close()
        self._held.close()

    def open(self) -> None:
        for endpoints, listen in zip((self.first, self.second), self.listens, strict=True):
            endpoints.open(self.state, listen, off)

    @property
    def is_served(self) -> bool:
        """Whether somebody listens at the port; at the unix sockets, each adapter does."""
        for path in self.paths:
            with socket.socket(socket.AF_UNIX) as asked:
                connect(asked, path)
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def faults(self) -> list[list[str]]:
        return [self.first.faults, self.second.faults]


@pytest.fixture
def pair(loop: SteppedLoop, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(loop, tmp_path)
    yield pair
    pair.close()


def test_who_waits_takes_the_port_when_the_other_has_given_it_up_and_the_log_tells_who_has_it(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pair.second.show(is_shown=False)
    pair.open()
    assert (pair.is_served, pair.faults) == (True, [[], []])
    pair.first.show(is_shown=False)
    assert not pair.is_served
    pair.second.show(is_shown=True)
    pair.loop.settle()
    assert (pair.is_served, pair.faults) == (True, [[], []])
    place = f"metrics and probes at 127.0.0.1:{pair.port}"
    given_up = f"{place}: the adapter that serves the events has them now"
    assert [text for text in caplog.messages if text.startswith(place)] == [place, given_up, place]


def test_who_has_not_got_the_port_tries_again_until_it_does_not_need_it(pair: Pair) -> None:
    pair.open()
    assert pair.faults == [[], [f"metrics.listen: 127.0.0.1:{pair.port}: Address already in use"]]
    pair.second.show(is_shown=False)
    assert pair.faults == [[], []]
    pair.first.show(is_shown=False)
    pair.loop.advance(REOPEN_AFTER)
    assert not pair.is_served
    pair.second.show(is_shown=True)
    pair.loop.settle()
    assert pair.is_served


def test_a_unix_socket_that_was_removed_is_made_again(pair: Pair) -> None:
    pair.open()
    pair.first.open(pair.state, (), off)  # at the next connection: without effect
    pair.paths[0].unlink()
    pair.loop.advance(REOPEN_AFTER)
    assert (pair.is_served, pair.faults[0]) == (True, [])


def test_a_port_that_becomes_free_is_taken_though_nobody_has_told(pair: Pair) -> None:
    pair.open()
    pair.first.show(is_shown=False)
    pair.loop.advance(REOPEN_AFTER)
    assert (pair.is_served, pair.faults) == (True, [[], []])


def test_who_takes_the_port_and_gives_it_up_at_once_has_it_not(pair: Pair) -> None:
    pair.open()
    for is_shown in (False, True, False):
        pair.first.show(is_shown=is_shown)
        pair.second.show(is_shown=False)
    pair.loop.settle()
    assert not pair.is_served


def test_who_is_in_another_network_than_the_one_that_serves_keeps_the_port(pair: Pair) -> None:
    """In pods with networks of their own. The kernel does not list the other one's sockets here."""
    pair.first.open(pair.state, pair.listens[0], off)
    (Path(pair.state) / "status-of-another").touch()
    pair.first.show(is_shown=False)
    assert shares_network(f"{pair.state}/gone", "status-own"), "as nothing is known"
    with socket.socket() as asked:
        assert asked.connect_ex(("127.0.0.1", pair.port)) == 0
    pair.first.show(is_shown=True)
    pair.second.open(pair.state, pair.listens[1], off)
    pair.first.show(is_shown=False)
    assert not pair.is_served
