"""Locks of bytes of a file. A lock belongs to an open file (F_OFD_SETLK), so it ends with its process."""

from __future__ import annotations

import errno
import fcntl
import os
import struct

_FLOCK = "hhqqi0q"
"""The C structure flock of 64-bit machines: type, whence, start, length, pid."""


def lock(fd: int, start: int, length: int = 1) -> bool:
    """Locks bytes of a file for this open file; returns False if another open file has one. Raises OSError.

    A file system without such locks raises OSError.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def unlock(fd: int, start: int, length: int = 1) -> None:
    """Releases bytes. Raises OSError."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, start, length, 0))


def is_locked(fd: int, start: int, length: int) -> bool:
    """Whether another open file has locked one of these bytes. Raises OSError."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    kind: int = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))[0]
    return kind != fcntl.F_UNLCK
