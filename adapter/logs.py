"""Where log lines go: stderr, or syslog when stderr is /dev/null, as it is for plugins that a runtime launched.

Nothing here ever waits. Where there is no syslog yet, or nobody reads, the last lines are kept and written later.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import select
from collections import deque
from typing import TYPE_CHECKING, Any

from adapter.settings import LogSettings

if TYPE_CHECKING:
    import socket

log = logging.getLogger(__name__)

SYSLOG = "/dev/log"
BACKLOG = 1000
"""Lines that are kept while nobody takes them."""
MAX_LINE = 8 << 10
"""Bytes of a line for syslog; a datagram of some 100 KiB would be refused for good."""

_DAEMON = 3 << 3
_PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}


class Patient(logging.Handler):
    """Keeps lines until they can be written without waiting; a subclass says how one is written."""

    def __init__(self) -> None:
        """Starts with nothing kept."""
        super().__init__()
        self._backlog: deque[bytes] = deque(maxlen=BACKLOG)

    @property
    def pending(self) -> int:
        """The lines that wait: `flush` is to be called again some time."""
        return len(self._backlog)

    def emit(self, record: logging.LogRecord) -> None:
        """Queues a record's lines and writes what can be written."""
        for line in self.format(record).split("\n"):  # and nothing else: JSON may have U+2028 in it
            if line:
                self._backlog.append(self._line(record.levelno, line))
        self.flush()

    def flush(self) -> None:
        """Writes as many of the kept lines as are taken now."""
        with contextlib.suppress(BlockingIOError):
            while self._backlog:
                self._write_first()

    def inherit(self, other: Patient) -> None:
        """Takes over the lines that another handler could not write yet."""
        self._backlog.extend(other._backlog)

    def _line(self, level: int, text: str) -> bytes:
        raise NotImplementedError

    def _write_first(self) -> None:
        """Writes the first of the lines and drops it. Raises BlockingIOError when there would be a wait."""
        raise NotImplementedError


class Syslog(Patient):
    """Writes to syslog's socket as long as it takes lines without waiting.

    Not the standard library's SysLogHandler: that one needs the socket to be there, waits for a reader that is
    stuck, and imports half a megabyte.
    """

    def __init__(self, path: str = SYSLOG, ident: str = "v010-adapter") -> None:
        """Takes the path of syslog's datagram socket and the name to log under. Connects when there is a line."""
        super().__init__()
        self._path = path
        self._ident = ident
        self._socket: socket.socket | None = None

    def _line(self, level: int, text: str) -> bytes:
        priority = _DAEMON | _PRIORITIES.get(level, 6)
        line = f"<{priority}>{self._ident}[{os.getpid()}]: {text}"
        return line.encode("utf-8", "backslashreplace")[:MAX_LINE]

    def _write_first(self) -> None:
        try:
            self._connected().send(self._backlog[0])
        except BlockingIOError:
            raise
        except OSError as error:  # not there, not there any more, or restarted
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            if error.errno != errno.EMSGSIZE:
                raise BlockingIOError from None
        self._backlog.popleft()

    def _connected(self) -> socket.socket:
        if self._socket is None:
            import socket  # 4 ms, when the runtime does not wait any more  # noqa: PLC0415

            new = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            try:
                new.connect(self._path)
            except OSError:
                new.close()
                raise
            self._socket = new
        return self._socket


class Stderr(Patient):
    """Writes to stderr as long as it takes something without waiting: it may be a pipe that nobody reads.

    The descriptor is left as it is, for others may have it too.
    """

    def __init__(self) -> None:
        """Takes what descriptor 2 is."""
        super().__init__()
        self._poll = select.poll()
        self._poll.register(2, select.POLLOUT)

    def _line(self, level: int, text: str) -> bytes:
        return f"{text}\n".encode("utf-8", "backslashreplace")

    def _write_first(self) -> None:
        """Writes a part of the line that fits where there is any room at all: pipe(7), PIPE_BUF."""
        if not self._poll.poll(0):
            raise BlockingIOError
        line = self._backlog.popleft()
        try:
            written = os.write(2, line[: select.PIPE_BUF])
        except OSError:  # nobody will ever read it
            return
        if written < len(line):
            self._backlog.appendleft(line[written:])


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `message`, and what a record's `fields` say."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as JSON."""
        data: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        data |= getattr(record, "fields", {})
        if record.exc_info:
            data["traceback"] = self.formatException(record.exc_info)
        return json.dumps(data, ensure_ascii=False)


def setup(settings: LogSettings, *, syslog: str = SYSLOG) -> None:
    """Sends all log lines from now on where the settings say."""
    handler: Patient
    to_syslog = settings.target == "syslog" or (settings.target == "auto" and stderr_is_null())
    handler = Syslog(syslog) if to_syslog else Stderr()
    if settings.format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(message)s" if to_syslog else "%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    for old in root.handlers[:]:
        if isinstance(old, Patient) and type(old) is type(handler):
            handler.inherit(old)
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(settings.level.upper())


def flush() -> int:
    """Offers the lines again that were not taken before; returns how many have been taken."""
    taken = 0
    for handler in logging.getLogger().handlers:
        if isinstance(handler, Patient):
            taken += handler.pending
            handler.flush()
            taken -= handler.pending
    return taken


def stderr_is_null() -> bool:
    """Whether what is written to stderr is lost."""
    try:
        return os.path.samestat(os.fstat(2), os.stat(os.devnull))
    except OSError:
        return True
