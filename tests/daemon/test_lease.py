"""The right to serve, of adapters in one process: the clock stands still until it is moved, descriptors are polled."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapter.daemon.lease import LOOK, SOCKET, SOON, Lease
from adapter.host.lock import NOTHING, Lock, Served, Told
from adapter.host.trust import off
from tests.legacy.histories import Clock

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
        self.taken = 0
        self.told: list[Told] = []
        self.has_missed = has_missed
        self.lease = Lease(loop, self.lock, off, self.on_taken, self.release, self.on_told)

    def on_taken(self) -> None:
        self.taken += 1
        self.lease.begin(TOLD)

    def on_told(self, told: Told) -> bool:
        self.told.append(told)
        return self.has_missed

    def join(self, told: Told = TOLD) -> bool:
        if is_owner := self.lease.join():
            self.lease.begin(told)
        return is_owner

    def release(self) -> None:
        self.lock.release(())
        self.lease.on_released()

    def end(self) -> None:
        self.lease.leave(is_connected=False)
        self.release()


@pytest.fixture
def loop() -> HandLoop:
    return HandLoop()


def test_the_end_of_the_owner_is_noticed_while_the_clock_stands_still(loop: HandLoop, tmp_path: Path) -> None:
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    assert (first.join(), second.join()) == (True, False)
    loop.look()
    first.end()
    loop.look()
    assert (second.taken, second.lease.is_held) == (1, True)
    second.end()


def test_an_owner_that_is_asked_releases_and_waits_in_its_turn(loop: HandLoop, tmp_path: Path) -> None:
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    assert (first.join(), second.join()) == (True, False)
    answer = second.lease.ask(loop.now + 2)
    assert answer is not None
    is_owner: list[bool | None] = []
    answer.then(lambda is_taken, _: is_owner.append(is_taken))
    assert second.lease.ask(loop.now + 2) is None, "one event waits, and the others are left"
    loop.look()
    assert (is_owner, second.taken, first.lease.is_held) == ([True], 0, False)
    second.lease.begin(TOLD)
    loop.advance(LOOK)
    loop.look()
    second.end()
    loop.look()
    assert first.taken == 1
    first.end()


def test_an_owner_that_does_not_answer_is_waited_for_half_of_the_time(loop: HandLoop, tmp_path: Path) -> None:
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    assert (first.join(), second.join()) == (True, False)
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
    assert [each.join() for each in (first, second, third)] == [True, False, False]
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
    assert not waiting.join()
    assert waiting.lease.ask(loop.now + 2) is None
    loop.advance(10 * LOOK)
    older.release(())
    loop.advance(LOOK)
    assert (waiting.taken, waiting.told) == (1, [])
    waiting.end()


def test_an_event_waits_for_the_lock_of_a_killed_owner_whose_sockets_the_kernel_has_closed_first(
    loop: HandLoop, tmp_path: Path
) -> None:
    killed, waiting = Lock(str(tmp_path), off), Adapter(loop, tmp_path)
    assert killed.take()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / SOCKET))
        listening.listen()
        assert not waiting.join()
    waiting.lease.look_if_ended()
    answer = waiting.lease.ask(loop.now + 2)
    assert answer is not None
    is_owner: list[bool | None] = []
    answer.then(lambda is_taken, _: is_owner.append(is_taken))
    assert waiting.lease.ask(loop.now + 2) is None, "one event waits, and the others are left"
    killed.release(())
    loop.advance(4 * SOON)
    assert (is_owner, waiting.taken) == ([True], 0)
    waiting.end()


def test_one_that_has_missed_events_asks_at_once_and_one_that_begins_anew_tells_again(
    loop: HandLoop, tmp_path: Path
) -> None:
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    assert (first.join(Told(1.0, Served("a", "b", 0.5))), second.join()) == (True, False)
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
    assert (first.join(), second.join()) == (True, False)
    second.end()
    loop.look()
    first.end()
    loop.advance(10 * LOOK)
    loop.look()
    assert (second.taken, second.lease.is_held) == (0, False)


def test_a_state_directory_that_was_made_again_gets_its_socket(loop: HandLoop, tmp_path: Path) -> None:
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    assert first.join()
    first.lock.on_remade = first.lease.begin_again
    for file in tmp_path.iterdir():
        file.unlink()
    first.lock.repair()
    assert (tmp_path / SOCKET).is_socket()
    assert not second.join()
    first.end()
    loop.look()
    assert (second.taken, second.told) == (1, [TOLD])
    second.end()


def test_what_asks_an_owner_that_cannot_listen(
    loop: HandLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / SOCKET).mkdir()
    first, second = Adapter(loop, tmp_path), Adapter(loop, tmp_path)
    assert (first.join(), second.join()) == (True, False)
    assert f"{tmp_path}/{SOCKET}: " in caplog.text
    first.end()
    loop.advance(LOOK)
    assert second.taken == 1
    second.end()


def test_a_stranger_that_says_nothing_changes_nothing(loop: HandLoop, tmp_path: Path) -> None:
    owner = Adapter(loop, tmp_path)
    assert owner.join()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(tmp_path / SOCKET))
        loop.look()
        assert owner.lease.is_held
    loop.look()
    assert owner.lease.is_held
    owner.end()
