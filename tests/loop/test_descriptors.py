"""What is ready is called, and nothing else is."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from adapter.loop import WRITE, Loop

from .pipes import Calls, Pipe, note, ready


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
