"""Opens a directory of the adapter's own, after checking who can write to it.

A user who can write to the directory could make root run plugins, or make root write to other files. So the directory
is checked before a file in it is opened or made. The rules are stricter than for other files: an owner other than root
and the adapter's user is an error, and so is a world-writable directory, even with the sticky bit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from nri.text import printable
from v010_adapter.errors import ConfigError, reason_of
from v010_adapter.host.trust import Trust, foreign, off, strict, warn

MODE = 0o700
MODE_ABOVE = 0o755
"""The mode of the directories above it, where they are missing and are made."""


@contextmanager
def open_directory(directory: str, trust: Trust = strict, flags: int = 0) -> Iterator[int]:
    """Yields a descriptor (O_PATH) of a directory. Makes a missing directory. Raises ConfigError."""
    with _with_place(directory):
        _make(directory, trust, MODE)
        fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | flags)
    try:
        if trust is not off:
            with _with_place(directory):
                status = os.fstat(fd)
                _judge(directory, status)
                if status.st_mode & stat.S_ISVTX and status.st_mode & stat.S_IWGRP:  # `strict` does not warn about this
                    warn(f"{printable(directory)} is writable for group {status.st_gid}")
        yield fd
    finally:
        os.close(fd)


def fault_of_file(status: os.stat_result, trust: Trust = strict) -> str:
    """Returns why a file in such a directory must not be used; empty if it may be.

    Another user may have been able to write to the directory before.
    """
    if status.st_nlink > 1:
        return "has another hard link"
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    if trust is off:
        return ""
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "is writable for others"
    return next(foreign("", status, with_acl=False), "")


def short_path(fd: int, name: str = "") -> str:
    """Returns a short path of an open directory, or of a file in it: the path of a socket has 107 bytes at most."""
    return f"/proc/self/fd/{fd}/{name}"


def _make(directory: str, trust: Trust, mode: int) -> None:
    """Makes a directory if it is missing, and checks it; those above it first. Raises OSError, ConfigError."""
    if not os.path.lexists(directory):
        _make(os.path.dirname(directory), trust, MODE_ABOVE)
        with suppress(FileExistsError):  # another adapter starts
            os.mkdir(directory, mode)
    if reason := trust(directory, "/"):
        raise ConfigError(directory, reason)


def _judge(place: str, status: os.stat_result) -> None:
    reason = next(foreign(os.path.realpath(place), status), "")
    if not reason and status.st_mode & stat.S_IWOTH:
        reason = "is world-writable"
    if reason:
        raise ConfigError(place, reason)


@contextmanager
def _with_place(place: str) -> Iterator[None]:
    """Turns an OSError inside into a ConfigError with the place."""
    try:
        yield
    except OSError as error:
        raise ConfigError(place, reason_of(error)) from None
