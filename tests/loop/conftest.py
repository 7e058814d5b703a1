"""A loop with a clock that stands still, and pipes; a test whose loop waits for ever fails."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from adapter.loop import Loop

from .pipes import Clock, Pipe


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
