"""The right to serve, of adapters in one process: the clock stands still until it is moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapter.daemon.lease import GIVE_WAY, LOOK, Lease
from adapter.host.lock import Lock
from adapter.host.trust import off
from tests.legacy.histories import Clock


class StillLoop(Clock):
    """A loop in which no descriptor becomes ready."""

    def watch(self, fd: int, callback: object) -> None:
        pass

    def unwatch(self, fd: int) -> None:
        pass


class Adapter:
    """A lease, and whether it was taken without an event."""

    def __init__(self, clock: Any, directory: Path) -> None:
        self.lock = Lock(str(directory), off)
        self.has_taken = False
        self.lease = Lease(clock, self.lock, off, self.take, lambda: None)

    def take(self) -> None:
        self.has_taken = True

    def lose_connection(self) -> None:
        self.lock.release(())
        self.lease.on_released(waits=False)
        self.lease.leave(is_connected=False)


@pytest.fixture
def adapters(tmp_path: Path) -> tuple[Any, Adapter, Adapter]:
    clock = StillLoop()
    return clock, Adapter(clock, tmp_path), Adapter(clock, tmp_path)


def test_one_that_waits_looks_at_the_lock_now_and_then(adapters: tuple[Any, Adapter, Adapter]) -> None:
    clock, owner, waiting = adapters
    assert owner.lease.join()
    assert not waiting.lease.join()
    clock.advance(LOOK)
    owner.lose_connection()
    clock.advance(LOOK)
    assert waiting.has_taken
    waiting.lose_connection()


def test_one_that_joins_again_leaves_the_free_lock_to_one_that_has_waited(
    adapters: tuple[Any, Adapter, Adapter],
) -> None:
    """Only that one has the events that came while the connection was lost."""
    clock, owner, waiting = adapters
    assert owner.lease.join()
    assert not waiting.lease.join()
    owner.lose_connection()
    assert not owner.lease.join()
    assert not owner.lease.take()
    clock.advance(LOOK)
    assert waiting.has_taken
    waiting.lose_connection()
    clock.advance(GIVE_WAY)
    assert owner.has_taken
    owner.lose_connection()


def test_alone_it_takes_the_lock_as_it_joins(adapters: tuple[Any, Adapter, Adapter]) -> None:
    _, owner, _ = adapters
    for _ in range(2):
        assert owner.lease.join()
        owner.lose_connection()
