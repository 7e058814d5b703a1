"""Real programs in a folder, and a loop that goes step by step with a clock that stands still."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from v010_adapter.base.loop import READ, Loop, Timer

from .waiting import limit

NO_PROCESS = (1 << 22) + 1
"""A pid above the kernel's highest. A small one is a process of the kernel on a machine that has just started."""


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
        with limit(what):
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
        with limit(f"nothing comes through {self.path}"):
            select.select([self.fd], [], [])
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
            try:
                ended(process, f"process {pid} does not end")
            finally:
                os.close(process)


def ended(process: int, what: str = "the process does not end") -> None:
    """Waits for the end of the process of a pidfd."""
    with limit(what):
        select.select([process], [], [])


def reaped(pid: int) -> None:
    """Waits until the parent of a process that has ended has reaped it, of which the kernel tells nobody else."""
    with limit(f"process {pid} is not reaped"):
        while Path(f"/proc/{pid}").exists():
            os.sched_yield()


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
