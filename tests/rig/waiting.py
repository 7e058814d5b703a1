"""The limit of all that tests wait for. `conftest.py` sets one for each test; a wait in it may have a shorter one.

A test that waits too long is interrupted wherever it waits, and its clean-up is done as after any other failure.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from _pytest.outcomes import OutcomeException  # a teardown goes on after it, unlike after any other BaseException

T = TypeVar("T")
LIMIT = 60.0
"""Seconds, by the real clock, in which what a test waits for must come."""
WHOLE = 240.0
"""Seconds for a test, for its setup, and for its teardown. The watchdog of pyproject.toml limits the three together."""
AGAIN = 10.0
"""Seconds after which a wait is interrupted that a signal has missed, and a clean-up that waits, too."""


class TooLate(OutcomeException):
    """What a test waits for has not come. It is no Exception, which code under test catches and Hypothesis repeats."""


@contextmanager
def limit(what: str | Callable[[], str], seconds: float = LIMIT) -> Iterator[None]:
    """Ends what takes longer than `seconds`: raises TooLate there, which says what was waited for.

    Limits nest: the one whose time is over first is told, and the outer one goes on. Main thread only.
    """
    outer, _ = signal.getitimer(signal.ITIMER_REAL)
    if 0 < outer <= seconds:
        yield
        return

    is_inside, is_over = True, False

    def interrupt(*_: object) -> None:
        nonlocal is_over
        __tracebackhide__ = True
        if is_inside:
            is_over = True
            raise TooLate(f"{what if isinstance(what, str) else what()}: not within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
        yield
    finally:
        is_inside = False  # first: no signal may interrupt what follows
        rest, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            signal.setitimer(signal.ITIMER_REAL, outer - (seconds if is_over else seconds - rest), AGAIN)


def until(met: Callable[[], T], what: str) -> T:
    """Waits for something that nobody tells of; returns it."""
    with limit(what):
        while not (found := met()):
            os.sched_yield()
    return found


def tick() -> None:
    """Waits until a file that changes now gets another time: before Linux 6.13 times stand still for milliseconds."""
    with open(os.memfd_create("clock"), "wb", buffering=0) as clock:

        def now() -> int:
            clock.write(b"x")
            return os.fstat(clock.fileno()).st_ctime_ns

        before = now()
        until(lambda: now() != before, "files have another time")


@contextmanager
def unlimited() -> Iterator[None]:
    """For what is built once on a machine, by whichever test needs it first: its time is not the test's."""
    left = signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()  # pytest sets it anew for the next test
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)


@contextmanager
def running(words: Any, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Starts a process as Popen does. At the end it is killed, and reaped."""
    with subprocess.Popen(words, **options) as process:
        try:
            yield process
        finally:
            process.kill()
