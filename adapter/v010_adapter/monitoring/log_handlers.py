"""The daemon's log lines, of text or JSON, and the handler that writes them to stderr without blocking."""

from __future__ import annotations

import json
import logging
import os
import select
import time
from typing import Any

from nri.syslog import CUT, NonBlockingHandler, PlainFormatter
from v010_adapter.monitoring import sanitize


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
