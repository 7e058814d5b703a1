"""Spawns programs, and keeps account of the programs that nobody waits for any longer."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from v010_adapter.base.loop import Loop
from v010_adapter.monitoring.times import Histogram, quantiles
from v010_adapter.monitoring.trace import UNTRACED, Trace
from v010_adapter.programs.process import Process, Program

if TYPE_CHECKING:
    from v010_adapter.programs.standby import Standby

log = logging.getLogger(__name__)
printed = logging.getLogger("v010_adapter.stderr")
"""What programs print on stderr, at the level debug: it may have secrets of conf.json."""

MAX_LEFT = 32
"""Processes of one program that may be left running."""


class Outcome(StrEnum):
    """How a run has ended, for whoever waited for it."""

    DONE = "done"
    FAILED = "failed"
    LATE = "late"
    """Nobody waits any longer, and there is no result."""


DONE, FAILED, LATE = Outcome  # a global name is faster than an enumeration's attribute


@dataclass
class Account:
    """The runs of one program."""

    runs: int = 0
    failures: int = 0
    late: int = 0
    """How often the program was not done when its time was over."""
    killed: int = 0
    last_error: str = ""
    failed_at: float = 0.0
    """Seconds since the epoch, of the last error."""
    times: defaultdict[Outcome, Histogram] = field(default_factory=lambda: defaultdict(Histogram))
    """The time from the start of a run to its outcome."""

    def fail(self, reason: str) -> None:
        """Notes a failure."""
        self.failures += 1
        self.last_error, self.failed_at = reason, time.time()

    def describe(self) -> dict[str, Any]:
        """Returns the account for `status`."""
        times = {outcome: histogram.describe() for outcome, histogram in self.times.items()}
        return {**vars(self), "times": times, **quantiles(*self.times.values())}


class Runner:
    """Spawns programs on a loop."""

    def __init__(self, loop: Loop, standby: Standby | None = None) -> None:
        self.loop = loop
        self.accounts: defaultdict[str, Account] = defaultdict(Account)
        """What has happened so far, by program."""
        self._standby = standby
        self._abandoned: dict[Process, Callable[[Process], object]] = {}
        """The processes that nobody needs any more, with what is called when they exit."""
        self._left: defaultdict[str, list[Process]] = defaultdict(list)
        """The abandoned processes that were not killed, by program, the oldest first."""

    def spawn(self, program: Program, on_exit: Callable[[Process], None], trace: Trace = UNTRACED) -> Process:
        """Spawns a program, or takes one that stands by; the caller writes the request with `feed`.

        `trace` is that of the event. One that stands by was started before, without it.

        `on_exit` is called when the process has exited, unless the process was left before. Raises OSError.
        """
        name = program.name

        def exited(process: Process) -> None:
            if process not in self._abandoned:
                on_exit(process)
                return
            on_exit_of_left = self._abandoned.pop(process)
            if process in self._left[name]:
                self._left[name].remove(process)
            text = "%s: pid %d, which was left running, has ended: %s"
            log.info(text, process.title, process.pid, process.ending, extra=process.trace.extra)
            on_exit_of_left(process)

        def log_stderr(line: str) -> None:
            """Marks a line, for it may imitate the lines of the adapter. It may have secrets of conf.json."""
            extra = trace.extra_with(plugin=name, stream="stderr")
            printed.debug("%s: stderr: %s", trace.title(name), line, extra=extra)

        process = self._standby.claim(program, exited, log_stderr) if self._standby is not None else None
        if process is None:
            if trace.parent and program.takes_trace:
                program = program._replace(environ={**program.environ, "TRACEPARENT": trace.parent})
            process = Process(self.loop, program, exited, log_stderr)
        process.trace = trace
        self.accounts[name].runs += 1
        return process

    def note(self, process: Process, outcome: Outcome) -> float:
        """Counts the time of a run that ends now; returns the time, in seconds."""
        seconds = self.loop.time() - process.started
        self.accounts[process.name].times[outcome].add(seconds)
        return seconds

    def let_work(self, process: Process) -> None:
        """Stops waiting for a process that has printed its result and works on."""
        log.info("%s: pid %d works on after its result", process.title, process.pid, extra=process.trace.extra)
        self._abandon(process, lambda _: None, kill=False)

    def leave(self, process: Process, on_exit: Callable[[Process], object] = lambda _: None, *, kill: bool) -> None:
        """Gives a process without a result up: it is left to finish, or killed. `on_exit` is called when it exits."""
        fate = "killed" if kill else "left to finish"
        text = "%s: pid %d has no result in time: %s"
        log.warning(text, process.title, process.pid, fate, extra=process.trace.extra)
        self._abandon(process, on_exit, kill=kill)

    def _abandon(self, process: Process, on_exit: Callable[[Process], object], *, kill: bool) -> None:
        """Leaves a process alone, or kills it. If too many processes of the program are left, the oldest is killed."""
        self._abandoned[process] = on_exit
        process.leave()
        if kill:
            self.kill(process)
            return
        left = self._left[process.name]
        left.append(process)
        if len(left) > MAX_LEFT:
            oldest = left.pop(0)
            text = "%s: more than %d left: pid %d, the oldest, is killed"
            log.error(text, oldest.title, MAX_LEFT, oldest.pid, extra=oldest.trace.extra)
            self.kill(oldest)

    def kill(self, process: Process) -> None:
        """Kills a process. Its exit is reported as any other."""
        self.accounts[process.name].killed += 1
        process.kill()
