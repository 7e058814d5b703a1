"""Runs programs, of legacy plugins and of precreate hooks. Only this module executes programs.

A program gets the request on stdin and prints the result on stdout. A program that does not read, does not end, or
leaves children with its pipes must not affect the adapter or other programs. The `Runner` starts programs, counts
their runs, and knows those that nobody waits for any longer.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, Self, TypeAlias

from nri.scripts import start_error
from v010_adapter.base.loop import CLOSED, NO_TIMER, READ, WRITE, Loop
from v010_adapter.host.mount_namespace import programs_namespace
from v010_adapter.monitoring.times import Histogram, quantiles
from v010_adapter.monitoring.trace import UNTRACED, Trace
from v010_adapter.programs.children import children

log = logging.getLogger(__name__)
printed = logging.getLogger("v010_adapter.stderr")
"""What programs print on stderr, at the level debug: it may have secrets of conf.json."""

MAX_STDOUT = 1 << 20
"""Maximum bytes by which a result may exceed its request. A program that is left may write as much to stderr."""
WATCH_PIPES_AFTER = 0.02
"""Seconds after which the pipes of a running program are watched."""
STILL_RUNNING = "still running"
"""The ending of a program that has not ended."""
MAX_LEFT = 32
"""Processes of one program that may be left running."""
MAX_SIZE = 64 << 10
"""Maximum bytes of stderr that are logged for one run."""
MAX_LINES = 500
"""Maximum lines of stderr that are logged for one run: no event is answered while lines are written."""
MAX_LINE = 4 << 10
"""Maximum bytes of a line; a longer line is broken."""
_CHUNK = 64 << 10


class Program(NamedTuple):
    """What is executed, and what the log calls it."""

    name: str
    path: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    takes_trace: bool = False
    """Whether a process that is started for an event gets the event's span, as TRACEPARENT."""


class Process:
    """A running program. `on_end` is called once, after the exit, when the output has been read."""

    def __init__(
        self, loop: Loop, program: Program, on_end: Callable[[Self], None], on_line: Callable[[str], None]
    ) -> None:
        """Starts a program; `feed` gives it the request.

        `on_line` gets each line of stderr. Raises OSError when the program cannot be started.
        """
        self.name = program.name
        self.started = loop.time()
        """When the program was started, on the loop's clock."""
        self.status: int | None = None
        """None while the program runs, then its exit code, or minus the number of the signal that killed it."""
        self.trace = UNTRACED
        """What log lines of the event have that the program serves."""
        self._loop = loop
        self._on_end, self._on_line = on_end, on_line
        self._stderr: StderrLines | None = None
        """What the program has written to stderr."""
        self._stdout = bytearray()
        self.max_stdout = MAX_STDOUT
        """Maximum bytes of the result. A large container is larger as a result, too."""
        self.too_long = False
        """Whether the output is longer than `max_stdout`."""
        self._request: memoryview
        """What is left to be written of the request; no copy, because a pipe takes a large request in many parts."""
        self._pipes_timer = NO_TIMER
        self._is_left = self._is_waiting = False
        self._pidfd = CLOSED
        self._child_ends = self._spawn(program)

    @property
    def title(self) -> str:
        """The beginning of a log line about the program."""
        return self.trace.title(self.name)

    def wait(self, on_output: Callable[[Self], None]) -> None:
        """Lets the program wait for its request. `on_output` is called if the program writes something before that."""
        self._is_waiting = True
        self._part_pipes()
        for name in ("_out", "_err"):
            self._watch_pipe(getattr(self, name), partial(self._take_early, name, on_output))

    @property
    def is_fit(self) -> bool:
        """Whether the program, which waits, has neither ended nor written anything, nor closed its stdout.

        Its stderr may be closed: many scripts send that to a file.
        """
        events = select.poll()
        for fd in (self._pidfd, self._out, self._err):
            if fd != CLOSED:
                events.register(fd, select.POLLIN)
        return self._out != CLOSED and not events.poll(0)

    def serve(self, name: str, on_end: Callable[[Self], None], on_line: Callable[[str], None]) -> None:
        """Ends the wait: `feed` must follow at once. The log calls the program by this name from now on.

        `started` becomes the moment of the event.
        """
        self.name = name
        self.started = self._loop.time()
        self._stop_waiting(on_end, on_line)

    def discard(self, on_end: Callable[[Self], None] = lambda _: None) -> None:
        """Kills the program, and what it has started: none of them must see an empty stdin."""
        self._kill_group()
        self._stop_waiting(on_end, lambda _: None)
        self.kill()

    def feed(self, request: bytes) -> None:
        """Writes the request to stdin, closes stdin, and starts to watch the program. Call this once, at once."""
        self._request = memoryview(request)
        self.max_stdout += len(request)
        if len(request) > select.PIPE_BUF:  # a pipe takes so much at once
            os.set_blocking(self._in, False)
        if not self._write():
            self._watch_pipe(self._in, self._write, WRITE)
        # What follows can wait until the program has its request: the program works meanwhile.
        self._part_pipes()
        # Most programs end before this timer. Their pipes are read once at the exit, which is faster.
        self._pipes_timer = self._loop.call_at(self.started + WATCH_PIPES_AFTER, self._watch_pipes)

    @property
    def stdout(self) -> bytes:
        """The output so far, at most `max_stdout` bytes plus one chunk."""
        if self.status is None:
            self._drain(("_out",))
        return bytes(self._stdout)

    @property
    def ending(self) -> str:
        """How the program ended, for errors and the log."""
        if self.status is None:
            return STILL_RUNNING
        return f"exit code {self.status}" if self.status >= 0 else f"killed by signal {-self.status}"

    def leave(self, on_end: Callable[[Self], None]) -> None:
        """Stops waiting for the program, which works on: nobody reads its result. `on_end` is called after the exit.

        A pipe is closed when the program floods it.
        """
        self._is_left, self._on_end = True, on_end
        self._stdout, self.max_stdout = bytearray(), MAX_STDOUT

    def kill(self) -> None:
        """Kills the process, never its group. Does nothing after the exit."""
        if self.status is None:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _spawn(self, program: Program) -> Sequence[int]:
        """Starts the program; returns the descriptors of the program's ends of the pipes."""
        _, path, argv, environ, _ = program
        fds: list[int] = []
        try:
            for _ in range(3):
                fds += os.pipe()
            child_in, self._in, self._out, child_out, self._err, child_err = fds
            self.pid = programs_namespace.call(children.spawn, path, argv, environ, (child_in, child_out, child_err))
            self._watch_exit()
        except (AttributeError, OSError, ValueError) as error:
            for fd in fds:
                os.close(fd)
            if isinstance(error, OSError):
                raise start_error(path, error) from None
            # A NUL character, a variable that Python does not pass on, a Python without pidfd_open.
            raise OSError(errno.EINVAL, str(error)) from None
        return child_in, child_out, child_err

    def _part_pipes(self) -> None:
        """Leaves the program's ends of the pipes to the program alone."""
        if self._child_ends:
            for fd in self._child_ends:
                os.close(fd)
            for fd in (self._out, self._err):
                os.set_blocking(fd, False)  # our ends only: the program gets blocking pipes
            self._child_ends = ()

    def _watch_exit(self) -> None:
        """Watches for the exit. A program that cannot be watched is killed."""
        try:
            self._pidfd = os.pidfd_open(self.pid)
            self._loop.watch(self._pidfd, self._on_exit)
        except (AttributeError, OSError):
            self._close("_pidfd")
            os.kill(self.pid, signal.SIGKILL)
            children.reap(self.pid)
            raise

    def _watch_pipes(self) -> None:
        for name in ("_out", "_err"):
            if (fd := getattr(self, name)) != CLOSED:
                self._watch_pipe(fd, partial(self._take, name))

    def _watch_pipe(self, fd: int, callback: Callable[[], object], events: int = READ) -> None:
        """Watches a pipe of the running program. Without that, the program could wait for us for ever."""
        try:
            self._loop.watch(fd, callback, events)
        except OSError as error:
            text = "%s: a pipe cannot be watched: %s: the program is killed"
            log.warning(text, self.title, error.strerror, extra=self.trace.extra)
            self.kill()

    def _write(self) -> bool:
        """Writes as much of the request as the pipe takes; returns whether stdin is done.

        A program that does not read its request is no error.
        """
        try:
            written = os.write(self._in, self._request)
        except BlockingIOError:
            return False
        except OSError:  # the program has closed its stdin, or has ended
            written = len(self._request)
        if written < len(self._request):
            self._request = self._request[written:]
            return False
        self._request = memoryview(b"")
        self._close("_in")
        return True

    def _take(self, name: str) -> int:
        """Takes what a pipe has now; returns the number of bytes. Closes the pipe at its end."""
        fd: int = getattr(self, name)
        if fd == CLOSED:
            return 0
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:
            return 0
        if not chunk:
            self._close(name)
        elif name == "_err":
            self._add_to_stderr(chunk)
        elif not self.too_long:
            self._stdout += chunk
            self.too_long = len(self._stdout) > self.max_stdout
        elif self._is_left:
            self._close_flooded("_out", "stdout")
        return len(chunk)

    def _add_to_stderr(self, chunk: bytes) -> None:
        if self._stderr is None:
            self._stderr = StderrLines(self._on_line)
        self._stderr.add(chunk)
        if self._is_left and self._stderr.size > MAX_STDOUT:
            self._close_flooded("_err", "stderr")

    def _close_flooded(self, name: str, stream: str) -> None:
        text = "%s: more than %d bytes on %s from a program that was left: the pipe is closed"
        log.warning(text, self.title, MAX_STDOUT, stream, extra=self.trace.extra)
        self._close(name)

    def _take_early(self, name: str, on_output: Callable[[Self], None]) -> None:
        if self._take(name):  # else the program has closed the pipe: most likely it ends
            on_output(self)

    def _stop_waiting(self, on_end: Callable[[Self], None], on_line: Callable[[str], None]) -> None:
        self._is_waiting = False
        self._on_end, self._on_line = on_end, on_line
        for fd in (self._out, self._err):
            self._loop.unwatch(fd)

    def _kill_group(self) -> None:
        """Kills all processes of the program; not after the exit: its pid may be used again."""
        if self.status is None:
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)

    def _on_exit(self: Self) -> None:
        if self._is_waiting:
            self._kill_group()
        self.status = children.reap(self.pid)
        self._pipes_timer.cancel()
        # The pipes hold the program's output now. Children that keep the pipes open are not waited for.
        self._drain(("_out", "_err"))
        if self._stderr is not None:
            self._stderr.end()
        try:
            self._on_end(self)  # before the clean-up: the runtime waits
        finally:
            for name in ("_pidfd", "_in", "_out", "_err"):
                self._close(name)

    def _drain(self, names: Iterable[str]) -> None:
        """Reads at most what a pipe can hold: a child left behind may go on writing."""
        for name in names:
            left = MAX_STDOUT // _CHUNK
            while left and self._take(name) == _CHUNK:
                left -= 1

    def _close(self, name: str) -> None:
        fd: int = getattr(self, name)
        if fd != CLOSED:
            self._loop.unwatch(fd)
            os.close(fd)
            setattr(self, name, CLOSED)


class StderrLines:
    """The lines of a program's stderr: passes them on to `on_line`, as far as the limits allow."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self.on_line = on_line
        self.size = 0
        """The bytes so far, logged or not."""
        self._rest = b""
        self._count = 0

    def add(self, chunk: bytes) -> None:
        """Takes bytes; logs the lines that are complete with them."""
        room = MAX_SIZE - self.size
        self.size += len(chunk)
        if room < 0 or self._count > MAX_LINES:
            return
        *lines, self._rest = (self._rest + chunk[:room]).split(b"\n")
        if len(self._rest) > MAX_LINE:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            if self._count <= MAX_LINES:
                self._log(line)
        if self.size > MAX_SIZE and self._count <= MAX_LINES:
            self.on_line(f"(more than {MAX_SIZE} bytes on stderr: the rest is not logged)")

    def end(self) -> None:
        """Logs a last line without an end."""
        self._log(self._rest)

    def _log(self, line: bytes) -> None:
        for start in range(0, len(line), MAX_LINE):
            text = line[start : start + MAX_LINE].decode("utf-8", "backslashreplace").rstrip()
            if not text:
                continue
            self._count += 1
            if self._count <= MAX_LINES:
                self.on_line(text)
            elif self._count == MAX_LINES + 1:
                self.on_line(f"(more than {MAX_LINES} lines on stderr: the rest is not logged)")


class RunOutcome(StrEnum):
    """How a run has ended, for whoever waited for it."""

    DONE = "done"
    FAILED = "failed"
    LATE = "late"
    """Nobody waits any longer, and there is no result."""


DONE, FAILED, LATE = RunOutcome  # a global name is faster than an enumeration's attribute


Claim: TypeAlias = Callable[[Program, Callable[[Process], None], Callable[[str], None]], Process | None]
"""Takes the program, and what a Process takes as `on_end` and `on_line`."""


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
    times: defaultdict[RunOutcome, Histogram] = field(default_factory=lambda: defaultdict(Histogram))
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

    def __init__(self, loop: Loop, claim: Claim | None = None) -> None:
        """`claim` returns a process that stands by for a program, None if there is none."""
        self.loop = loop
        self.accounts: defaultdict[str, Account] = defaultdict(Account)
        """What has happened so far, by program."""
        self._claim = claim
        self._left: defaultdict[str, list[Process]] = defaultdict(list)
        """The processes that were left and not killed, by program, the oldest first."""

    def spawn(self, program: Program, on_exit: Callable[[Process], None], trace: Trace = UNTRACED) -> Process:
        """Spawns a program, or takes one that stands by; the caller writes the request with `feed`.

        `trace` is that of the event. One that stands by was started before, without it.

        `on_exit` is called when the process has exited, unless the process was left before. Raises OSError.
        """
        name = program.name

        def log_stderr(line: str) -> None:
            """Marks a line, for it may imitate the lines of the adapter. It may have secrets of conf.json."""
            extra = trace.extra_with(plugin=name, stream="stderr")
            printed.debug("%s: stderr: %s", trace.title(name), line, extra=extra)

        process = self._claim(program, on_exit, log_stderr) if self._claim is not None else None
        if process is None:
            if trace.parent and program.takes_trace:
                program = program._replace(environ={**program.environ, "TRACEPARENT": trace.parent})
            process = Process(self.loop, program, on_exit, log_stderr)
        process.trace = trace
        self.accounts[name].runs += 1
        return process

    def count_time(self, process: Process, outcome: RunOutcome) -> float:
        """Counts the time of a run that ends now; returns the time, in seconds."""
        seconds = self.loop.time() - process.started
        self.accounts[process.name].times[outcome].add(seconds)
        return seconds

    def let_work(self, process: Process) -> None:
        """Stops waiting for a process that has printed its result and works on."""
        log.info("%s: pid %d works on after its result", process.title, process.pid, extra=process.trace.extra)
        self._leave(process, lambda _: None, kill=False)

    def leave(self, process: Process, on_exit: Callable[[Process], object] = lambda _: None, *, kill: bool) -> None:
        """Gives a process without a result up: it is left to finish, or killed. `on_exit` is called when it exits."""
        fate = "killed" if kill else "left to finish"
        text = "%s: pid %d has no result in time: %s"
        log.warning(text, process.title, process.pid, fate, extra=process.trace.extra)
        self._leave(process, on_exit, kill=kill)

    def _leave(self, process: Process, on_exit: Callable[[Process], object], *, kill: bool) -> None:
        """Leaves a process alone, or kills it. If too many processes of the program are left, the oldest is killed."""
        process.leave(partial(self._on_exit_of_left, on_exit))
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

    def _on_exit_of_left(self, on_exit: Callable[[Process], object], process: Process) -> None:
        left = self._left[process.name]
        if process in left:
            left.remove(process)
        text = "%s: pid %d, which was left running, has ended: %s"
        log.info(text, process.title, process.pid, process.ending, extra=process.trace.extra)
        on_exit(process)

    def kill(self, process: Process) -> None:
        """Kills a process. Its exit is reported as any other."""
        self.accounts[process.name].killed += 1
        process.kill()
