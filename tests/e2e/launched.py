"""The adapter that the runtime launches, by what it says in the node's system log: killed, it comes back by itself."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from pathlib import Path

from tests.e2e.pod import until


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


class Launched:
    """The adapter that the runtime launches, by what it says in syslog."""

    def __init__(self, syslog: Syslog) -> None:
        self._syslog = syslog
        self._registered = 1

    def kill(self) -> None:
        os.kill(self._servers()[-1], signal.SIGKILL)

    def logged(self, text: str) -> int:
        """Returns how many lines of the log have a text."""
        return self._syslog.count(text)

    def wait_until_logged(self, text: str, number: int) -> None:
        """Waits until so many lines of the log have a text."""
        until(lambda: self._syslog.count(text) >= number, f"{number} lines with: {text}")

    def wait_until_registered(self) -> None:
        """Waits until as many processes have been registered as there were before, and one more."""
        self._registered += 1
        until(lambda: len(self._servers()) >= self._registered, f"{self._registered} adapters to be registered")

    def wait_until_registered_or_held_back(self) -> None:
        """Waits until one more process has been registered, or says that the runtime keeps it waiting."""
        before = len(self._servers())
        text = "the runtime has not configured and synchronized the adapter yet"
        until(lambda: len(self._servers()) > before or self._syslog.has(text), "the adapter to join")

    def _servers(self) -> list[int]:
        lines = self._syslog.lines
        return [int(found[1]) for line in lines if (found := re.search(r"\[(\d+)\]: registered with", line))]
