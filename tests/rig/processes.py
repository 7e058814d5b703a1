"""The processes and descriptors of a test: which there are, and waiting for their end. What a command that runs
inside a test changes of the test's process."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import resource
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from .waiting import limit, until

NO_PROCESS = (1 << 22) + 1
"""A pid above the kernel's highest. A small one is a process of the kernel on a machine that has just started."""
PR_GET_DUMPABLE = 3
prctl = ctypes.CDLL(None).prctl


def failing(number: int) -> Mock:
    """A system call that fails with this errno."""
    return Mock(side_effect=OSError(number, os.strerror(number)))


def open_descriptors() -> set[str]:
    """Returns the open descriptors, and the one that reads them.

    Later they may be fewer, for garbage of earlier tests is collected at any time. That also leaves numbers free: what
    is closed and opened again has another number, so that only how many there are can be compared.
    """
    return set(os.listdir("/proc/self/fd"))


@contextmanager
def at_most(most: int, of: int = resource.RLIMIT_NOFILE) -> Iterator[None]:
    """Lowers a soft limit: no new descriptor has this number or a higher one."""
    soft, hard = resource.getrlimit(of)
    resource.setrlimit(of, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(of, (soft, hard))


def state() -> dict[str, Any]:
    """Returns what a test may change of its process, and must put back."""
    log, numbers = logging.getLogger(), signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    return {
        "directory": os.getcwd(),
        "environment": {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
        "collector": gc.isenabled(),
        "log": (log.level, [*log.handlers]),
        "signals": {number: signal.getsignal(number) for number in numbers},
        "blocked signals": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "limits": [
            resource.getrlimit(of) for of in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_AS)
        ],
        "threads": {*threading.enumerate()},
        "dumpable": prctl(PR_GET_DUMPABLE),
    }


@contextmanager
def restored() -> Iterator[None]:
    """Puts back, after the block, what a command changes that was made to end with its process."""
    before, log = state(), logging.getLogger()
    try:
        yield
    finally:
        if os.getcwd() != before["directory"]:  # which may be closed to another user, as /root is
            os.chdir(before["directory"])
        level, log.handlers[:] = before["log"]
        log.setLevel(level)
        for number, handler in before["signals"].items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        if before["collector"]:
            gc.enable()


def is_running(pid: int) -> bool:
    """Whether there is such a process that is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(*pids: int) -> None:
    """Waits for the end of processes that are not ours to reap."""
    for pid in pids:
        with suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                ended(process, f"process {pid} does not end")
            finally:
                os.close(process)


def killed(*pids: int) -> None:
    """Kills processes that are not ours to reap, and waits for their end."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    gone(*pids)


def ended(process: int, what: str = "the process does not end") -> None:
    """Waits for the end of the process of a pidfd."""
    with limit(what):
        select.select([process], [], [])


def reaped(pid: int) -> None:
    """Waits until the parent of a process that has ended has reaped it, of which the kernel tells nobody else."""
    until(lambda: not Path(f"/proc/{pid}").exists(), f"process {pid} is not reaped")


def children() -> list[int]:
    """Our children, zombies included."""
    return list(children_of(os.getpid()))


def children_of(pid: int) -> dict[int, str]:
    """A process's children, zombies included: their state by their pid."""
    lists = list(Path(f"/proc/{pid}/task").glob("*/children"))
    assert lists or not Path(f"/proc/{pid}").exists(), "this kernel does not tell a process's children"
    found = {}
    for path in lists:
        for child in map(int, _read_if_there(path).split()):
            if stat := _read_if_there(Path(f"/proc/{child}/stat")):
                found[child] = stat.rpartition(")")[2].split()[0]
    return found


def _read_if_there(path: Path) -> str:
    """The text of a file of /proc; empty if its process or thread has gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return path.read_text()
    return ""
