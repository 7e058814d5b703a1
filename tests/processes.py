"""Real programs in a folder, and a loop that goes step by step with a clock that stands still."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from v010_adapter.base.loop import READ, Loop, Timer

PATIENCE = 60
"""Seconds, by the real clock, after which a test that waits for something has failed."""
NO_PROCESS = (1 << 22) + 1
"""A pid above the kernel's highest. A small one is a process of the kernel on a machine that has just started."""


@contextmanager
def impatience(what: str, seconds: int = PATIENCE) -> Iterator[None]:
    """Fails what waits too long."""

    def give_up(*_: object) -> None:
        pytest.fail(f"nothing happens: {what}")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class SteppedLoop(Loop):
    """A loop that can be run until something is the case, and whose time passes only when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.time = lambda: self.now
        self._met: Callable[[], bool] = lambda: False
        self._bugs: list[Exception] = []

    def until(self, met: Callable[[], bool], what: str = "") -> None:
        """Runs until a condition holds, which is looked at after each callback."""
        self._met = met
        with impatience(what):
            while not met():
                self.run()
                self._complain()

    def settle(self, turns: int = 3) -> None:
        """Runs what is ready or due, without waiting for anything."""
        self._met = lambda: False
        for _ in range(turns):
            super().call_at(self.now, self.stop)
            self.run()
            self._complain()

    @property
    def is_idle(self) -> bool:
        """Whether no timer runs."""
        return all(timer.callback is None for *_, timer in self._timers)

    def _complain(self) -> None:
        if self._bugs:
            raise self._bugs.pop()

    def advance(self, seconds: float) -> None:
        """Lets time pass; what is due then is called."""
        self.now += seconds
        self.settle()

    def watch(self, fd: int, callback: Callable[[], object], events: int = READ) -> None:
        super().watch(fd, self._checked(callback), events)

    def modify(self, fd: int, callback: Callable[[], object], events: int) -> None:
        super().modify(fd, self._checked(callback), events)

    def call_at(self, moment: float, callback: Callable[[], object]) -> Timer:
        return super().call_at(moment, self._checked(callback))

    def call_soon(self, callback: Callable[[], object]) -> None:
        super().call_soon(self._checked(callback))

    def _checked(self, callback: Callable[[], object]) -> Callable[[], object]:
        def checked() -> None:
            try:
                callback()
            except Exception as bug:
                self._bugs.append(bug)
                self.stop()
                raise
            if self._met():
                self.stop()

        return checked


class Programs:
    """A folder of programs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def shell(self, name: str, text: str, mode: int = 0o755) -> str:
        """Makes a shell script and returns its path."""
        return self.write(name, f"#!/bin/sh\n{text}\n".encode(), mode)

    def write(self, name: str, content: bytes, mode: int = 0o755) -> str:
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(mode)
        return str(path)

    def fifo(self, name: str) -> Fifo:
        return Fifo(self.folder / name)


class Fifo:
    """A gate between a test and its programs: one side waits until the other puts a line in. One way only."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)  # both ends: neither side waits to open it

    def __str__(self) -> str:
        return str(self.path)

    def put(self, line: str = "go") -> None:
        os.write(self.fd, line.encode() + b"\n")

    def get(self) -> str:
        """Waits for a program to put a line in."""
        assert select.select([self.fd], [], [], PATIENCE)[0], f"nothing comes through {self.path}"
        return os.read(self.fd, 4096).decode()

    def close(self) -> None:
        os.close(self.fd)


def open_descriptors() -> set[str]:
    """Returns the open descriptors; later they may be fewer: garbage of earlier tests is collected at any time."""
    return set(os.listdir("/proc/self/fd"))


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
            assert select.select([process], [], [], PATIENCE)[0], f"process {pid} does not end"
            os.close(process)


def reaped(pid: int) -> None:
    """Waits until the parent of a process that has ended has reaped it, of which the kernel tells nobody else."""
    until = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until, f"process {pid} is not reaped"
        os.sched_yield()


def children() -> list[int]:
    """Our children, zombies included."""
    lists = list(Path("/proc/self/task").glob("*/children"))
    assert lists, "this kernel does not tell a process's children"
    return [int(pid) for path in lists for pid in path.read_text().split()]
