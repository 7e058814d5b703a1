"""One run of a program, a legacy plugin's or a precreate hook's: the only place that executes anything.

It gets its request on stdin and prints its result on stdout. What it does besides (not reading, not ending, leaving
children behind that hold its pipes) must cost nobody but itself.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence

from adapter.loop import WRITE, Loop, Timer

MAX_STDOUT = 1 << 20
"""Bytes of a result; one that is longer is a failure."""
MAX_STDERR = 64 << 10
"""Bytes of a run's stderr that are logged."""
MAX_LINE = 4 << 10
"""Bytes after which a line of stderr is broken."""
PATIENCE = 0.02
"""Seconds after which a program that still runs is listened to."""
_CHUNK = 64 << 10

DEFAULT_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


class Process:
    """A running program. `on_end` is called once, when it has exited and what it printed has been read."""

    def __init__(
        self,
        loop: Loop,
        path: str,
        argv: tuple[str, ...],
        environ: Mapping[str, str],
        on_end: Callable[[Process], None],
        on_line: Callable[[str], None],
    ) -> None:
        """Starts the program at `path`, to be fed. `on_line` gets each line of its stderr.

        Raises OSError when it cannot be started.
        """
        self.name = argv[0]
        self.started = loop.time()
        self.status: int | None = None
        """None while it runs, then its exit code, or minus the signal that killed it."""
        self._loop = loop
        self._on_end = on_end
        self._on_line = on_line
        self._stdout = b""
        self._line = b""
        self._logged = 0
        self._request = memoryview(b"")
        self._patience: Timer | None = None
        self._child_ends = self._spawn(path, argv, environ)

    def feed(self, request: bytes) -> None:
        """Gives it its request and closes its stdin behind it. To be called once and soon: only then it is watched."""
        self._request = memoryview(request)
        os.set_blocking(self._in, False)
        if not self._write():
            self._loop.watch(self._in, self._write, WRITE)
        self._watch()

    def _watch(self) -> None:
        """What can wait until the program has something to do."""
        for fd in self._child_ends:
            os.close(fd)
        for fd in (self._out, self._err):
            os.set_blocking(fd, False)  # only our ends: the program finds ordinary pipes
        self._loop.watch(self._pidfd, self._exited)
        # Most have ended before their pipes need a look, and each look costs an event that somebody waits for.
        self._patience = self._loop.call_at(self.started + PATIENCE, self._watch_pipes)

    @property
    def stdout(self) -> bytes:
        """What it has printed so far, at most a little over MAX_STDOUT bytes."""
        if self.status is None:
            self._drain(self._read_stdout)
        return self._stdout

    @property
    def too_long(self) -> bool:
        """Whether it has printed more than a result may have."""
        return len(self._stdout) > MAX_STDOUT

    @property
    def ending(self) -> str:
        """How it ended, in the shell's words."""
        if self.status is None:
            return "still running"
        return f"exit code {self.status}" if self.status >= 0 else f"killed by signal {-self.status}"

    def kill(self) -> None:
        """Kills the process, never its group. Harmless once it has ended."""
        if self.status is None:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _spawn(self, path: str, argv: tuple[str, ...], environ: Mapping[str, str]) -> Sequence[int]:
        """Starts the program; returns the descriptors that are its own."""
        fds: list[int] = []
        try:
            for _ in range(3):
                fds += os.pipe()
            child_in, self._in, self._out, child_out, self._err, child_err = fds
            actions = [(os.POSIX_SPAWN_DUP2, child, fd) for fd, child in enumerate((child_in, child_out, child_err))]
            self.pid = os.posix_spawn(
                path,
                argv,
                environ,
                file_actions=actions,
                setsigmask=(),
                setsigdef=DEFAULT_SIGNALS,
            )
            self._pidfd = _pidfd(self.pid)
        except OSError:
            for fd in fds:
                os.close(fd)
            raise
        return child_in, child_out, child_err

    def _watch_pipes(self) -> None:
        self._patience = None
        for fd, read in ((self._out, self._read_stdout), (self._err, self._read_stderr)):
            if fd >= 0:
                self._loop.watch(fd, read)

    def _write(self) -> bool:
        """Writes what the pipe takes of the request; returns whether that was all.

        Not to read it is the program's own affair.
        """
        try:
            written = os.write(self._in, self._request)
        except BlockingIOError:
            return False
        except OSError:  # the program has closed its stdin, or has ended
            written = len(self._request)
        self._request = self._request[written:]
        if self._request:
            return False
        self._close("_in")
        return True

    def _read_stdout(self) -> int:
        chunk = self._read("_out")
        if not self.too_long:
            self._stdout += chunk
        return len(chunk)

    def _read_stderr(self) -> int:
        chunk = self._read("_err")
        if chunk:
            self._log(chunk)
        return len(chunk)

    def _read(self, name: str) -> bytes:
        """Returns what can be read now; closes the pipe at its end."""
        fd: int = getattr(self, name)
        if fd < 0:
            return b""
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:
            return b""
        if not chunk:
            self._close(name)
        return chunk

    def _log(self, chunk: bytes) -> None:
        room = MAX_STDERR - self._logged
        self._logged += len(chunk)
        if room < 0:
            return
        *lines, self._line = (self._line + chunk[:room]).split(b"\n")
        if len(self._line) > MAX_LINE:
            lines.append(self._line)
            self._line = b""
        for line in lines:
            self._say(line)
        if self._logged > MAX_STDERR:
            self._on_line(f"(more than {MAX_STDERR} bytes on stderr: the rest is not logged)")

    def _say(self, line: bytes) -> None:
        for start in range(0, len(line), MAX_LINE):
            text = line[start : start + MAX_LINE].decode("utf-8", "backslashreplace").rstrip()
            if text:
                self._on_line(text)

    def _exited(self) -> None:
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if self._patience is not None:
            self._patience.cancel()
        # What is in the pipes now is its own; who else holds them open is not waited for.
        self._drain(self._read_stdout)
        self._drain(self._read_stderr)
        self._say(self._line)
        try:
            self._on_end(self)  # before the clearing up, for somebody waits for it
        finally:
            for name in ("_pidfd", "_in", "_out", "_err"):
                self._close(name)

    def _drain(self, read: Callable[[], int]) -> None:
        """Reads what a pipe holds and no more: a child left behind may go on writing."""
        for _ in range(MAX_STDOUT // _CHUNK):
            if read() < _CHUNK:
                return

    def _close(self, name: str) -> None:
        fd: int = getattr(self, name)
        if fd >= 0:
            self._loop.unwatch(fd)
            os.close(fd)
            setattr(self, name, -1)


def _pidfd(pid: int) -> int:
    """Returns a descriptor of our child; a child that cannot be watched is not left alone."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
