"""The right to serve, of two adapters in one process: the clock stands still until it is moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapter.daemon.lease import SOON, Lease
from adapter.host.lock import Lock
from adapter.host.trust import off
from tests.legacy.histories import Clock


class StillLoop(Clock):
    """A loop in which no descriptor becomes ready."""

    def watch(self, fd: int, callback: object) -> None:
        pass

    def unwatch(self, fd: int) -> None:
        pass


def test_one_that_waits_looks_at_the_lock_now_and_then_and_sooner_after_an_event(tmp_path: Path) -> None:
    clock: Any = StillLoop()
    taken: list[bool] = []
    owner = Lock(str(tmp_path), off)
    assert owner.take()
    waiting = Lease(clock, Lock(str(tmp_path), off), off, lambda: taken.append(True), lambda: None)
    assert not waiting.join()
    waiting.on_left()
    clock.advance(SOON)
    owner.release(())
    clock.advance(SOON)
    assert taken == [True]
    waiting.on_released(waits=False)
