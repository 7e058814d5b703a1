"""A clock that a test moves, pipes, and callbacks that note that they were called."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from adapter.loop import Loop


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def clock(loop: Loop) -> Clock:
    assert isinstance(loop.time, Clock)
    return loop.time


class Pipe(NamedTuple):
    """A pipe that is closed when the test ends."""

    reader: int
    writer: int


def ready(pipe: Pipe) -> Pipe:
    os.write(pipe.writer, b"x")
    return pipe


Calls = list[str]


def note(calls: Calls, name: str, then: Callable[[], object] = lambda: None) -> Callable[[], object]:
    def callback() -> None:
        calls.append(name)
        then()

    return callback
