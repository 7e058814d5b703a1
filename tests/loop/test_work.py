"""Callbacks with bugs, long work in steps, and the end of a loop."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from adapter.loop import Loop

from .pipes import Calls, Pipe, note, ready


def test_a_bug_in_a_callback_is_logged_with_its_traceback_and_costs_nobody_else(
    loop: Loop, pipe: Callable[[], Pipe], caplog: pytest.LogCaptureFixture
) -> None:
    calls: Calls = []

    def broken() -> None:
        calls.append("broken")
        raise ZeroDivisionError

    loop.call_at(0, broken)
    loop.watch(ready(pipe()).reader, broken)
    loop.call_at(0, note(calls, "another timer"))
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


def test_steps_of_long_work_leave_descriptors_and_timers_their_turn(loop: Loop) -> None:
    order: list[str] = []
    reader, writer = os.pipe()
    os.write(writer, b"x")

    def step() -> None:
        order.append("step")
        if len(order) < 12:
            loop.call_soon(step)
        else:
            loop.stop()

    loop.watch(reader, lambda: order.append("ready"))
    loop.call_at(0, lambda: order.append("timer"))
    loop.call_soon(step)
    loop.run()
    os.close(reader)
    os.close(writer)
    assert order == ["timer", *["ready", "step"] * 6]


def test_a_step_that_raises_is_logged_and_the_others_are_done(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    loop.call_soon(lambda: 1 // 0)
    loop.call_soon(loop.stop)
    loop.run()
    assert "ZeroDivisionError" in caplog.text
