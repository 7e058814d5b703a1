"""Where programs stand by for tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from v010_adapter.errors import ProgramError
from v010_adapter.host import paths
from v010_adapter.programs.process import WATCH_PIPES_AFTER, Process, Program, Runner
from v010_adapter.programs.standby import Standby

from ..rig.loop import SteppedLoop
from ..rig.processes import children
from ..rig.programs import Fifo, Programs

GOOD = 'IFS= read -r line || {{ echo empty >> {0}/seen; exit 1; }}; echo "$line" >> {0}/seen; echo "{{}}"'
"""A plugin that notes what it has read, also an empty stdin."""


class Stage:
    """A runner with stand-by, and the programs that are to stand by."""

    def __init__(self, loop: SteppedLoop, programs: Programs) -> None:
        self.loop = loop
        self.folder = programs.folder
        self.programs = programs
        self.wanted: list[tuple[Program | ProgramError, int]] = []
        self.standby = Standby(loop, 300, lambda: self.wanted)
        self.runner = Runner(loop, self.standby.claim)
        self.ended: list[Process] = []
        self.fifos: list[Fifo] = []

    def plugin(self, name: str = "plugin", script: str = GOOD, number: int = 1, path: str = "") -> Program:
        """Makes a plugin, `number` processes of which are to stand by."""
        path = path or str(self.programs.shell(name, script.format(self.folder)))
        program = Program(name, path, (name, "invoke"), {"PATH": f"{self.folder}:/usr/bin:/bin"})
        self.wanted.append((program, number))
        return program

    def fifo(self, name: str) -> Fifo:
        """Makes a gate at which programs wait."""
        self.fifos.append(self.programs.fifo(name))
        return self.fifos[-1]

    def ready(self, number: int = 1) -> list[int]:
        """Waits until so many processes stand by, and no others are there; returns their pids, the oldest first."""
        for _ in range(2):  # what is due then changes nothing
            self.loop.until(lambda: self.waiting() == number == len(children()), f"{number} wait; {children()} are")
            self.loop.settle()
        assert self.waiting() == number
        return children()

    def open(self, number: int = 1) -> list[int]:
        self.standby.open()
        return self.ready(number)

    def waiting(self) -> int:
        return sum(one["waiting"] for one in self.standby.describe().values())

    def begin(self, program: Program, request: bytes = b"{}\n") -> Process:
        """Lets an event come that runs the program."""
        self.standby.on_event()
        process = self.runner.spawn(program, self.ended.append)
        process.feed(request)
        return process

    def finish(self, process: Process) -> bytes:
        """Waits for the program, and answers the event."""
        self.loop.advance(WATCH_PIPES_AFTER)
        self.loop.until(lambda: process in self.ended, "the program does not end")
        self.standby.on_answered()
        return process.stdout

    def event(self, program: Program, request: bytes = b"{}\n") -> Process:
        process = self.begin(program, request)
        self.finish(process)
        return process

    @property
    def seen(self) -> list[str]:
        """What programs have read."""
        path = self.folder / "seen"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def stage(
    loop: SteppedLoop, programs: Programs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Stage]:
    monkeypatch.setattr(paths, "TIMESTAMP_STEP", -1)  # the programs of tests are young
    caplog.set_level(logging.INFO)
    made = Stage(loop, programs)
    yield made
    made.standby.close()
    for fifo in made.fifos:
        fifo.close()
    loop.until(lambda: not children(), "programs are left")
    loop.settle()
