"""Syslog for what a plugin prints and logs: one record is one line, and no line blocks.

Text from pods cannot look like another record. While lines cannot be written (no syslog, a full disk, a pipe that
nobody reads), the last lines are kept and written later.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING

from nri.text import printable

if TYPE_CHECKING:
    import socket

SYSLOG = "/dev/log"
BACKLOG = 1 << 20
"""Maximum bytes of lines that are kept until they can be written."""
MAX_LINE = 8 << 10
"""Maximum bytes of a datagram for syslog. The kernel refuses datagrams of about 100 KiB."""
CUT = "…"
INDENT = "    "
"""The beginning of each line of a traceback, so that no line of an exception's text looks like a record."""
_DAEMON = 3 << 3
_PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class PlainFormatter(logging.Formatter):
    """Formats any record as text. A record that cannot be formatted is replaced by a record that says so."""

    def __init__(self, limit: int, *, head: bool) -> None:
        """Takes the maximum bytes of a line (0: no maximum). With `head`, a line begins with time and level."""
        super().__init__()
        self._limit = limit
        self._head = head

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as one line; each line of a traceback follows as a line."""
        try:
            return self._line(record)
        except Exception as error:  # a fault of the log must not fail an event
            message = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
            fault = f"{type(error).__name__} at {record.filename}:{record.lineno}"
            text = f"a record cannot be written ({fault}): {message}"
            return self._line(logging.makeLogRecord({"levelname": record.levelname, "msg": text}))

    def _line(self, record: logging.LogRecord) -> str:
        head = f"{self.formatTime(record)} {record.levelname} " if self._head else ""
        if trace := getattr(record, "trace_id", ""):  # at the begin, where nothing is cut
            head += f"trace_id={printable(str(trace))} "
        message = self._message(record)
        lines = [head + printable(message[: self._limit + 1] if self._limit else message)]
        if record.exc_info:
            lines += [INDENT + printable(line) for line in self.formatException(record.exc_info).split("\n")]
        return "\n".join(map(self._cut, lines))

    def _message(self, record: logging.LogRecord) -> str:
        return str(record.msg) % record.args if record.args else str(record.msg)

    def _cut(self, line: str) -> str:
        text = line.encode()
        if not self._limit or len(text) <= self._limit:
            return line
        return text[: self._limit - len(CUT.encode())].decode("utf-8", "ignore") + CUT


class NonBlockingHandler(logging.Handler, ABC):
    """Keeps lines until they can be written without blocking. A subclass writes a line."""

    limit = 0
    """Maximum bytes of a line; 0: no maximum."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(PlainFormatter(self.limit, head=False))
        self._backlog: deque[bytes] = deque()
        self._size = 0

    @property
    def pending(self) -> int:
        """The number of lines that are not written yet."""
        return len(self._backlog)

    def emit(self, record: logging.LogRecord) -> None:
        """Queues a record's lines and writes as many lines as possible."""
        for text in self.format(record).split("\n"):
            if text:
                line = self._line(record.levelno, text)
                self._backlog.append(line)
                self._size += len(line)
        self.flush()
        while self._size > BACKLOG and len(self._backlog) > 1:
            self._size -= len(self._backlog[1])
            del self._backlog[1]  # not the first: a part of it may be written

    def flush(self) -> None:
        """Writes as many lines as possible without blocking."""
        with contextlib.suppress(BlockingIOError):
            while self._backlog:
                line = self._backlog[0]
                written = self._write(line)
                self._size -= written
                if written < len(line):
                    self._backlog[0] = line[written:]
                else:
                    self._backlog.popleft()

    @abstractmethod
    def _line(self, level: int, text: str) -> bytes:
        """Returns the bytes that are written for a line."""

    @abstractmethod
    def _write(self, line: bytes) -> int:
        """Writes a line or its beginning; returns the number of bytes that are written, or must not be tried again.

        Raises BlockingIOError when the line cannot be written now.
        """


class Syslog(NonBlockingHandler):
    """Writes to syslog's socket.

    The standard library's SysLogHandler needs the socket to exist, blocks on a stuck reader, and costs half a megabyte.
    """

    limit = MAX_LINE - 64  # room for the prefix that `_line` adds

    def __init__(self, path: str, tag: str) -> None:
        """Takes the path of syslog's datagram socket, and the program's name in each line. The first line connects."""
        super().__init__()
        self._path = path
        self._tag = tag
        self._socket: socket.socket | None = None

    def _line(self, level: int, text: str) -> bytes:
        priority = _DAEMON | _PRIORITIES.get(level, 6)
        return f"<{priority}>{self._tag}[{os.getpid()}]: {text}".encode()

    def _write(self, line: bytes) -> int:
        import socket  # 4 ms: not before the registration  # noqa: PLC0415

        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
                self._socket.connect(self._path)
            self._socket.send(line)
        except BlockingIOError:
            raise
        except OSError as error:  # no syslog, or syslog was restarted
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            if error.errno != errno.EMSGSIZE:
                raise BlockingIOError from None
        return len(line)


def stderr_is_null() -> bool:
    """Whether stderr is /dev/null or closed."""
    try:
        return os.path.samestat(os.fstat(2), os.stat(os.devnull))
    except OSError:
        return True
