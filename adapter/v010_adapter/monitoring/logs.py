"""The adapter's log: to stderr, or to syslog if stderr is /dev/null, as in plugins that runtimes launch."""

from __future__ import annotations

import json
import logging
import os
import select
import time
from typing import Any

from nri.syslog import CUT, SYSLOG, NonBlockingHandler, PlainFormatter, Syslog, stderr_is_null
from v010_adapter.monitoring import sanitize
from v010_adapter.settings import LogSettings

log = logging.getLogger(__name__)

TAG = "v010-adapter"
RUNS = "v010_adapter.runs"
"""The logger of one line for each run."""
logging.getLogger(RUNS).disabled = True  # until `setup`


def setup(settings: LogSettings, *, syslog: str = SYSLOG) -> None:
    """Sends all log lines to the target that the settings name. Keeps the lines that are not written yet."""
    to_syslog = settings.target == "syslog" or (settings.target == "auto" and stderr_is_null())
    root = logging.getLogger()
    same = [handler for handler in root.handlers if isinstance(handler, Syslog if to_syslog else Stderr)]
    handler = same[0] if same else Syslog(syslog, TAG) if to_syslog else Stderr()
    as_json = settings.format == "json"
    handler.setFormatter(LineFormatter(handler.limit, as_json=as_json, secrets=settings.secrets, head=not to_syslog))
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    logging.getLogger(RUNS).disabled = not settings.runs


def flush() -> int:
    """Writes as many kept lines as possible without blocking; returns the number of written lines."""
    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler, NonBlockingHandler)]
    before = sum(handler.pending for handler in handlers)
    for handler in handlers:
        handler.flush()
    return before - sum(handler.pending for handler in handlers)


class LineFormatter(PlainFormatter):
    """Formats any record as text or as JSON.

    An argument or a value in `fields` may be `bytes`: this is JSON text, in which the values of variables are hidden.
    """

    def __init__(self, limit: int = 0, *, as_json: bool = False, secrets: bool = False, head: bool = True) -> None:
        """Takes the maximum bytes of a line (0: no maximum), and whether values of variables are shown.

        With `head`, a line of text begins with time and level. JSON always has both.
        """
        super().__init__(limit, head=head)
        self._as_json = as_json
        self._secrets = secrets

    def _line(self, record: logging.LogRecord) -> str:
        return self._json(record) if self._as_json else super()._line(record)

    def _json(self, record: logging.LogRecord) -> str:
        """Returns an object with `time`, `level`, `message`, `trace_id`, the record's `fields`, and `traceback`."""
        utc = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        members = {
            "time": f"{utc}.{int(record.msecs):03}Z",  # RFC 3339
            "level": record.levelname.lower(),
            "message": self._message(record),
        }
        if trace := getattr(record, "trace_id", ""):
            members["trace_id"] = trace
        members |= {key: self._value(value) for key, value in getattr(record, "fields", {}).items()}
        if record.exc_info:
            members["traceback"] = self.formatException(record.exc_info)
        line = json.dumps(members, allow_nan=False)
        room = self._limit
        while len(line) > self._limit > 0:
            room //= 2
            members = {key: _shortened(value, room) for key, value in members.items()}
            line = json.dumps(members)
        return line

    def _message(self, record: logging.LogRecord) -> str:
        arguments = record.args
        if isinstance(arguments, tuple):
            arguments = tuple(json.dumps(self._value(one)) if isinstance(one, bytes) else one for one in arguments)
        return str(record.msg) % arguments if arguments else str(record.msg)

    def _value(self, value: Any) -> Any:
        return sanitize.for_log(value, secrets=self._secrets) if isinstance(value, bytes) else value


def _shortened(value: Any, room: int) -> Any:
    """Returns a value of at most `room` characters. A longer value becomes a text, which is cut."""
    text = value if isinstance(value, str) else json.dumps(value)
    return value if len(text) <= room else text[:room] + CUT


class Stderr(NonBlockingHandler):
    """Writes to stderr, which may be a pipe that nobody reads.

    The descriptor stays in blocking mode: other processes may share it. poll(2) tells whether a write blocks.
    """

    def __init__(self) -> None:
        super().__init__()
        self._poll = select.poll()
        self._poll.register(2, select.POLLOUT)

    def _line(self, level: int, text: str) -> bytes:
        return f"{text}\n".encode()

    def _write(self, line: bytes) -> int:
        """Writes at most PIPE_BUF bytes: as many fit into a pipe that poll calls writable (pipe(7))."""
        if not self._poll.poll(0):
            raise BlockingIOError
        try:
            return os.write(2, line[: select.PIPE_BUF])
        except BrokenPipeError:  # the reader has closed the pipe: the line is lost
            return len(line)
        except OSError:  # the disk is full, for example
            raise BlockingIOError from None
