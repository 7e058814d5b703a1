"""A terminal, as people have it: what a command shows there, and which rows it has left to the terminal to break."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyte
from pyte.screens import wcwidth

from .daemon import COMMAND, MEASURED
from .waiting import limit, running

COLUMNS, LINES = 80, 24


class Screen(pyte.Screen):
    """A screen that keeps the rows which are longer than it is wide."""

    def __init__(self, columns: int, lines: int) -> None:
        self.broken = list[str]()
        super().__init__(columns, lines)

    def draw(self, data: str) -> None:
        for character in data:
            if self.cursor.x + max(0, wcwidth(character)) > self.columns:
                self.broken.append(self.display[self.cursor.y])
            super().draw(character)

    @property
    def rows(self) -> list[str]:
        """The rows down to the last one that is not empty."""
        return "\n".join(row.rstrip() for row in self.display).rstrip().split("\n")


class Shown:
    """A command at a terminal, and what has come from it."""

    def __init__(self, process: subprocess.Popen[Any], ours: int, terminal: Screen) -> None:
        self.process, self.terminal = process, terminal
        self._ours, self._stream = ours, pyte.ByteStream(terminal)

    def until(self, met: Callable[[list[str]], object] | None = None) -> Screen:
        """Shows what comes until the rows are as they should be, or until the command has ended."""
        with limit(lambda: f"the screen is {self.terminal.rows}"), suppress(OSError):  # the other end is closed
            while not (met and met(self.terminal.rows)):
                self._stream.feed(os.read(self._ours, 1 << 16))
        return self.terminal


@contextmanager
def at_terminal(*words: str | Path, columns: int = COLUMNS, lines: int = LINES, height: int = 0) -> Iterator[Shown]:
    """Starts the command at a terminal of this size. `height` is that of the screen, if it is another."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    variables = {"PATH": os.defpath, "TERM": "xterm", **MEASURED}
    try:
        with running([COMMAND, *words], env=variables, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            yield Shown(process, ours, Screen(columns, height or lines))
    finally:
        os.close(ours)


def shown(*words: str | Path, columns: int = COLUMNS) -> Screen:
    """Returns the terminal after the command has ended, with all rows."""
    with at_terminal(*words, columns=columns, height=200) as command:
        return command.until()
