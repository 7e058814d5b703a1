"""What is ready is called, and nothing else is; callbacks with bugs, long work in steps, and the loop's end."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import pytest

from adapter.base.loop import STALL, WRITE, Loop

from .conftest import Calls, Clock, Pipe

Make = Callable[[], Pipe]


def test_what_is_ready_is_called_as_long_as_it_is_and_nothing_else_is(loop: Loop, pipe: Make, calls: Calls) -> None:
    watched, forgotten, changed = pipe().ready().ready(), pipe().ready(), pipe()

    def read() -> None:
        os.read(watched.reader, 1)
        calls.append("ready")
        if calls.count("ready") == 2:
            loop.stop()

    loop.watch(watched.reader, read)
    loop.watch(pipe().reader, calls.note("silent"))
    loop.watch(forgotten.reader, calls.note("forgotten"))
    loop.unwatch(forgotten.reader)
    loop.unwatch(forgotten.reader)
    loop.watch(changed.writer, calls.note("before"))
    loop.modify(changed.writer, calls.note("room", lambda: loop.unwatch(changed.writer)), WRITE)
    loop.run()
    assert sorted(calls) == ["ready", "ready", "room"]
    loop.watch(forgotten.reader, calls.note("again", loop.stop))
    loop.run()
    assert calls[-1] == "again"


def test_a_hang_up_is_something_to_read(loop: Loop, pipe: Make) -> None:
    watched = pipe()
    os.close(watched.writer)
    loop.watch(watched.reader, loop.stop)
    loop.run()
    assert loop.has_hung_up
    assert os.read(watched.reader, 1) == b""


def test_one_that_is_unwatched_by_a_callback_is_not_called_any_more(loop: Loop, pipe: Make, calls: Calls) -> None:
    """Both were ready at the same time."""
    pipes = [pipe().ready(), pipe().ready()]

    def alone() -> None:
        calls.append("one")
        for other in pipes:
            loop.unwatch(other.reader)
        loop.call_soon(loop.stop)

    for each in pipes:
        loop.watch(each.reader, alone)
    loop.run()
    assert calls == ["one"]


def test_a_descriptors_number_that_is_used_again_inherits_no_readiness(loop: Loop, pipe: Make, calls: Calls) -> None:
    """Processes that end close descriptors, and those that start after them get their numbers, within one round.

    A callback that relies on being ready would wait, and everything with it.
    """
    pipes = [pipe().ready(), pipe().ready()]

    def replace_both() -> None:
        calls.append("first")
        for old in pipes:
            loop.unwatch(old.reader)
            os.dup2(pipe().reader, old.reader, inheritable=False)
            loop.watch(old.reader, calls.note("nothing to read"))
        loop.call_soon(loop.stop)

    for each in pipes:
        loop.watch(each.reader, replace_both)
    loop.run()
    assert calls == ["first"]


def test_it_stops_after_the_callback_in_hand_and_the_others_are_called_in_the_next_run(
    loop: Loop, pipe: Make, calls: Calls
) -> None:
    def once(fd: int) -> None:
        loop.unwatch(fd)
        loop.stop()

    for name in "ab":
        watched = pipe().ready()
        loop.watch(watched.reader, calls.note(name, partial(once, watched.reader)))
    loop.run()
    assert len(calls) == 1
    loop.run()
    assert sorted(calls) == ["a", "b"]


# ---- bugs


def test_a_bug_in_a_callback_is_logged_and_costs_nobody_else_but_its_descriptor_is_watched_no_more(
    loop: Loop, pipe: Make, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays ready: the loop would do nothing else."""

    def broken() -> None:
        raise ZeroDivisionError

    loop.call_at(0, calls.note("bad timer", broken))
    loop.call_at(0, calls.note("timer"))
    loop.watch(pipe().ready().reader, calls.note("bad", broken))
    loop.watch(pipe().ready().reader, calls.note("good", lambda: loop.stop() if calls.count("good") > 3 else None))
    loop.call_soon(calls.note("bad step", broken))
    loop.call_soon(calls.note("step"))
    loop.run()
    assert calls[:2] == ["bad timer", "timer"]
    assert [calls.count(name) for name in ("bad", "good", "bad step", "step")] == [1, 4, 1, 1]
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3
    assert all(record.exc_info and record.exc_info[0] is ZeroDivisionError for record in caplog.records)


def test_closing_it_closes_its_descriptor() -> None:
    before = os.listdir("/proc/self/fd")
    loop = Loop()
    assert len(os.listdir("/proc/self/fd")) == len(before) + 1
    loop.close()
    assert len(os.listdir("/proc/self/fd")) == len(before)


# ---- steps, and how long turns take


def test_soon_is_after_what_is_ready_and_after_what_is_asked_earlier_and_leaves_all_others_their_turn(
    loop: Loop, pipe: Make, calls: Calls
) -> None:
    loop.watch(pipe().ready().reader, calls.note("ready"))
    loop.call_at(0, calls.note("timer"))
    loop.call_soon(calls.note("first", lambda: loop.call_soon(calls.note("third", loop.stop))))
    loop.call_soon(calls.note("second"))
    loop.run()
    assert calls == ["timer", "ready", "first", "second", "ready", "third"]


def test_what_becomes_ready_during_a_callback_may_be_so_since_the_look_before_and_a_long_callback_is_a_stall(
    loop: Loop, pipe: Make, clock: Clock
) -> None:
    first, second, since = pipe().ready(), pipe(), []

    def busy() -> None:
        os.read(first.reader, 1)
        clock.now += 3
        second.ready()

    def late() -> None:
        since.append(loop.ready_since)
        loop.stop()

    loop.watch(first.reader, busy)
    loop.watch(second.reader, late)
    loop.run()
    assert since == [1000]
    assert (loop.stalls, loop.longest) == (1, 3)


def test_a_short_turn_is_no_stall(loop: Loop, pipe: Make, clock: Clock) -> None:
    waited = pipe().ready()

    def come() -> None:
        os.read(waited.reader, 1)
        clock.now += STALL
        loop.call_at(0, loop.stop)

    loop.watch(waited.reader, come)
    loop.run()
    assert loop.stalls == 0
