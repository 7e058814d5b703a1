"""Formats log records. A record is one line, so text from plugins and pods cannot look like another record."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from adapter.base import sanitize

CUT = "…"
"""The end of a text that was cut."""
INDENT = "    "
"""The beginning of each line of a traceback, so that no line of an exception's text looks like a record."""


class _Formatter(logging.Formatter):
    """Formats any record. A record that cannot be formatted is replaced by a record that says so.

    An argument or a value in `fields` may be `bytes`: this is JSON text, in which the values of variables are hidden.
    """

    def __init__(self, limit: int = 0, *, secrets: bool = False, head: bool = True) -> None:
        """Takes the maximum bytes of a line (0: no maximum), and whether values of variables are shown.

        With `head`, a line of text begins with time and level. JSON always has both.
        """
        super().__init__()
        self._limit = limit
        self._secrets = secrets
        self._head = head

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record as one line; in text, each line of a traceback follows as a line."""
        try:
            return self._format(record)
        except Exception as error:  # a fault of the log must not fail an event
            message = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
            text = (
                f"a record cannot be written ({type(error).__name__} at {record.filename}:{record.lineno}): {message}"
            )
            return self._format(
                logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, text, None, None)
            )

    def _format(self, record: logging.LogRecord) -> str:
        raise NotImplementedError

    def _message(self, record: logging.LogRecord) -> str:
        arguments = record.args
        if isinstance(arguments, tuple):
            arguments = tuple(json.dumps(self._value(one)) if isinstance(one, bytes) else one for one in arguments)
        return str(record.msg) % arguments if arguments else str(record.msg)

    def _value(self, value: Any) -> Any:
        return sanitize.for_log(value, secrets=self._secrets) if isinstance(value, bytes) else value


class TextFormatter(_Formatter):
    """Formats a record as its message, after time and level if `head` is set."""

    def _format(self, record: logging.LogRecord) -> str:
        head = f"{self.formatTime(record)} {record.levelname} " if self._head else ""
        lines = [head + sanitize.printable(self._message(record))]
        if record.exc_info:
            lines += [INDENT + sanitize.printable(line) for line in self.formatException(record.exc_info).split("\n")]
        return "\n".join(map(self._cut, lines))

    def _cut(self, line: str) -> str:
        text = line.encode()
        if not self._limit or len(text) <= self._limit:
            return line
        return text[: self._limit - len(CUT.encode())].decode("utf-8", "ignore") + CUT


class JsonFormatter(_Formatter):
    """Formats a record as a JSON object: `time`, `level`, `message`, the record's `fields`, and `traceback`."""

    def _format(self, record: logging.LogRecord) -> str:
        utc = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        members = {
            "time": f"{utc}.{int(record.msecs):03}Z",  # RFC 3339
            "level": record.levelname.lower(),
            "message": self._message(record),
        }
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


def _shortened(value: Any, room: int) -> Any:
    """Returns a value of at most `room` characters. A longer value becomes a text, which is cut."""
    text = value if isinstance(value, str) else json.dumps(value)
    return value if len(text) <= room else text[:room] + CUT
