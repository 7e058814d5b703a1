"""Whether a file could be started as a program."""

from __future__ import annotations

import os

FIRST_LINE = 256
"""Bytes of a script's first line that Linux reads."""


def fault(path: str, root: str = "/") -> str:
    """Returns why a file below the directory `root` cannot be started as a program, empty if it can."""
    file = under(root, path)
    if not os.path.exists(file):
        return "is not there"
    if not os.path.isfile(file) or not os.stat(file).st_mode & 0o111:
        return "is not an executable file"
    try:
        with open(file, "rb") as opened:
            start = opened.read(FIRST_LINE)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if start.startswith(b"#!"):
        words = start[2:].split(b"\n")[0].split()
        interpreter = os.fsdecode(words[0]) if words else ""
        return "" if os.path.isfile(under(root, interpreter)) else f"its interpreter {interpreter!r} is not there"
    return "" if start.startswith(b"\x7fELF") else "is neither a binary nor a script that begins with #!"


def under(root: str, path: str) -> str:
    """Returns where an absolute path of the node is if the node's files are below `root`."""
    return os.path.join(root, path.lstrip("/")) if path.startswith("/") else path
