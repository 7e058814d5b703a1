"""A program that is started before its request, and waits for it on stdin: it stands by."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Self

from adapter.loop import Loop
from adapter.process import Process, Program


class StandbyProcess(Process):
    """A running program that gets one request, or is killed. `started` becomes the moment of its event."""

    def __init__(
        self, loop: Loop, program: Program, on_end: Callable[[Self], None], on_output: Callable[[Self], None]
    ) -> None:
        """Starts a program. Until `serve`, `on_end` is called when it ends, `on_output` when it writes anything.

        Raises OSError when the program cannot be started.
        """
        super().__init__(loop, program, on_end, lambda _: None)
        self.unread = ""
        """How the program has ended without reading its request, which a second start has got then."""
        self._program = program
        self._whole: bytes | None = None
        """The request, once there is one."""
        self._child_in, *self._child_ends = self._child_ends
        """The program's end of stdin: it tells what the program has not read."""
        self._part_pipes()
        for name in ("_out", "_err"):
            self._watch_pipe(getattr(self, name), partial(self._read_early, name, on_output))

    def _read_early(self, name: str, on_output: Callable[[Self], None]) -> None:
        if self._read(name):  # else the program has closed the pipe: most likely it ends
            on_output(self)

    @property
    def is_fit(self) -> bool:
        """Whether the program has neither ended nor written anything, nor closed its stdout.

        Its stderr may be closed: many a script sends that to a file.
        """
        events = select.poll()
        for fd in (self._pidfd, self._out, self._err):
            if fd >= 0:
                events.register(fd, select.POLLIN)
        return self._out >= 0 and not events.poll(0)

    def serve(self, name: str, on_end: Callable[[Self], None], on_line: Callable[[str], None]) -> None:
        """Ends the wait; `feed` must follow at once, as after a start. The log calls the program by this name.

        If the program ends before it reads a byte, the request goes to a second start.
        """
        self.name = name
        self.started = self._loop.time()
        self._stop_waiting(on_end, on_line)

    def feed(self, request: bytes) -> None:
        """Writes the request; see `Process.feed`."""
        self._whole = request
        super().feed(request)

    def discard(self, on_end: Callable[[Self], None] = lambda _: None) -> None:
        """Kills the program, and what it has started: none of them must see an empty stdin."""
        self._kill_group()
        self._stop_waiting(on_end, lambda _: None)
        self.kill()

    def leave(self) -> None:
        """Stops waiting for the program; see `Process.leave`. There is no second start."""
        super().leave()
        self._close("_child_in")

    def kill(self) -> None:
        """Kills the process; see `Process.kill`. There is no second start."""
        super().kill()
        self._close("_child_in")

    def _stop_waiting(self, on_end: Callable[[Self], None], on_line: Callable[[str], None]) -> None:
        self._on_end, self._on_line = on_end, on_line
        for fd in (self._out, self._err):
            self._loop.unwatch(fd)

    def _kill_group(self) -> None:
        """Kills all processes of the program; not after the exit: its pid may be used again."""
        if self.status is None:
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)

    def _exited(self) -> None:
        if self._whole is None:
            self._kill_group()
        elif self._takes_back(self._whole):
            self._start_again(self._whole)
            return
        super()._exited()

    def _takes_back(self, request: bytes) -> bool:
        """Whether nobody has read a byte of the request, nor can do so from now on. The program has ended."""
        if self._child_in < 0 or not (written := len(request) - len(self._request)):
            return False
        unread = fcntl.ioctl(self._child_in, termios.FIONREAD, bytes(4))
        if int.from_bytes(unread, sys.byteorder) < written:
            return False
        # What the program has left behind may have its stdin, and shares the mode of our own descriptor.
        with suppress(OSError):
            reader = os.open(f"/proc/self/fd/{self._child_in}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return len(os.read(reader, written)) == written
            finally:
                os.close(reader)
        return False

    def _start_again(self: Self, request: bytes) -> None:
        """Gives the request, which nobody has seen, to a second start of the program."""
        self._reap()
        self.unread = self.ending
        self._close_all()
        self._stdout = self._line = b""
        try:
            self._child_ends = self._spawn(self._program)
        except OSError as error:
            self._on_line(f"(the program cannot be started: {error.strerror})")
            self._on_end(self)
        else:
            self.status = None
            self.feed(request)

    def _close_all(self) -> None:
        super()._close_all()
        self._close("_child_in")
