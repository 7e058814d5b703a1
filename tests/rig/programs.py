"""Real programs in a folder, and the gates at which they wait for a test."""

from __future__ import annotations

import os
import select
from pathlib import Path

from .waiting import limit


class Programs:
    """A folder of programs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def shell(self, name: str, text: str, mode: int = 0o755) -> Path:
        """Makes a shell script."""
        return self.write(name, f"#!/bin/sh\n{text}\n", mode)

    def write(self, name: str, content: str | bytes, mode: int = 0o755) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return path

    def fifo(self, name: str) -> Fifo:
        return Fifo(self.folder / name)


class Fifo:
    """A gate between a test and its programs: one side waits until the other puts a line in. One way only."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)  # both ends: neither side waits to open it
        self._rest = b""

    def __str__(self) -> str:
        return str(self.path)

    def put(self, line: str = "go") -> None:
        os.write(self.fd, line.encode() + b"\n")

    def get(self) -> str:
        """Waits for a program to put a line in, and returns it. A line that came with it is for the next call."""
        with limit(f"nothing comes through {self.path}"):
            while b"\n" not in self._rest:
                select.select([self.fd], [], [])
                self._rest += os.read(self.fd, 4096)
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        os.close(self.fd)
