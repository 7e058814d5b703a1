"""Since when a descriptor may have been ready, and how long turns of the loop have taken."""

from __future__ import annotations

import os
from collections.abc import Callable

from adapter.loop import STALL, Loop

from .pipes import Pipe, clock


def test_what_becomes_ready_during_a_callback_may_be_so_since_the_look_before(
    loop: Loop, pipe: Callable[[], Pipe]
) -> None:
    first, second = pipe(), pipe()
    since = []

    def busy() -> None:
        os.read(first.reader, 1)
        clock(loop).now += 3
        os.write(second.writer, b"x")

    def late() -> None:
        os.read(second.reader, 1)
        since.append(loop.ready_since)
        loop.stop()

    loop.watch(first.reader, busy)
    loop.watch(second.reader, late)
    start = clock(loop).now
    os.write(first.writer, b"x")
    loop.run()
    assert since == [start]
    assert (loop.stalls, loop.longest) == (1, 3)


def test_what_the_loop_has_waited_for_is_ready_since_its_wake_up(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    waited = pipe()
    since = []

    def come() -> None:
        since.append(loop.ready_since)
        loop.stop()

    class Epoll:
        """Finds nothing at the first look, and the descriptor after a wait of two seconds."""

        def poll(self, timeout: float) -> list[tuple[int, int]]:
            if not timeout:
                return []
            clock(loop).now += 2
            return [(waited.reader, 1)]

    loop.watch(waited.reader, come)
    epoll, loop._epoll = loop._epoll, Epoll()  # type: ignore[assignment]
    start = clock(loop).now
    loop.run()
    loop._epoll = epoll
    assert since == [start + 2]
    assert loop.stalls == 0, "to wait is no stall"


def test_a_short_turn_is_no_stall(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    waited = pipe()

    def come() -> None:
        os.read(waited.reader, 1)
        clock(loop).now += STALL
        loop.call_at(0, loop.stop)

    loop.watch(waited.reader, come)
    os.write(waited.writer, b"x")
    loop.run()
    assert loop.stalls == 0
