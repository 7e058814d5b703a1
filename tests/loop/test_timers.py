"""What is due is called, in order, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from adapter.loop import FEW_TIMERS, Loop

from .pipes import Calls, Pipe, clock, note, ready


class Waits:
    """Stands for epoll, to be asked how long it was to wait."""

    def __init__(self, loop: Loop) -> None:
        self.asked: list[float] = []
        self.loop = loop

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        self.asked.append(timeout)
        self.loop.stop()
        return []

    def close(self) -> None:
        pass


def test_it_waits_until_the_next_timer_and_without_one_for_ever(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = Waits(loop)
    loop.close()
    monkeypatch.setattr(loop, "_epoll", waits)
    loop.run()
    loop.call_at(clock(loop).now + 5, loop.stop)
    loop.call_at(clock(loop).now + 3, loop.stop).cancel()
    loop.run()
    loop.call_at(0, lambda: None)
    loop.run()
    assert waits.asked == [0, -1, 0, 5, 0, 5]


def test_it_waits_no_longer_than_epoll_can(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = Waits(loop)
    loop.close()
    monkeypatch.setattr(loop, "_epoll", waits)
    loop.call_at(clock(loop).now + 1e9, lambda: None)
    loop.run()
    assert waits.asked[-1] * 1000 < 2**31  # milliseconds in an int: epoll_wait(2)


def test_timers_come_in_the_order_of_their_moments_and_of_their_making(loop: Loop) -> None:
    calls: Calls = []
    for moment, name in ((3, "d"), (1, "a"), (2, "b"), (2, "c")):
        loop.call_at(moment, note(calls, name))
    loop.call_at(4, note(calls, "e", loop.stop))
    loop.run()
    assert calls == list("abcde")


def test_a_timer_is_called_at_its_moment_and_not_before(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    calls: Calls = []
    now = clock(loop)
    loop.call_at(now.now + 5, note(calls, "due", loop.stop))
    ticks = ready(pipe())

    def tick() -> None:
        calls.append(f"{now.now - 1000:g}")
        now.now += 1

    loop.watch(ticks.reader, tick)
    loop.run()
    assert calls == ["0", "1", "2", "3", "4", "due"]


def test_a_cancelled_timer_is_not_called(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    calls: Calls = []
    loop.call_at(1, note(calls, "cancelled")).cancel()
    later = loop.call_at(3, note(calls, "cancelled by another"))
    loop.call_at(2, note(calls, "cancels", later.cancel))
    loop.call_at(4, note(calls, "last", loop.stop))
    loop.run()
    later.cancel()
    assert calls == ["cancels", "last"]
    assert caplog.records == []


def test_a_cancelled_timer_does_not_keep_what_it_would_have_called(loop: Loop) -> None:
    timer = loop.call_at(10**9, lambda: None)
    timer.cancel()
    assert timer.callback is None


def test_cancelled_timers_do_not_stay_until_they_would_be_due(loop: Loop) -> None:
    calls: Calls = []
    for name in range(50):
        loop.call_at(10**9 - name, note(calls, f"{name}", loop.stop if name == 0 else lambda: None))
    for _ in range(20):
        for timer in [loop.call_at(10**6 + number, note(calls, "cancelled")) for number in range(100)]:
            timer.cancel()
    assert len(loop._timers) <= 300
    clock(loop).now = 10**9
    loop.run()
    assert calls == [f"{name}" for name in reversed(range(50))]


def test_timers_may_be_cancelled_and_set_by_one_that_is_due(loop: Loop) -> None:
    """The search for cancelled timers comes between the timers that are due."""
    calls: Calls = []
    others = [loop.call_at(2, note(calls, "cancelled")) for _ in range(2 * FEW_TIMERS)]

    def replace() -> None:
        for other in others:
            other.cancel()
        for number in range(5 * FEW_TIMERS):
            loop.call_at(3, note(calls, f"{number}"))
        loop.call_at(4, loop.stop)

    loop.call_at(1, note(calls, "first", replace))
    loop.run()
    assert calls == ["first", *map(str, range(5 * FEW_TIMERS))]


def test_timers_that_are_left_come_in_their_order_whichever_others_are_cancelled(loop: Loop) -> None:
    calls: Calls = []
    moments = [number * 7919 % 1009 for number in range(1, 9 * FEW_TIMERS)]
    for number, moment in enumerate(moments):
        timer = loop.call_at(moment, note(calls, f"{moment}"))
        if number % 3 == 0:
            timer.cancel()
    loop.call_at(2000, loop.stop)
    clock(loop).now = 3000
    loop.run()
    assert calls == [f"{moment}" for moment in sorted(m for number, m in enumerate(moments) if number % 3)]


def test_a_timer_is_called_once(loop: Loop) -> None:
    calls: Calls = []
    timer = loop.call_at(1, note(calls, "once"))
    loop.call_at(2, loop.stop)
    loop.run()
    loop.call_soon(loop.stop)
    loop.run()
    assert calls == ["once"]
    assert timer.callback is None


def test_soon_is_after_what_is_ready_and_after_what_is_asked_earlier(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    calls: Calls = []
    loop.watch(ready(pipe()).reader, note(calls, "ready"))
    loop.call_soon(note(calls, "first", lambda: loop.call_soon(note(calls, "third", loop.stop))))
    loop.call_soon(note(calls, "second"))
    loop.run()
    assert calls == ["ready", "first", "second", "ready", "third"]


def test_a_timer_that_stops_it_leaves_later_ones_for_the_next_run(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    calls: Calls = []
    loop.watch(ready(pipe()).reader, note(calls, "ready", loop.stop))
    loop.call_at(1, note(calls, "stops", loop.stop))
    loop.call_at(2, note(calls, "later"))
    loop.run()
    assert calls == ["stops"]
    loop.run()
    assert calls == ["stops", "later", "ready"]


def test_a_timer_wakes_it_from_waiting() -> None:
    """With the real clock: without the timer it would wait for ever."""
    loop = Loop()
    loop.call_at(loop.time() + 0.001, loop.stop)
    loop.run()
    loop.close()


def test_an_earlier_timer_set_by_a_callback_is_not_waited_over(pipe: Callable[[], Pipe]) -> None:
    loop = Loop()
    watched = ready(pipe())
    loop.call_at(loop.time() + 10**6, lambda: None)

    def sooner() -> None:
        loop.unwatch(watched.reader)
        loop.call_at(loop.time() + 0.001, loop.stop)

    loop.watch(watched.reader, sooner)
    loop.run()
    loop.close()
