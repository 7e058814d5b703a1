"""One run of a program, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from v010_adapter.programs.process import WATCH_PIPES_AFTER, Process, Program

from ..rig.loop import SteppedLoop
from ..rig.programs import Fifo, Programs

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "A": "<é>", "EMPTY": ""}


class Run:
    """A program that was started, and what came of it."""

    def __init__(
        self,
        loop: SteppedLoop,
        path: str | Path,
        request: bytes = b"{}",
        environment: Mapping[str, str] = ENVIRONMENT,
        plugin: str = "konfine",
    ) -> None:
        self.loop = loop
        self.lines: list[str] = []
        self.ended = 0
        program = Program(plugin, str(path), (plugin, "invoke"), environment)
        self.process = Process(loop, program, self.end, self.lines.append)
        self.process.feed(request)

    def end(self, process: Process) -> None:
        assert process is self.process
        self.ended += 1

    def listen(self) -> Run:
        """Lets the time pass after which it is listened to while it runs."""
        self.loop.advance(WATCH_PIPES_AFTER)
        return self

    def wait(self) -> Run:
        """Waits for its end."""
        self.loop.until(lambda: self.ended > 0, "the program does not end")
        self.loop.settle()
        assert self.ended == 1
        return self

    @property
    def stdout(self) -> str:
        return self.process.stdout.decode()


@pytest.fixture
def shell(loop: SteppedLoop, programs: Programs) -> Callable[..., Run]:
    """Runs a shell script."""

    def run(text: str, request: bytes = b"{}") -> Run:
        return Run(loop, programs.shell("plugin", text), request)

    return run


@pytest.fixture
def said(programs: Programs, loop: SteppedLoop) -> Iterator[Fifo]:
    """The way back."""
    fifo = programs.fifo("said")
    yield fifo
    fifo.close()
