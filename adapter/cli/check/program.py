"""Checks whether a file could be started as a program."""

from __future__ import annotations

import os

from adapter.host import paths
from adapter.host.paths import in_root


def fault(path: str, root: str = "/") -> str:
    """Returns why a file below the directory `root` cannot be started as a program, empty if it can."""
    file = in_root(root, path)
    if not os.path.exists(file):
        return "does not exist"
    if not os.path.isfile(file) or not os.stat(file).st_mode & 0o111:
        return "is not an executable file"
    try:
        interpreter = paths.interpreter(file)
        with open(file, "rb") as opened:
            is_binary = opened.read(4) == b"\x7fELF"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if interpreter is not None:
        is_there = os.path.isfile(in_root(root, interpreter))
        return "" if is_there else f"needs the interpreter {interpreter!r}, which does not exist"
    return "" if is_binary else "is neither a binary nor a script that begins with #!"
