"""The right to serve, of adapters in one process: the clock stands still until it is moved, descriptors are polled."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapter.daemon.lease import LOOK, SOON, Lease
from adapter.daemon.owner_socket import NAME
from adapter.host.lock import NOTHING, Lock, Served, Told
from adapter.host.trust import off
from tests.legacy.played import Clock

TOLD = Told(0.0, NOTHING)


class HandLoop(Clock):
    """A loop that looks at its descriptors when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self._watched: dict[int, Callable[[], object]] = {}

    def watch(self, fd: int, callback: Callable[[], object]) -> None:
        self._watched[fd] = callback

    def unwatch(self, fd: int) -> None:
        self._watched.pop(fd, None)

    def look(self) -> None:
        """Serves descriptors until none is ready."""
        while ready := select.select(list(self._watched), [], [], 0)[0]:
            for fd in ready:
                if fd in self._watched:
                    self._watched[fd]()
        self.advance(0)


class Adapter:
    """An adapter that releases the lock when it is asked."""

    def __init__(self, loop: Any, directory: Path, *, has_missed: bool = False) -> None:
        self.lock = Lock(str(directory), off)
        self.tells = TOLD
        self.taken = 0
        self.are_unbroken: list[bool] = []
        self.told: list[Told] = []
        self.has_missed = has_missed
        self.lease = Lease(loop, self.lock, off, self)

    def on_taken(self) -> None:
        self.taken += 1
        self.are_unbroken.append(self.lease.is_unbroken)
        self.lease.begin(self.tells)

    def on_told(self, told: Told) -> bool:
        self.told.append(told)
        return self.has_missed

    def is_fit(self) -> bool:
        return True

    def on_asked(self) -> None:
        self.lease.release((), NOTHING)

    def end(self) -> None:
        self.lease.leave(is_connected=False)
        self.on_asked()


@pytest.fixture
def loop() -> HandLoop:
    return HandLoop()


def test_the_end_of_the_owner_is_noticed_while_the_clock_stands_still(loop: HandLoop, tmp_path: Path) -> None:
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    assert (first.lease.join(), second.lease.join()) == (True, False)
    loop.look()
    first.end()
    loop.look()
    assert (second.taken, second.lease.is_held) == (1, True)
    second.end()


def test_an_owner_that_is_asked_releases_and_waits_in_its_turn(loop: HandLoop, tmp_path: Path) -> None:
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    assert (first.lease.join(), second.lease.join()) == (True, False)
    answer = second.lease.ask(loop.now + 2)
    assert answer is not None
    is_owner: list[bool] = []
    answer.then(lambda *_: is_owner.append(second.lease.is_held))
    assert second.lease.ask(loop.now + 2) is None, "one event waits, and the others are left"
    loop.look()
    assert (is_owner, second.taken, first.lease.is_held) == ([True], 1, False)
    loop.advance(LOOK)
    loop.look()
    second.end()
    loop.look()
    assert first.taken == 2
    first.end()


def test_an_owner_that_does_not_answer_is_waited_for_half_of_the_time(loop: HandLoop, tmp_path: Path) -> None:
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    assert (first.lease.join(), second.lease.join()) == (True, False)
    answer = second.lease.ask(loop.now + 2)
    assert answer is not None
    loop.advance(1)
    assert answer.done
    loop.look()
    assert second.taken == 1, "when it answers after all"
    second.end()
    first.end()


def test_of_two_that_wait_the_newer_takes_the_lock_and_the_other_waits_for_it(loop: HandLoop, tmp_path: Path) -> None:
    first, second, third = (Adapter(loop, tmp_path) for _ in range(3))
    assert [each.lease.join() for each in (first, second, third)] == [True, False, False]
    loop.look()
    first.end()
    loop.look()
    assert (second.taken, third.taken) == (0, 1)
    loop.advance(LOOK)
    loop.look()
    third.end()
    loop.look()
    assert second.taken == 1
    second.end()


def test_an_owner_without_a_socket_is_waited_for_all_the_same(loop: HandLoop, tmp_path: Path) -> None:
    older, waiting = Lock(str(tmp_path), off), Adapter(loop, tmp_path)
    assert older.take()
    assert not waiting.lease.join()
    assert waiting.lease.ask(loop.now + 2) is None
    loop.advance(10 * LOOK)
    older.release(())
    loop.advance(LOOK)
    assert (waiting.taken, waiting.told) == (1, [])
    waiting.end()


def test_an_event_waits_for_a_killed_owners_lock_after_its_socket_is_closed(loop: HandLoop, tmp_path: Path) -> None:
    killed, waiting = Lock(str(tmp_path), off), Adapter(loop, tmp_path)
    assert killed.take()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / NAME))
        listening.listen()
        assert not waiting.lease.join()
    assert not waiting.lease.take()
    answer = waiting.lease.ask(loop.now + 2)
    assert answer is not None
    is_owner: list[bool] = []
    answer.then(lambda *_: is_owner.append(waiting.lease.is_held))
    assert waiting.lease.ask(loop.now + 2) is None, "one event waits, and the others are left"
    killed.release(())
    loop.advance(4 * SOON)
    assert (is_owner, waiting.taken) == ([True], 1)
    waiting.end()


def test_who_has_missed_events_asks_at_once_and_who_begins_anew_tells_again(loop: HandLoop, tmp_path: Path) -> None:
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    first.tells = Told(1.0, Served("a", "b", 0.5))
    assert (first.lease.join(), second.lease.join()) == (True, False)
    loop.look()
    assert (second.told, second.taken) == ([Told(1.0, Served("a", "b", 0.5))], 0)
    second.has_missed = True
    first.lease.begin(Told(2.0, Served("c c", "", 1.5)))
    loop.look()
    assert second.told[1:] == [Told(2.0, Served("c c", "", 1.5))]
    assert (second.taken, first.lease.is_held) == (1, False)
    second.end()
    first.end()


def test_one_that_waits_no_more_is_forgotten(loop: HandLoop, tmp_path: Path) -> None:
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    assert (first.lease.join(), second.lease.join()) == (True, False)
    second.end()
    loop.look()
    first.end()
    loop.advance(10 * LOOK)
    loop.look()
    assert (second.taken, second.lease.is_held) == (0, False)


def test_a_state_directory_that_was_made_again_gets_its_socket(loop: HandLoop, tmp_path: Path) -> None:
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    assert first.lease.join()
    for file in tmp_path.iterdir():
        file.unlink()
    first.lock.repair()
    assert (tmp_path / NAME).is_socket()
    assert not second.lease.join()
    first.end()
    loop.look()
    assert (second.taken, second.told) == (1, [TOLD])
    second.end()


def test_an_owner_may_be_unable_to_listen(loop: HandLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / NAME).mkdir()
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    assert (first.lease.join(), second.lease.join()) == (True, False)
    assert f"{tmp_path}/{NAME}: " in caplog.text
    first.end()
    loop.advance(LOOK)
    assert second.taken == 1
    second.end()


def test_what_an_adapter_knows_is_broken_if_a_newer_one_has_served_meanwhile(loop: HandLoop, tmp_path: Path) -> None:
    first, second, third = (Adapter(loop, tmp_path) for _ in range(3))
    assert [each.lease.join() for each in (first, second, third)] == [True, False, False]
    third.lease.ask(loop.now + 2)
    for ends in (third, first):  # the runtime may have sent events to the third alone
        loop.look()
        ends.end()
    loop.look()
    loop.advance(LOOK)
    assert (third.are_unbroken, second.are_unbroken) == ([True], [False])
    second.end()
