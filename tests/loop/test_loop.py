"""What is ready or due is called, in order, and nothing else is; callbacks with bugs, long work, and the loop's end."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from unittest.mock import Mock
from weakref import WeakSet

import pytest

from v010_adapter.base.loop import FEW_TIMERS, SHORT_WAIT, STALL, WRITE, Loop, Timer

from ..rig.clock import Clock
from ..rig.processes import open_descriptors

Make = Callable[..., int]
"""Makes a descriptor from which so many bytes, or none, can be read, one at a time; there is always room to write."""


class Calls(list[str]):
    """The names of callbacks, in the order of their calls."""

    def note(self, name: str, then: Callable[[], object] = lambda: None) -> Callable[[], object]:
        def callback() -> None:
            self.append(name)
            then()

        return callback


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loop(clock: Clock) -> Iterator[Loop]:
    loop = Loop()
    loop.time = clock
    yield loop
    loop.close()


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[int] = []

    def make(readable: int = 0) -> int:
        made.append(os.eventfd(readable, os.EFD_SEMAPHORE | os.EFD_CLOEXEC))
        return made[-1]

    yield make
    for fd in made:
        os.close(fd)


# ---- descriptors


def test_what_is_ready_is_called_as_long_as_it_is_and_nothing_else_is(loop: Loop, make: Make, calls: Calls) -> None:
    watched, forgotten, changed = make(2), make(1), make()

    def read() -> None:
        os.eventfd_read(watched)
        calls.append("ready")
        if calls.count("ready") == 2:
            loop.stop()

    loop.watch(watched, read)
    loop.watch(make(), calls.note("silent"))
    loop.watch(forgotten, calls.note("forgotten"))
    loop.unwatch(forgotten)
    loop.unwatch(forgotten)
    loop.watch(changed, calls.note("before"))
    loop.modify(changed, calls.note("room", lambda: loop.unwatch(changed)), WRITE)
    loop.run()
    assert sorted(calls) == ["ready", "ready", "room"]
    assert not loop.has_hung_up
    loop.watch(forgotten, calls.note("again", loop.stop))
    loop.run()
    assert calls[-1] == "again"


def test_a_hang_up_is_something_to_read(loop: Loop) -> None:
    watched, other = os.pipe()
    os.close(other)
    loop.watch(watched, loop.stop)
    loop.run()
    assert loop.has_hung_up
    assert os.read(watched, 1) == b""
    os.close(watched)


def test_a_closed_loop_has_no_descriptor() -> None:
    loop = Loop()
    before = open_descriptors()
    loop.close()
    assert len(open_descriptors()) < len(before)


def test_a_descriptors_number_that_is_used_again_inherits_no_readiness(loop: Loop, make: Make, calls: Calls) -> None:
    """Processes that end close descriptors, and those that start after them get their numbers, within one round.

    A callback that relies on being ready would wait, and everything with it.
    """
    ready = [make(1), make(1)]

    def replace_both() -> None:
        calls.append("first")
        for old in ready:
            loop.unwatch(old)
            os.dup2(make(), old, inheritable=False)
            loop.watch(old, calls.note("nothing to read"))
        loop.call_soon(loop.stop)

    for each in ready:
        loop.watch(each, replace_both)
    loop.run()
    assert calls == ["first"]


def test_a_bug_is_logged_and_its_descriptor_watched_no_more(
    loop: Loop, make: Make, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays ready: the loop would do nothing else."""

    def broken() -> None:
        raise ZeroDivisionError

    loop.call_at(0, calls.note("bad timer", broken))
    loop.call_at(0, calls.note("timer"))
    loop.watch(make(1), calls.note("bad", broken))
    loop.watch(make(1), calls.note("good", lambda: loop.stop() if calls.count("good") > 3 else None))
    loop.call_soon(calls.note("bad step", broken))
    loop.call_soon(calls.note("step"))
    loop.run()
    assert calls[:2] == ["bad timer", "timer"]
    assert [calls.count(name) for name in ("bad", "good", "bad step", "step")] == [1, 4, 1, 1]
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3
    assert all(record.exc_info and record.exc_info[0] is ZeroDivisionError for record in caplog.records)


def test_soon_is_after_what_is_ready_and_what_is_asked_earlier(loop: Loop, make: Make, calls: Calls) -> None:
    loop.watch(make(1), calls.note("ready"))
    loop.call_at(0, calls.note("timer"))
    loop.call_soon(calls.note("first", lambda: loop.call_soon(calls.note("third", loop.stop))))
    loop.call_soon(calls.note("second"))
    loop.run()
    assert calls == ["timer", "ready", "first", "second", "ready", "third"]


@pytest.mark.parametrize(("seconds", "stalls", "longest"), [(3, 1, 3), (STALL, 0, 0)])
def test_what_becomes_ready_in_a_long_callback_is_so_since_the_look_before(
    loop: Loop, make: Make, clock: Clock, seconds: float, stalls: int, longest: float
) -> None:
    first, second, since = make(1), make(), []

    def busy() -> None:
        os.eventfd_read(first)
        clock.now += seconds
        os.eventfd_write(second, 1)

    def late() -> None:
        since.append(loop.ready_since)
        loop.stop()

    loop.watch(first, busy)
    loop.watch(second, late)
    loop.run()
    assert (since, loop.stalls, loop.longest) == ([1000], stalls, longest)


# ---- timers


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


def test_it_waits_for_the_next_timer_but_no_longer_than_epoll_can(epoll: Epoll, clock: Clock) -> None:
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


@pytest.mark.parametrize(
    ("timer", "takes", "seen"),  # the last are `ready_since` and `quiet_at`
    [
        (None, 100, (1100, 1000)),
        (5, 0.25, (1000.25, 1000)),
        (5, 0, (998, 990)),  # perhaps it was ready before the loop looked
        (5, 5.5, (1005.5, 1000)),
        (5, 6, (1000, 1000)),  # the process was stopped, perhaps since the wait began
        (0, 1, (1000, 1000)),
    ],
)
def test_what_the_loop_has_waited_for_is_ready_since_its_wake_up_unless_the_process_was_stopped(
    epoll: Epoll, clock: Clock, monkeypatch: pytest.MonkeyPatch, timer: float | None, takes: float, seen: object
) -> None:
    """It looks at 998, has something to do until 1000, and waits."""
    monkeypatch.setattr("v010_adapter.base.loop.AT_ONCE", 0.25)
    monkeypatch.setattr("v010_adapter.base.loop.OVERSLEPT", 0.5)
    loop = Loop()
    loop.time, clock.now, loop.quiet_at = clock, 998, 990
    found: list[tuple[float, float]] = []

    def poll(_: float) -> list[tuple[int, int]]:
        clock.now += takes
        return [(7, 1)]

    def come() -> None:
        found.append((loop.ready_since, loop.quiet_at))
        clock.now += 1
        if len(found) == 2:
            loop.stop()

    epoll.poll = poll  # type: ignore[method-assign,assignment]
    loop.watch(7, come)
    loop.call_at(0, lambda: setattr(clock, "now", 1000))
    if timer == 0:
        loop.call_soon(lambda: None)
    elif timer is not None:
        loop.call_at(1000 + timer, lambda: None)
    loop.run()
    assert (found[0], loop.stalls, loop.longest) == (seen, 2, 2), "to wait is no stall"


@pytest.mark.parametrize("timer", [None, 10.0, 0.01])
def test_who_is_to_notice_short_stops_waits_a_short_time_only(epoll: Epoll, clock: Clock, timer: float | None) -> None:
    loop = Loop()
    loop.time = clock
    loop.is_watchful, loop.quiet_at = True, clock.now - SHORT_WAIT / 2
    epoll.wait = lambda: loop.stop() or []  # type: ignore[func-returns-value]
    if timer is not None:
        loop.call_at(clock.now + timer, loop.stop)
    loop.run()
    assert epoll.asked == pytest.approx([min(SHORT_WAIT, timer or SHORT_WAIT)])
    assert loop.quiet_at == clock.now, "nothing was ready"


@pytest.mark.parametrize(("ago", "found", "quiet"), [(1.0, [], 0), (1.0, [(7, 1)], 1.0), (0.01, [], 0.01)])
def test_a_busy_loop_that_is_to_notice_short_stops_looks_whether_something_is_ready(
    epoll: Epoll, clock: Clock, ago: float, found: list[tuple[int, int]], quiet: float
) -> None:
    loop = Loop()
    loop.time = clock
    loop.is_watchful, loop.quiet_at = True, clock.now - ago
    epoll.poll = lambda timeout: epoll.asked.append(timeout) or (found if not timeout else [(7, 1)])  # type: ignore[func-returns-value,method-assign]
    loop.watch(7, loop.stop)
    loop.run()
    assert clock.now - loop.quiet_at == pytest.approx(quiet)
    assert len(epoll.asked) == (2 if ago > SHORT_WAIT else 1)


def test_timers_come_in_the_order_of_their_moments_and_making(loop: Loop, calls: Calls, clock: Clock) -> None:
    moments = [number * 7919 % 97 for number in range(9 * FEW_TIMERS)]
    timers = [loop.call_at(moment, calls.note(f"{number}")) for number, moment in enumerate(moments)]
    for timer in timers[::3]:
        timer.cancel()
    loop.call_at(2000, loop.stop)
    clock.now = 3000
    loop.run()
    loop.call_soon(loop.stop)
    loop.run()
    left = [number for number in range(len(moments)) if number % 3]
    assert calls == [f"{number}" for number in sorted(left, key=moments.__getitem__)]
    assert all(timer.callback is None for timer in timers), "what it refers to is let go"


def test_cancelled_timers_do_not_stay_until_they_would_be_due(
    loop: Loop, calls: Calls, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = Mock(side_effect=loop._drop_cancelled)
    monkeypatch.setattr(loop, "_drop_cancelled", search)
    for name in range(2 * FEW_TIMERS):
        loop.call_at(10**9 - name, calls.note(f"{name}", loop.stop if name == 0 else lambda: None))
    cancelled = WeakSet[Timer]()
    for _ in range(20):
        for timer in [loop.call_at(10**6 + number, calls.note("cancelled")) for number in range(100)]:
            timer.cancel()
            cancelled.add(timer)
    assert len(cancelled) <= 300
    assert search.call_count <= 2000 // FEW_TIMERS, "each looks at all timers"
    clock.now = 10**9
    loop.run()
    assert calls == [f"{name}" for name in reversed(range(2 * FEW_TIMERS))]


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


def test_a_timer_that_stops_it_leaves_later_ones_for_the_next_run(loop: Loop, make: Make, calls: Calls) -> None:
    loop.watch(make(1), calls.note("ready", loop.stop))
    loop.call_at(1, calls.note("stops", loop.stop))
    loop.call_at(2, calls.note("later"))
    loop.run()
    assert calls == ["stops"]
    loop.run()
    assert calls == ["stops", "later", "ready"]
