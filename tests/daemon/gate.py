"""Where plugins wait until a test lets them go on: so a test proves that something came too early."""

from __future__ import annotations

import os
import select
from pathlib import Path

from .process import SAFETY


class Gate:
    """Where a plugin says that it has come and waits to be let on: two FIFOs, and nobody opens the second too early."""

    def __init__(self, directory: Path, name: str) -> None:
        self._paths = [directory / f"{name}.{end}" for end in ("arrived", "open")]
        self._fds = []
        for path in self._paths:
            os.mkfifo(path)
            self._fds.append(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))

    @property
    def script(self) -> str:
        """The line of a shell script that stops there; `$$` is what `arrival` returns."""
        return f'echo $$ >"{self._paths[0]}"; read -r _ <"{self._paths[1]}"'

    def arrival(self) -> int:
        """Waits for a plugin to arrive; returns its pid. It stays blocked until `let_on`."""
        line = b""
        while not line.endswith(b"\n"):
            assert select.select([self._fds[0]], [], [], SAFETY)[0], "no plugin has arrived"
            line += os.read(self._fds[0], 1)
        return int(line)

    def let_on(self) -> None:
        """Lets one plugin go on."""
        os.write(self._fds[1], b"\n")

    def close(self) -> None:
        """Lets everybody go on."""
        for fd in self._fds:
            os.close(fd)
