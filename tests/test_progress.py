"""Work that takes long says what it does, to people only."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from adapter.cli import progress


@pytest.mark.parametrize(("quiet_time", "told"), [(0, b"counting ...\r\n"), (3600, b"")])
def test_at_a_terminal_what_takes_long_is_told_once(
    monkeypatch: pytest.MonkeyPatch, quiet_time: int, told: bytes
) -> None:
    monkeypatch.setattr(progress, "QUIET_TIME", quiet_time)
    terminal, end = os.openpty()
    with open(end, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        before = set(threading.enumerate())
        with progress.announce_if_slow("counting"):
            assert not told or os.read(terminal, 100) == told
            timers = set(threading.enumerate()) - before
        for timer in timers:
            timer.join(60)
        os.set_blocking(terminal, False)
        with pytest.raises(BlockingIOError):
            os.read(terminal, 100)
    os.close(terminal)


def test_a_program_that_reads_stderr_is_told_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "QUIET_TIME", 0)
    before = threading.enumerate()
    with progress.announce_if_slow("counting"):
        assert threading.enumerate() == before
    assert capsys.readouterr() == ("", "")
