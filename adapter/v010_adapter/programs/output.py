"""What of a program's output stands in errors and log lines."""

from __future__ import annotations

import re

from v010_adapter.programs.process import Process

_SHOWN = 200
_ENV = re.compile(rb"""\\?["']env\\?["']""", re.IGNORECASE)


def quoted(output: bytes) -> str:
    """Returns the beginning of a program's output for a log line or an error.

    It ends before a key `env`, which the values of variables follow: plugins often print an edited spec.
    """
    shown = _ENV.split(output[:_SHOWN], maxsplit=1)[0]
    text = shown.decode("utf-8", "backslashreplace")
    return f"{text!r}{' …' if len(output) > len(shown) else ''}" if output else "<empty>"


def complaint(process: Process) -> str:
    """Returns the last line that a failed program has written to stderr, for its error; empty if there is none."""
    return f", stderr: {quoted(process.last_line.encode())}" if process.last_line else ""
