"""The event loop: what is ready is called, what is due is called, and nothing else is."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import pytest

from adapter.loop import WRITE, Loop


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def guard() -> Iterator[None]:
    """Ends a test whose loop waits for ever."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the loop does not stop"))
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    loop.time = Clock()
    yield loop
    loop.close()


def clock(loop: Loop) -> Clock:
    assert isinstance(loop.time, Clock)
    return loop.time


class Pipe(NamedTuple):
    """A pipe that is closed when the test ends."""

    reader: int
    writer: int


@pytest.fixture
def pipe() -> Iterator[Callable[[], Pipe]]:
    fds: list[int] = []

    def make() -> Pipe:
        made = Pipe(*os.pipe())
        fds.extend(made)
        return made

    yield make
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            continue  # the test has closed it


def ready(pipe: Pipe) -> Pipe:
    os.write(pipe.writer, b"x")
    return pipe


Calls = list[str]


def note(calls: Calls, name: str, then: Callable[[], object] = lambda: None) -> Callable[[], object]:
    def callback() -> None:
        calls.append(name)
        then()

    return callback


def test_a_callback_is_called_while_its_descriptor_is_ready(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    watched = ready(pipe())
    os.write(watched.writer, b"y")
    seen = b""

    def read() -> None:
        nonlocal seen
        seen += os.read(watched.reader, 1)
        if len(seen) == 2:
            loop.stop()

    loop.watch(watched.reader, read)
    loop.run()
    assert seen == b"xy"


def test_a_descriptor_that_is_not_ready_is_left_alone(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    calls: Calls = []
    loop.watch(pipe().reader, note(calls, "silent"))
    loop.watch(ready(pipe()).reader, note(calls, "ready", loop.stop))
    loop.run()
    assert calls == ["ready"]


def test_a_hang_up_is_something_to_read(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    watched = pipe()
    os.close(watched.writer)
    loop.watch(watched.reader, loop.stop)
    loop.run()
    assert os.read(watched.reader, 1) == b""


def test_a_descriptor_can_be_watched_for_room_to_write(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    calls: Calls = []
    loop.watch(pipe().writer, note(calls, "room", loop.stop), WRITE)
    loop.run()
    assert calls == ["room"]


def test_what_a_descriptor_is_watched_for_can_be_changed(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    calls: Calls = []
    watched = pipe()
    loop.watch(watched.writer, note(calls, "before"))
    loop.modify(watched.writer, note(calls, "after", loop.stop), WRITE)
    loop.run()
    assert calls == ["after"]


def test_an_unwatched_descriptor_is_left_alone(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    calls: Calls = []
    forgotten = ready(pipe())
    loop.watch(forgotten.reader, note(calls, "forgotten"))
    loop.unwatch(forgotten.reader)
    loop.unwatch(forgotten.reader)
    loop.watch(ready(pipe()).reader, note(calls, "watched", loop.stop))
    loop.run()
    assert calls == ["watched"]


def test_an_unwatched_descriptor_can_be_watched_again(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    calls: Calls = []
    watched = ready(pipe())
    loop.watch(watched.reader, note(calls, "before"))
    loop.unwatch(watched.reader)
    loop.watch(watched.reader, note(calls, "after", loop.stop))
    loop.run()
    assert calls == ["after"]


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
    loop.call_soon(lambda: None)
    loop.run()
    assert waits.asked == [-1, 5, 5]


def test_one_that_is_unwatched_by_a_callback_is_not_called_any_more(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    """Both were ready at the same time."""
    calls: Calls = []
    pipes = [ready(pipe()), ready(pipe())]

    def alone() -> None:
        calls.append("one")
        for other in pipes:
            loop.unwatch(other.reader)
        loop.call_soon(loop.stop)

    for each in pipes:
        loop.watch(each.reader, alone)
    loop.run()
    assert calls == ["one"]


def test_a_descriptors_number_that_is_used_again_inherits_no_readiness(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    """Processes that end close descriptors, and those that start after them get their numbers, within one round.

    A callback that relies on being ready would wait, and everything with it.
    """
    calls: Calls = []
    pipes = [ready(pipe()), ready(pipe())]

    def replace_both() -> None:
        calls.append("first")
        for old in pipes:
            loop.unwatch(old.reader)
            os.dup2(pipe().reader, old.reader, inheritable=False)
            loop.watch(old.reader, note(calls, "nothing to read"))
        loop.call_soon(loop.stop)

    for each in pipes:
        loop.watch(each.reader, replace_both)
    loop.run()
    assert calls == ["first"]


def test_it_stops_after_the_callback_in_hand(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    calls: Calls = []
    for name in "ab":
        loop.watch(ready(pipe()).reader, note(calls, name, loop.stop))
    loop.run()
    assert len(calls) == 1


def test_what_was_ready_when_it_stopped_is_called_when_it_runs_again(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    calls: Calls = []

    def once(fd: int) -> None:
        loop.unwatch(fd)
        loop.stop()

    for name in "ab":
        watched = ready(pipe())
        loop.watch(watched.reader, note(calls, name, partial(once, watched.reader)))
    loop.run()
    loop.run()
    assert sorted(calls) == ["a", "b"]


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


def test_a_timer_is_called_once(loop: Loop) -> None:
    calls: Calls = []
    timer = loop.call_at(1, note(calls, "once"))
    loop.call_at(2, loop.stop)
    loop.run()
    loop.call_soon(loop.stop)
    loop.run()
    assert calls == ["once"]
    assert timer.callback is None


def test_soon_is_before_what_is_ready_and_after_what_is_asked_earlier(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    calls: Calls = []
    loop.watch(ready(pipe()).reader, note(calls, "ready", loop.stop))
    loop.call_soon(note(calls, "first", lambda: loop.call_soon(note(calls, "third"))))
    loop.call_soon(note(calls, "second"))
    loop.run()
    assert calls == ["first", "second", "third", "ready"]


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


def test_a_bug_in_a_callback_is_logged_with_its_traceback_and_costs_nobody_else(
    loop: Loop, pipe: Callable[[], Pipe], caplog: pytest.LogCaptureFixture
) -> None:
    calls: Calls = []

    def broken() -> None:
        calls.append("broken")
        raise ZeroDivisionError

    loop.call_soon(broken)
    loop.watch(ready(pipe()).reader, broken)
    loop.call_soon(note(calls, "another timer"))
    loop.watch(ready(pipe()).reader, note(calls, "another descriptor", lambda: loop.call_at(1, loop.stop)))
    loop.run()
    assert calls[:2] == ["broken", "another timer"]
    assert sorted(calls[2:4]) == ["another descriptor", "broken"]
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 2
    assert all(record.exc_info and record.exc_info[0] is ZeroDivisionError for record in caplog.records)


def test_a_descriptor_whose_callback_has_a_bug_is_not_watched_any_more(loop: Loop, pipe: Callable[[], Pipe]) -> None:
    """It stays ready: the loop would do nothing else."""
    calls: Calls = []

    def broken() -> None:
        calls.append("broken")
        if len(calls) == 1:
            raise ZeroDivisionError
        loop.stop()

    loop.watch(ready(pipe()).reader, broken)
    loop.watch(ready(pipe()).reader, note(calls, "fine", lambda: loop.stop() if len(calls) > 5 else None))
    loop.run()
    assert calls.count("broken") == 1


def test_closing_it_closes_its_descriptor() -> None:
    before = os.listdir("/proc/self/fd")
    loop = Loop()
    assert len(os.listdir("/proc/self/fd")) == len(before) + 1
    loop.close()
    assert len(os.listdir("/proc/self/fd")) == len(before)
