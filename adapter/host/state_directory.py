"""Opens the files of a state directory, after checking who can write to them.

A user who can write to one of these files could make root run plugins, or make root write to other files. So the
directory is checked before anything in it is opened or made, links in it are not followed, and each open file is
checked too. The rules are stricter than for other files: another owner is an error, and so is a world-writable
directory, even with the sticky bit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from adapter.errors import ConfigError, reason_of
from adapter.host.trust import Trust, foreign, off, strict

MODE = 0o700
MODE_ABOVE = 0o755
"""The mode of missing directories above the state directory."""


Identity: TypeAlias = tuple[int, int]
"""A file's device and inode. No other file has the same identity as long as this file is open."""


def identity(status: os.stat_result) -> Identity:
    """Returns the identity of the file with this status."""
    return status.st_dev, status.st_ino


def open_file(directory: str, name: str, flags: int, trust: Trust = strict) -> tuple[int, Identity]:
    """Opens a regular file; returns its descriptor and its identity. A new file gets the mode 0600.

    `flags` must not have O_TRUNC, because the file is checked after it has been opened. Raises ConfigError.
    """
    place = os.path.join(directory, name)
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open_directory(directory, trust) as at, _with_place(place):
        fd = os.open(name, flags, 0o600, dir_fd=at)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError(place, "not a regular file")
            if status.st_nlink > 1:
                raise ConfigError(place, "a hard link: the file has another name")
            if trust is not off:
                _judge(place, status, stat.S_IWGRP | stat.S_IWOTH)  # the adapter makes its files for itself alone
        except (OSError, ConfigError):
            os.close(fd)
            raise
        return fd, identity(status)


@contextmanager
def open_directory(directory: str, trust: Trust = strict) -> Iterator[int]:
    """Yields a descriptor (O_PATH) of a state directory. Makes a missing directory. Raises ConfigError."""
    with _with_place(directory):
        _make(directory, trust, MODE)
        fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if trust is not off:
            with _with_place(directory):
                _judge(directory, os.fstat(fd), stat.S_IWOTH)
        yield fd
    finally:
        os.close(fd)


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


def _judge(place: str, status: os.stat_result, forbidden: int) -> None:
    reason = next(foreign(os.path.realpath(place), status), "")
    if not reason and status.st_mode & forbidden:
        reason = "is world-writable" if status.st_mode & stat.S_IWOTH else f"is writable for group {status.st_gid}"
    if reason:
        raise ConfigError(place, reason)


@contextmanager
def _with_place(place: str) -> Iterator[None]:
    """Turns an OSError inside into a ConfigError with the place."""
    try:
        yield
    except OSError as error:
        raise ConfigError(place, reason_of(error)) from None
