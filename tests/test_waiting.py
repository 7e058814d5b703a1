"""Whatever a test waits for has a limit, and its clean-up is done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from .rig.waiting import TooLate, limit, running, unlimited

FAR, NEAR = 100.0, 0.01
WAITS: dict[str, Callable[[Path, subprocess.Popen[bytes]], object]] = {
    "a thread": lambda path, program: threading.Event().wait(),
    "a FIFO": lambda path, program: path.read_bytes(),
    "a program": lambda path, program: program.wait(),
    "a busy loop": lambda path, program: [None for _ in iter(int, 1)],
}


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal just before a system call does not interrupt it, the next one does."""
    monkeypatch.setattr("tests.rig.waiting.AGAIN", NEAR)


@pytest.mark.parametrize("what", WAITS)
def test_what_takes_longer_than_its_limit_is_interrupted_and_named(what: str, tmp_path: Path) -> None:
    os.mkfifo(fifo := tmp_path / "fifo")
    # Started before the limit: a process whose start is interrupted is nobody's.
    with (
        running(["cat", fifo]) as program,
        pytest.raises(TooLate, match=f"^{what}: not within 0.01 s$"),
        limit(what, NEAR),
    ):
        WAITS[what](fifo, program)


def left() -> tuple[float, float]:
    return signal.getitimer(signal.ITIMER_REAL)


def test_limits_nest_and_the_one_that_is_over_first_is_told() -> None:
    whole, _ = left()
    assert whole > 0, "each test has one"
    with pytest.raises(TooLate, match=r"^outer: "), limit("outer", NEAR), limit("inner", FAR):
        signal.pause()
    with limit("outer", FAR):
        with pytest.raises(TooLate, match=r"^inner: "), limit("inner", NEAR):
            signal.pause()
        assert 0 < left()[0] <= FAR - NEAR, "the outer one goes on"
    assert FAR < left()[0] <= whole


def test_a_clean_up_that_waits_is_interrupted_again() -> None:
    def waits() -> None:
        try:
            signal.pause()
        finally:
            signal.pause()

    with pytest.raises(TooLate), limit("all of it", NEAR):
        waits()


def test_what_is_built_once_is_not_limited() -> None:
    before = left()
    with unlimited():
        assert left() == (0, 0)
    assert 0 < left()[0] <= before[0]


def test_a_process_ends_with_the_test_that_has_started_it() -> None:
    words = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"]
    with running(words) as process:
        os.waitpid(process.pid, os.WUNTRACED)
    assert process.returncode == -signal.SIGKILL
