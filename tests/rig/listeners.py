"""Who listens on the node to what an adapter or a plugin says: syslog, and systemd."""

from __future__ import annotations

import os
import re
import select
import socket
from contextlib import suppress
from pathlib import Path

from .waiting import LIMIT, limit

PREFIX = f"v010-adapter[{os.getpid()}]: "


class Receiver:
    """A syslog daemon of sorts: a datagram socket at a path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(path))
        self.lines: list[str] = []
        """What `until` has read."""

    def until(self, text: str) -> str:
        """Waits for a line that has this text, and returns it."""
        with limit(lambda: f"{text} never comes: {self.lines}"):
            while not (found := [line for line in self.lines if text in line]):
                select.select([self._socket], [], [])
                self.lines += self.read()
        return found[0]

    def read(self) -> list[str]:
        """What has come since the last time."""
        found = []
        with suppress(BlockingIOError):
            while True:
                found.append(self._socket.recv(1 << 20).decode())
        return found

    def texts(self) -> list[str]:
        """What these lines say behind their priority, name and pid."""
        lines = self.read()
        assert all(re.match(r"<\d+>" + re.escape(PREFIX), line) for line in lines), lines
        return [line.partition(PREFIX)[2] for line in lines]

    def stop(self) -> None:
        self._socket.close()
        self.path.unlink(missing_ok=True)


class Systemd:
    """Listens where NOTIFY_SOCKET says."""

    def __init__(self, path: Path) -> None:
        self.environ = {"NOTIFY_SOCKET": str(path)}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(LIMIT)
        self.socket.bind(str(path))

    def next(self) -> list[str]:
        """Waits for the next message; returns its lines."""
        return self.socket.recv(4096).decode().splitlines()

    def until(self, line: str) -> None:
        """Waits for a message with this line."""
        with limit(f"{line} never comes"):
            while line not in self.next():
                pass
