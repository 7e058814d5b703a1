"""A loop with a clock that a test moves, and pipes; a test whose loop waits for ever fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import pytest

from adapter.base.loop import Loop

from ..processes import impatience


class Clock:
    """A clock that goes when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Pipe(NamedTuple):
    """A pipe that is closed when the test ends."""

    reader: int
    writer: int

    def ready(self) -> Pipe:
        os.write(self.writer, b"x")
        return self


class Calls(list[str]):
    """The names of callbacks, in the order of their calls."""

    def note(self, name: str, then: Callable[[], object] = lambda: None) -> Callable[[], object]:
        def callback() -> None:
            self.append(name)
            then()

        return callback


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    with impatience("the loop does not stop"):
        yield


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
def pipe() -> Iterator[Callable[[], Pipe]]:
    made: list[Pipe] = []

    def make() -> Pipe:
        made.append(Pipe(*os.pipe()))
        return made[-1]

    yield make
    for fd in (fd for one in made for fd in one):
        with suppress(OSError):  # the test has closed it
            os.close(fd)
