"""The file `turns`: it is opened, made, and repaired here; its bytes are read, written and locked.

A lock belongs to an open file (F_OFD_SETLK), so it ends with its process.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from operator import attrgetter
from struct import Struct

from v010_adapter.base.loop import CLOSED
from v010_adapter.errors import reason_of
from v010_adapter.state.runtime_directory import FORGOTTEN, RuntimeDirectory, probe

log = logging.getLogger(__name__)

PLACES = 1024
"""The places for notes."""
PLACE = 256
"""The bytes of one note in the file."""
TABLE = PLACE + PLACES * PLACE
"""The bytes of the first line and of all places. The lines of the adapters that have joined follow."""
FORMAT = 1
"""The number of the format, in the first line. It changes with what bytes or their locks mean, except for JOINED."""
JOINED = 1 << 60
"""The first of the bytes whose locks tell that an adapter has joined the runtime: the byte of its line in the file."""
WITHOUT_LINE = JOINED + (1 << 50)
"""The first of those bytes for adapters that have no room for a line."""
END = 1 << 61
"""The end of both."""
UNWRITTEN = 1 << 59
"""The first of the bytes whose locks tell that an adapter cannot write its records."""
_FLOCK = Struct("hhqqi0q")
"""The C structure flock of 64-bit machines: type, whence, start, length, pid."""
_identity = attrgetter("st_dev", "st_ino")
_stamp = attrgetter("st_dev", "st_ino", "st_size")
"""Which file it is, and how long."""
LONGEST = 1 << 20
"""Bytes of the file at which an adapter that joins and is alone removes the lines of those that have gone."""
LONGEST_LINE = 1 << 12
"""Bytes that are read of a line."""
_FIRST_LINE = re.compile(rb"turns ([1-9]\d*)\n")
_LINE = re.compile(rb"\d+\.[0-9a-f]{12} joined ([!-~]*)\n")
"""The line of an adapter that has joined. What else is there has been garbled, and is nobody's."""
BOTH = "its adapters and this one serve the same events"


class TurnsFile:
    """The file `turns` of a runtime. While it cannot be used, nothing is read, and each lock is granted."""

    def __init__(self, directory: RuntimeDirectory) -> None:
        """Opens the file."""
        self.directory = directory
        self.path = os.path.join(directory.path, "turns")
        self.fault = ""
        """Why others do not see what this adapter does; empty if they do."""
        self._fd = CLOSED
        self._has_no_locks = False
        self.open()

    def open(self) -> bool:
        """Opens the file at the path, which is made if it is missing; returns whether it can be used.

        A file that is open and at the path keeps its locks. Without room for the notes, it is open for its locks only.
        """
        try:
            if not self.is_at_path:
                self.close()
                if not self.directory.open():
                    self.fault = self.directory.fault
                    return False
                self._fd = self.directory.open_file("turns", os.O_RDWR | os.O_CREAT)
            return self._make_table()
        except OSError as error:
            self.complain(error)
            return False

    def _make_table(self) -> bool:
        """Makes room for the notes. A file in another format is left to its adapters, or made anew if none uses it."""
        number = format_of(self._fd)
        if number != FORMAT:
            if self.is_locked_from(0):
                self.close()
                self._complain(f"{self.path} has format {number}, of another version of the adapter: {BOTH}")
                return False
            self.directory.replace("turns", b"")
            self.close()
            self._fd = self.directory.open_file("turns", os.O_RDWR | os.O_CREAT)
        if os.fstat(self._fd).st_size < TABLE:
            os.posix_fallocate(self._fd, 0, TABLE)  # a note must not fail for a full disk
        os.pwrite(self._fd, b"turns %d\n" % FORMAT, 0)
        self.directory.reserve()
        return True

    def close(self) -> None:
        """Closes the file: its locks end."""
        if self._fd != CLOSED:
            os.close(self._fd)
            self._fd = CLOSED

    def complain(self, error: OSError) -> None:
        """Logs, once, that other adapters do not see what this one does."""
        self._complain(f"{self.path}: {reason_of(error)}: {FORGOTTEN}")

    def _complain(self, text: str) -> None:
        if text != self.fault:
            log.warning("%s", text)
        self.fault = text

    def recover(self) -> None:
        """Other adapters see what this one does, again."""
        if self.fault:
            log.info("%s: the state directory is in use again", self.directory.path)
            self.fault = ""

    # What is there

    @property
    def is_open(self) -> bool:
        """Whether the file is open. It may have been removed since."""
        return self._fd != CLOSED

    @property
    def is_usable(self) -> bool:
        """Whether it is at its path, and others see what this adapter does."""
        return not self.fault and self.is_at_path

    @property
    def is_at_path(self) -> bool:
        """Whether the open file is still at its path, so that other processes open the same file."""
        with suppress(OSError):
            return _identity(os.stat(self.path)) == _identity(os.fstat(self._fd))
        return False

    def stamp(self) -> tuple[int, int, int] | None:
        """Returns which file is open, and how long it is, for `has`; None if that is not known."""
        with suppress(OSError):
            return _stamp(os.fstat(self._fd))
        return None

    def has(self, stamp: tuple[int, int, int] | None) -> bool:
        """Whether the file at the path is the one of a stamp, as long as then, and without a fault."""
        with suppress(OSError):
            return not self.fault and _stamp(os.stat(self.path)) == stamp
        return False

    # Bytes

    def read(self, start: int) -> bytes:
        """Returns the place that begins at a byte; empty if it cannot be read."""
        try:
            return os.pread(self._fd, PLACE, start)
        except OSError:
            return b""

    def write(self, start: int, text: bytes) -> None:
        """Writes a place or a line."""
        if self._fd != CLOSED:
            try:
                os.pwrite(self._fd, text, start)
            except OSError as error:
                self.complain(error)

    def append(self, line: bytes) -> int:
        """Adds a line, whoever else does so; returns where it begins. Raises OSError."""
        return self.directory.with_room(lambda: self._append(line), len(line))

    def _append(self, line: bytes) -> int:
        fd = self.directory.open_file("turns", os.O_WRONLY | os.O_APPEND)
        try:
            if os.write(fd, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return os.lseek(fd, 0, os.SEEK_CUR) - len(line)
        finally:
            os.close(fd)

    def cut(self) -> None:
        """Removes all lines, if they are many. Raises OSError."""
        if os.fstat(self._fd).st_size > LONGEST:
            os.ftruncate(self._fd, TABLE)

    # Locks of bytes

    def lock(self, start: int, length: int) -> bool:
        """Locks bytes; returns False if another adapter has locked one of them."""
        if self._fd == CLOSED:
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
        with suppress(OSError, ValueError):  # a file system without such locks, or a closed file
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, start, length, 0))

    def is_locked_from(self, start: int) -> bool:
        """Whether another adapter has locked one of the bytes from `start` on."""
        return _locked(self._fd, start) is not None

    def owners(self) -> list[str | None]:
        """Returns the owners of the other adapters that have joined; see `owners`."""
        return owners(self._fd)


def _locked(fd: int, start: int, end: int = 0) -> int | None:
    """Returns a byte from `start` on, and before `end`, that another open file has locked; None if there is none."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, end and end - start, 0)
    try:
        kind, _, found, _, _ = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))
    except (OSError, ValueError):  # a file system without such locks, or a closed file
        return None
    return None if kind == fcntl.F_UNLCK else max(found, start)


def _all_locked(fd: int, start: int, end: int) -> Iterator[int]:
    """Yields the bytes that other open files have locked one by one. The kernel tells any of them first."""
    byte = _locked(fd, start, end) if start < end else None
    if byte is not None:
        yield from _all_locked(fd, start, byte)
        yield byte
        yield from _all_locked(fd, byte + 1, end)


def owners(fd: int) -> list[str | None]:
    """Returns the owners of the adapters that have joined, by an open file of theirs. None is unknown.

    An adapter that joins is to ask once more when it has joined.
    """
    found = list[str | None]()
    for byte in _all_locked(fd, JOINED, END):
        line = None
        with suppress(OSError):
            line = _LINE.match(os.pread(fd, LONGEST_LINE, byte - JOINED))
        found.append(line[1].decode() if line else None)
    return found


def format_of(fd: int) -> int:
    """Returns the number in the first line of an open file, FORMAT if it has none: it is new, or damaged."""
    found = _FIRST_LINE.match(os.pread(fd, PLACE, 0))
    return int(found[1]) if found else FORMAT


def obstacle(directory: str) -> str:
    """Returns why an adapter must not join beside those that use a runtime's directory; empty if it may."""
    path = os.path.join(directory, "turns")
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            number, byte = format_of(fd), _locked(fd, UNWRITTEN, JOINED)
        finally:
            os.close(fd)
        if number != FORMAT:
            return f"{path} has format {number}, of another version of the adapter"
        if byte is not None:
            return f"{directory}: an adapter cannot write its records there"
        probe(directory)
    except OSError as error:
        return f"{directory}: {reason_of(error)}"
    return ""
