"""Locks of bytes, between processes: a lock ends with its process, and a process that is stopped keeps it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from v010_adapter.host import locks

HOLD = "import os, sys; from v010_adapter.host import locks; fd = os.open(sys.argv[1], os.O_RDWR); "
HOLD += "print(locks.lock(fd, 5, 2), flush=True); sys.stdin.read()"


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    made = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield made
    os.close(made)


def test_bytes_beside_those_of_another_process_are_free_and_all_are_when_it_is_killed(fd: int, tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLD, str(tmp_path / "file")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        other.send_signal(signal.SIGSTOP)
        assert [locks.lock(fd, at) for at in (4, 5, 6, 7)] == [True, False, False, True]
        assert [locks.is_locked(fd, at, 1) for at in (4, 5, 6, 7)] == [False, True, True, False]
        assert locks.is_locked(fd, 0, 0), "0 bytes are all from there on"
        assert not locks.is_locked(fd, 7, 0)
        other.kill()
        other.wait()
    assert locks.lock(fd, 5)
    assert not locks.is_locked(fd, 0, 0)


def test_an_unlock_of_one_byte_leaves_the_others(fd: int) -> None:
    beside = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    assert locks.lock(fd, 0, 3)
    locks.unlock(fd, 1)
    assert [locks.lock(beside, at) for at in range(3)] == [False, True, False]
    os.close(beside)
