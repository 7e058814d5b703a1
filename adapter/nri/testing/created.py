"""A container that has been created: a real process that waits for its start at a FIFO, as runc's init does."""

from __future__ import annotations

import os
import select
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import mkdtemp
from threading import Thread
from typing import Self

from nri import api
from nri.testing.runtime import Outcome

FIFO = "exec.fifo"
TIMEOUT = 60.0
"""Seconds that a test waits by default."""
_INIT = """
import os, sys
fifo = os.open(sys.argv[1], os.O_PATH)
os.write(1, b"waits")
to = os.open(f"/proc/self/fd/{fifo}", os.O_WRONLY)
os.write(to, b"0")
os.close(to)
os.close(fifo)
os.write(1, b"runs")
os.read(0, 1)
"""
"""What runc's init does (libcontainer/standard_init_linux.go, Init). It is then the program, until it is killed."""


class Created:
    """A created container, for tests of plugins that hold its start. As a context manager, it ends with the block."""

    def __init__(
        self, request: api.StartContainerRequest, play: Callable[[api.StartContainerRequest], Outcome]
    ) -> None:
        """Takes the request of its StartContainer, without pid and cgroup, and the function that plays it."""
        self._play = play
        self.directory = Path(mkdtemp(prefix="nri-"), request.container.id)
        """The runtime's directory of the container, which has the FIFO."""
        self.directory.mkdir(0o711)
        self._fifo = self.directory / FIFO
        os.mkfifo(self._fifo, 0o622)
        its = self._fifo.stat()
        self._runtimes = its.st_dev, its.st_ino
        words = [sys.executable, "-I", "-S", "-c", _INIT, str(self._fifo)]
        self._process = Popen(words, stdin=PIPE, stdout=PIPE)  # noqa: S603
        self._start: Thread | None = None
        self._is_started = self._has_run = False
        request.container.pid = self._process.pid
        request.container.linux.cgroups_path = _own_cgroup()
        self.request = request
        """The request of the container's StartContainer, with the pid and the cgroup of the process."""
        self._read("waits")

    @property
    def pid(self) -> int:
        """The container's process."""
        return self._process.pid

    @property
    def is_held(self) -> bool:
        """Whether a plugin holds the container: its process and the runtime wait at different FIFOs."""
        try:
            its = self._fifo.stat()
        except FileNotFoundError:
            return False
        return self._process.poll() is None and (its.st_dev, its.st_ino) != self._runtimes

    def start(self) -> Outcome:
        """Plays StartContainer. If that has not failed, the runtime's start begins, and waits for the process."""
        outcome = self._play(self.request)
        if not outcome.error:
            self._start = Thread(target=self._run_start, daemon=True)
            self._start.start()
        return outcome

    def runs(self, timeout: float = TIMEOUT) -> bool:
        """Waits for the end of the runtime's start; returns whether the program has begun to run.

        Raises TimeoutError if the start still waits after `timeout` seconds.
        """
        if self._start is not None:
            self._start.join(timeout)
            if self._start.is_alive():
                raise TimeoutError(f"container {self.request.container.id} has not started in {timeout:g} s")
        if self._is_started and not self._has_run:
            self._read("runs")
            self._has_run = True
        return self._has_run

    def kill(self) -> None:
        """Kills the process, as a runtime does that deletes the container."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ends the process, and removes its files."""
        self.kill()
        if self._start is not None:
            self._start.join(TIMEOUT)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        shutil.rmtree(self.directory.parent, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, word: str) -> None:
        assert self._process.stdout is not None  # noqa: S101
        if self._process.stdout.read(len(word)) != word.encode():
            raise RuntimeError(f"the process of container {self.request.container.id} has ended")

    def _run_start(self) -> None:
        """Waits for the byte or the end of the process (runc libcontainer/container_linux.go, handleFifo)."""
        with FileIO(os.open(self._fifo, os.O_RDONLY | os.O_NONBLOCK)) as fifo, suppress(ProcessLookupError):
            with FileIO(os.pidfd_open(self._process.pid)) as process:
                select.select([fifo, process], [], [])
            self._is_started = bool(fifo.read(1))  # None if the process has ended
        if self._is_started:
            with suppress(FileNotFoundError):
                self._fifo.unlink()


def _own_cgroup() -> str:
    """Returns this process's cgroup, which the container's process inherits: the longest one of all hierarchies."""
    return max((line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines()), key=len)
