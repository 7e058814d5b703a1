"""Scripts: the interpreter that the first line names, and why a program could not be started."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

FIRST_LINE = 256
"""Bytes of a script's first line that Linux reads."""


def first_line(path: str) -> list[str] | None:
    """Returns the words after `#!` in a script's first line, None for any other file. Raises OSError."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        return None  # opening a FIFO may block for ever
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # it may be a FIFO by now
        start = file.read(FIRST_LINE)
    line = start[2:].replace(b"\0", b"\n").split(b"\n")[0]  # Linux ends it at a NUL character, too
    words = line.replace(b"\t", b" ").split(b" ")  # a carriage return belongs to the name
    return [os.fsdecode(word) for word in words if word] if start.startswith(b"#!") else None


def start_error(path: str, error: OSError) -> OSError:
    """Returns the error for a program that could not be started. For a script, it names the missing interpreter."""
    with suppress(OSError):
        words = first_line(path)
        if error.errno == errno.ENOENT and words:
            return FileNotFoundError(errno.ENOENT, f"its interpreter {words[0]!r}: {error.strerror}")
        if error.errno == errno.ENOEXEC and words is None:
            text = f"{error.strerror}: neither a binary for this machine nor a script that begins with #!"
            return OSError(errno.ENOEXEC, text)
    return error
