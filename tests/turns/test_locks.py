"""Locks of bytes, between processes: a lock ends with its process, and a process that is stopped keeps it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from v010_adapter.state.runtime_directory import RuntimeDirectory
from v010_adapter.state.turns_file import TurnsFile, _locked

from ..rig.waiting import running

HOLD = "import sys; from v010_adapter.state.runtime_directory import RuntimeDirectory; "
HOLD += "from v010_adapter.state.turns_file import TurnsFile; "
HOLD += "file = TurnsFile(RuntimeDirectory(sys.argv[1], 'containerd')); "
HOLD += "print(file.lock(5, 2), flush=True); sys.stdin.read()"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], TurnsFile]]:
    """Opens the file once more."""
    files: list[TurnsFile] = []

    def open_one() -> TurnsFile:
        files.append(TurnsFile(RuntimeDirectory(str(tmp_path / "state"), "containerd")))
        return files[-1]

    yield open_one
    for file in files:
        file.close()
        file.directory.close()


def test_bytes_beside_those_of_another_process_are_free_and_all_are_when_it_is_killed(
    opened: Callable[[], TurnsFile], tmp_path: Path
) -> None:
    file = opened()
    words = [sys.executable, "-c", HOLD, str(tmp_path / "state")]
    with running(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        other.send_signal(signal.SIGSTOP)
        assert [file.lock(at, 1) for at in (4, 5, 6, 7)] == [True, False, False, True]
        assert [_locked(file._fd, at) for at in (4, 5, 6, 7)] == [5, 5, 6, None]
        assert file.is_locked_from(0)
        assert not file.is_locked_from(7)
        other.kill()
        other.wait()
    assert file.lock(5, 1)
    assert not file.is_locked_from(0)


def test_an_unlock_of_one_byte_leaves_the_others(opened: Callable[[], TurnsFile]) -> None:
    file, beside = opened(), opened()
    assert file.lock(0, 3)
    file.unlock(1, 1)
    assert [beside.lock(at, 1) for at in range(3)] == [False, True, False]
