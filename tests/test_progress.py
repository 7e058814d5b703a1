"""Work that takes long says what it does, to people only."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from adapter.cli import progress


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_TIME", 0)


def test_at_a_terminal_what_takes_long_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, end = os.openpty()
    with open(end, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        with progress.announce_if_slow("counting"):
            assert os.read(terminal, 100) == b"counting ...\r\n"
    os.close(terminal)


def test_at_a_terminal_what_takes_no_time_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_TIME", 3600)
    terminal, end = os.openpty()
    os.set_blocking(terminal, False)
    with open(end, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        before = set(threading.enumerate())
        with progress.announce_if_slow("counting"):
            (timer,) = set(threading.enumerate()) - before
        timer.join(60)
        assert not timer.is_alive()
        with pytest.raises(BlockingIOError):
            os.read(terminal, 100)
    os.close(terminal)


def test_a_program_that_reads_stderr_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    before = threading.enumerate()
    with progress.announce_if_slow("counting"):
        assert threading.enumerate() == before
    assert capsys.readouterr() == ("", "")
