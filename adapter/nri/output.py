"""What a plugin prints where nobody sees it: a runtime launches plugins with /dev/null as stdout and stderr."""

from __future__ import annotations

import atexit
import io
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING

from nri.transport import identity

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from nri.syslog import NonBlockingHandler

LAST_WAIT, STEP = 1.0, 0.01
"""Seconds that a busy syslog is waited for, and between two attempts."""


def output_to_syslog(name: str = "", idx: str = "") -> None:
    """Sends what this program prints, logs and fails with to syslog, if stderr is /dev/null or closed.

    `run` does that; a program that awaits `serve` calls this first. The tag of the lines is `NN-NAME`; for `name` and
    `idx` see `identity`. Lines of stdout have the priority `info`, lines of stderr `warning`.
    """
    from nri.syslog import SYSLOG, Syslog, stderr_is_null  # only for a plugin that a runtime has launched  # noqa: PLC0415

    if not stderr_is_null():
        return
    own = identity(name, idx)
    syslog = Syslog(SYSLOG, f"{own.idx}-{own.name}")
    atexit.register(_write_rest, syslog)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _stream(syslog, logging.INFO, 1), _stream(syslog, logging.WARNING, 2)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream in before:
            handler.setStream(sys.stderr)


def _stream(syslog: NonBlockingHandler, level: int, fd: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(_Lines(syslog, level, fd), "utf-8", "backslashreplace", write_through=True)


def _write_rest(syslog: NonBlockingHandler) -> None:
    """Writes the lines that syslog was too busy to take, such as the end of a traceback."""
    end = time.monotonic() + LAST_WAIT
    while syslog.pending and time.monotonic() < end:
        time.sleep(STEP)
        syslog.acquire()
        try:
            syslog.flush()
        finally:
            syslog.release()


class _Lines(io.RawIOBase):
    name = "syslog"
    LONGEST = 8 << 10
    """Bytes after which a line without an end is a record."""

    def __init__(self, handler: NonBlockingHandler, level: int, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._handler = handler
        self._level = level
        self._rest = b""
        self._writing: threading.Thread | None = None

    def fileno(self) -> int:
        """Returns the descriptor for programs that get this stream: /dev/null."""
        return self._fd

    def writable(self) -> bool:
        """Whether bytes can be written: always."""
        return True

    def write(self, data: ReadableBuffer) -> int:
        """Takes bytes; the end of a line makes a record."""
        text = bytes(data)
        *lines, self._rest = (self._rest + text).split(b"\n")
        if len(self._rest) > self.LONGEST:
            lines, self._rest = [*lines, self._rest], b""
        for line in filter(None, lines):
            message = line.decode("utf-8", "backslashreplace")
            self._handler.handle(logging.makeLogRecord({"levelno": self._level, "msg": message}))
        if self._handler.pending and not (self._writing and self._writing.is_alive()):
            self._writing = threading.Thread(target=_write_rest, args=(self._handler,), daemon=True)
            self._writing.start()
        return len(text)
