"""What is due is called, in order, and nothing else is."""

from __future__ import annotations

import gc
import select
from collections.abc import Callable

import pytest

from adapter.base.loop import FEW_TIMERS, Loop, Timer

from .conftest import Calls, Clock, Pipe


class Epoll:
    """Stands for epoll: notes how long it was to wait, and finds what it is told to after a wait."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.wait: Callable[[], list[tuple[int, int]]] = list

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        self.asked.append(timeout)
        return self.wait() if timeout else []

    def register(self, fd: int, events: int) -> None:
        pass


@pytest.fixture
def epoll(monkeypatch: pytest.MonkeyPatch) -> Epoll:
    made = Epoll()
    monkeypatch.setattr(select, "epoll", lambda: made)
    return made


def test_it_waits_until_the_next_timer_and_without_one_for_ever_but_no_longer_than_epoll_can(
    epoll: Epoll, clock: Clock
) -> None:
    loop = Loop()
    loop.time = clock
    epoll.wait = lambda: loop.stop() or []  # type: ignore[func-returns-value]
    loop.run()
    loop.call_at(clock.now + 1e9, loop.stop)
    loop.run()
    loop.call_at(clock.now + 5, loop.stop)
    loop.call_at(clock.now + 3, loop.stop).cancel()
    loop.run()
    loop.call_at(0, lambda: None)
    loop.run()
    assert [wait for wait in epoll.asked if wait] == [-1, 86400, 5, 5]
    assert 86400 * 1000 < 2**31, "milliseconds in an int: epoll_wait(2)"


def test_what_the_loop_has_waited_for_is_ready_since_its_wake_up(epoll: Epoll, clock: Clock) -> None:
    loop = Loop()
    loop.time = clock

    def wait() -> list[tuple[int, int]]:
        clock.now += 2
        return [(7, 1)]

    epoll.wait = wait
    since: list[float] = []

    def come() -> None:
        since.append(loop.ready_since)
        loop.stop()

    loop.watch(7, come)
    loop.run()
    assert (since, loop.stalls) == ([1002], 0), "to wait is no stall"


def test_timers_come_in_the_order_of_their_moments_and_of_their_making_once(loop: Loop, calls: Calls) -> None:
    for moment, name in ((3, "d"), (1, "a"), (2, "b"), (2, "c")):
        loop.call_at(moment, calls.note(name))
    loop.call_at(4, calls.note("e", loop.stop))
    loop.run()
    loop.call_soon(loop.stop)
    loop.run()
    assert calls == list("abcde")


def test_a_timer_is_called_at_its_moment_and_not_before(
    loop: Loop, pipe: Callable[[], Pipe], calls: Calls, clock: Clock
) -> None:
    loop.call_at(clock.now + 5, calls.note("due", loop.stop))

    def tick() -> None:
        calls.append(f"{clock.now - 1000:g}")
        clock.now += 1

    loop.watch(pipe().ready().reader, tick)
    loop.run()
    assert calls == ["0", "1", "2", "3", "4", "due"]


def test_a_cancelled_timer_is_not_called_and_keeps_nothing(
    loop: Loop, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    cancelled = loop.call_at(1, calls.note("cancelled"))
    cancelled.cancel()
    later = loop.call_at(3, calls.note("cancelled by another"))
    loop.call_at(2, calls.note("cancels", later.cancel))
    last = loop.call_at(4, calls.note("last", loop.stop))
    loop.run()
    later.cancel()
    assert calls == ["cancels", "last"]
    assert caplog.records == []
    assert cancelled.callback is last.callback is None


def test_cancelled_timers_do_not_stay_until_they_would_be_due(loop: Loop, calls: Calls, clock: Clock) -> None:
    for name in range(50):
        loop.call_at(10**9 - name, calls.note(f"{name}", loop.stop if name == 0 else lambda: None))
    for _ in range(20):
        for timer in [loop.call_at(10**6 + number, calls.note("cancelled")) for number in range(100)]:
            timer.cancel()
    entries = [one for one in gc.get_objects() if isinstance(one, tuple) and one and isinstance(one[-1], Timer)]
    assert len(entries) <= 300
    clock.now = 10**9
    loop.run()
    assert calls == [f"{name}" for name in reversed(range(50))]


def test_timers_may_be_cancelled_and_set_by_one_that_is_due(loop: Loop, calls: Calls) -> None:
    """The search for cancelled timers comes between the timers that are due."""
    others = [loop.call_at(2, calls.note("cancelled")) for _ in range(2 * FEW_TIMERS)]

    def replace() -> None:
        for other in others:
            other.cancel()
        for number in range(5 * FEW_TIMERS):
            loop.call_at(3, calls.note(f"{number}"))
        loop.call_at(4, loop.stop)

    loop.call_at(1, calls.note("first", replace))
    loop.run()
    assert calls == ["first", *map(str, range(5 * FEW_TIMERS))]


def test_timers_that_are_left_come_in_their_order_whichever_others_are_cancelled(
    loop: Loop, calls: Calls, clock: Clock
) -> None:
    moments = [number * 7919 % 1009 for number in range(1, 9 * FEW_TIMERS)]
    for number, moment in enumerate(moments):
        timer = loop.call_at(moment, calls.note(f"{moment}"))
        if number % 3 == 0:
            timer.cancel()
    loop.call_at(2000, loop.stop)
    clock.now = 3000
    loop.run()
    assert calls == [f"{moment}" for moment in sorted(m for number, m in enumerate(moments) if number % 3)]


def test_a_timer_that_stops_it_leaves_later_ones_for_the_next_run(
    loop: Loop, pipe: Callable[[], Pipe], calls: Calls
) -> None:
    loop.watch(pipe().ready().reader, calls.note("ready", loop.stop))
    loop.call_at(1, calls.note("stops", loop.stop))
    loop.call_at(2, calls.note("later"))
    loop.run()
    assert calls == ["stops"]
    loop.run()
    assert calls == ["stops", "later", "ready"]


def test_a_timer_that_a_callback_has_set_wakes_it_from_waiting(pipe: Callable[[], Pipe]) -> None:
    """With the real clock: without the timer it would wait for ever."""
    loop = Loop()
    watched = pipe().ready()
    loop.call_at(loop.time() + 10**6, lambda: None)

    def sooner() -> None:
        loop.unwatch(watched.reader)
        loop.call_at(loop.time() + 0.001, loop.stop)

    loop.watch(watched.reader, sooner)
    loop.run()
    loop.close()
    assert loop.ready_since
