"""The file `turns`: it is opened, made, and repaired here; its bytes are read, written and locked.

A lock belongs to an open file (F_OFD_SETLK), so it ends with its process.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
from contextlib import suppress
from operator import attrgetter
from struct import Struct

from v010_adapter.errors import reason_of
from v010_adapter.host.runtime_directory import FORGOTTEN, RuntimeDirectory
from v010_adapter.turns.fates import PLACE

log = logging.getLogger(__name__)

PLACES = 1024
"""The places for notes."""
TABLE = PLACES * PLACE
"""The bytes of all places. The lines of the adapters that have joined follow."""
JOINED = 1 << 60
"""The first of the bytes whose locks tell that an adapter has joined the runtime: the byte of its line in the file."""
_FLOCK = Struct("hhqqi0q")
"""The C structure flock of 64-bit machines: type, whence, start, length, pid."""
_identity = attrgetter("st_dev", "st_ino")
_stamp = attrgetter("st_dev", "st_ino", "st_size")
"""Which file it is, and how long."""
_LINE = re.compile(rb"\d+\.[0-9a-f]{12} joined ([!-~]*)\n")
"""The line of an adapter that has joined. What else is there has been garbled, and is nobody's."""


class TurnsFile:
    """The file `turns` of a runtime. While it cannot be used, nothing is read, and each lock is granted."""

    def __init__(self, directory: RuntimeDirectory) -> None:
        """Opens the file."""
        self.directory = directory
        self.path = os.path.join(directory.path, "turns")
        self.fault = ""
        """Why others do not see what this adapter does; empty if they do."""
        self._fd = -1
        self._has_no_locks = False
        self._stamp_when_alone: tuple[int, int, int] | None = None
        """Which file it is, and how long, when a look has found no other adapter."""
        self.open()

    def open(self) -> bool:
        """Opens the file, which is made if it is missing; returns whether it can be used."""
        self.close()
        if not self.directory.open():
            self.fault = self.directory.fault
            return False
        try:
            self._fd = self.directory.open_file("turns", os.O_RDWR | os.O_CREAT)
            if self.size < TABLE:
                os.posix_fallocate(self._fd, 0, TABLE)  # a note must not fail for a full disk
        except OSError as error:
            self.close()
            self.complain(error)
            return False
        if self.fault:
            log.info("%s: the state directory is in use again", self.directory.path)
        self.fault = ""
        return True

    def close(self) -> None:
        """Closes the file: its locks end."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def complain(self, error: OSError) -> None:
        """Logs, once, that other adapters do not see what this one does."""
        text = f"{self.path}: {reason_of(error)}: {FORGOTTEN}"
        if text != self.fault:
            log.warning("%s", text)
        self.fault = text

    # What is there

    @property
    def is_open(self) -> bool:
        """Whether the file is open. It may have been removed since."""
        return self._fd >= 0

    @property
    def is_usable(self) -> bool:
        """Whether the open file is still at its path, so that other processes open the same file."""
        if self._fd < 0 or self.fault:
            return False
        try:
            return _identity(os.stat(self.path)) == _identity(os.fstat(self._fd))
        except OSError:
            return False

    def note_look(self, *, is_alone: bool) -> None:
        """Notes for `is_still_alone` whether a look has found no other adapter."""
        self._stamp_when_alone = None
        if is_alone and self._fd >= 0:
            with suppress(OSError):
                self._stamp_when_alone = _stamp(os.fstat(self._fd))

    @property
    def is_still_alone(self) -> bool:
        """Whether the last look found no other adapter, and none has joined since: each makes the file longer."""
        try:
            return not self.fault and _stamp(os.stat(self.path)) == self._stamp_when_alone
        except OSError:
            return False

    @property
    def size(self) -> int:
        """The bytes of the open file. Raises OSError."""
        return os.fstat(self._fd).st_size

    # Bytes

    def read(self, start: int) -> bytes:
        """Returns the place that begins at a byte; empty if it cannot be read."""
        try:
            return os.pread(self._fd, PLACE, start)
        except OSError:
            return b""

    def stranger(self, owner: str) -> str | None:
        """Returns another owner whose adapter has joined, None if there is none."""
        try:
            return stranger(self._fd, owner) if self._fd >= 0 else None
        except OSError:
            return None  # a file system without locks

    def write(self, start: int, text: bytes) -> None:
        """Writes a place or a line."""
        if self._fd >= 0:
            try:
                os.pwrite(self._fd, text, start)
            except OSError as error:
                self.complain(error)

    def append(self, line: bytes) -> int:
        """Adds a line, whoever else does so; returns where it begins. Raises OSError."""
        fd = self.directory.open_file("turns", os.O_WRONLY | os.O_APPEND)
        try:
            if os.write(fd, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return os.lseek(fd, 0, os.SEEK_CUR) - len(line)
        finally:
            os.close(fd)

    def cut(self) -> None:
        """Removes all lines. Raises OSError."""
        os.ftruncate(self._fd, TABLE)

    # Locks of bytes

    def lock(self, start: int, length: int) -> bool:
        """Locks bytes; returns False if another adapter has locked one of them."""
        if self._fd < 0:
            return True
        try:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            if not self._has_no_locks:
                self._has_no_locks = True
                text = "%s: no locks: %s; an adapter beside this one serves the events, too"
                log.warning(text, self.path, reason_of(error))
        return True

    def unlock(self, start: int, length: int) -> None:
        """Releases bytes."""
        if self._fd >= 0:
            with suppress(OSError):  # a file system without such locks
                fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, start, length, 0))

    def is_locked_from(self, start: int) -> bool:
        """Whether another adapter has locked one of the bytes from `start` on."""
        try:
            return self._fd >= 0 and is_locked(self._fd, start, 0)
        except OSError:
            return False  # a file system without such locks


def is_locked(fd: int, start: int, length: int) -> bool:
    """Whether another open file has locked one of these bytes; 0 bytes are all from there on. Raises OSError."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    return bool(_FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK)


def stranger(fd: int, owner: str) -> str | None:
    """Returns another owner whose adapter has joined, by the lines of an open file, or None. Raises OSError.

    The line of an adapter that has gone is not locked. An adapter that asks is to ask again once it has joined.
    """
    start = TABLE
    for line in os.pread(fd, os.fstat(fd).st_size, TABLE).splitlines(keepends=True):
        found = _LINE.fullmatch(line)
        if found and (theirs := found[1].decode()) != owner and is_locked(fd, JOINED + start, 1):
            return theirs
        start += len(line)
    return None
