"""The system log of a run."""

from __future__ import annotations

import socket
import threading
from pathlib import Path


class Syslog:
    """Stands in for the node's system log, and keeps what the adapter writes to it."""

    def __init__(self) -> None:
        Path("/dev/log").unlink(missing_ok=True)
        self.lines: list[str] = []  # the lines so far, in the order they were written
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("/dev/log")
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def has(self, text: str) -> bool:
        return self.count(text) > 0

    def count(self, text: str) -> int:
        return sum(text in line for line in self.lines)

    def close(self) -> list[str]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b"", "/dev/log")
        self._listener.join()
        return self.lines

    def _listen(self) -> None:
        while line := self._socket.recv(1 << 16).decode(errors="replace"):
            if "v010-adapter" in line:
                self.lines.append(line)
