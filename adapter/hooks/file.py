"""One file of a hooks.d directory: what it says, the last good version of it, and what is wrong with it now."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable

from adapter.hooks.match import Named
from adapter.hooks.model import Hook, HookError
from adapter.hooks.watch import Trail

MAX_SIZE = 1 << 20
"""Bytes of a hook file."""
SETTLED = 50_000_000
"""Nanoseconds: a file written less long ago may change again within the same tick of its clock."""
PATIENCE = 5_000_000_000
"""Nanoseconds that an emptied file is taken for one about to be written, while whoever emptied it has not closed it."""

GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE)
"""Errors that end without an event."""


class HookFile:
    """A hook file, read only when it does not look the same as when it was read last."""

    __slots__ = ("_seen", "error", "hook", "masks", "name", "path", "reported", "watch")

    def __init__(self, directory: str, name: str) -> None:
        """Takes where the file is."""
        self.name = name
        self.path = f"{directory}/{name}"
        self.hook: Named | None = None
        """The last good version."""
        self.masks = False
        """Whether the last good version is empty: there to hide others of its name."""
        self.error = ""
        self.reported = ""
        self.watch: int | None = None
        """The watch of the file itself, if events of its directory do not tell all."""
        self._seen: tuple[int, ...] | None = None

    def changed(self) -> None:
        """Has the file read again, however much its new status may look like the old one."""
        self._seen = None

    def look(self, trail: Trail, device: int) -> os.stat_result | None:
        """Returns the status of a file that is to be read; None if it was read. Raises OSError.

        Makes sure first that all changes are heard of, given the device that the directory is on.
        """
        status = os.lstat(self.path)
        linked = stat.S_ISLNK(status.st_mode)
        if linked:
            trail.follow(self.path)
            status = os.stat(self.path)
        # What is changed by another of its names, or where it is mounted from, is no event of this directory's.
        elsewhere = linked or status.st_nlink > 1 or status.st_dev != device
        self.watch = trail.watch_file(self.path) if elsewhere and stat.S_ISREG(status.st_mode) else None
        return None if self._seen is not None and _identity(status) == self._seen else status

    def read(
        self, status: os.stat_result, parse: Callable[[bytes], Hook], now: int, unclosed: Callable[[], bool]
    ) -> bool:
        """Reads the file; returns whether that settles what it says. Raises OSError.

        `unclosed` tells of an empty file whether somebody is about to write it.
        """
        self._seen = None  # what is refused unread has no version to be recognised by
        try:
            text, status = _contents(self.path, status)
            settled = now - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED
            self._seen = _identity(status) if settled else None
            if not text and now - status.st_mtime_ns < PATIENCE and unclosed():
                return False
            self.hook = Named(self.name, printable(self.path), parse(text)) if text else None
            self.masks, self.error = not text, ""
        except HookError as error:
            self.reject(str(error))
        return True

    def reject(self, reason: str) -> None:
        """Says what is wrong with the version that is there now."""
        self.error = reason + ("; the last good version stays in force" if self.hook or self.masks else "")

    def fail(self, error: OSError) -> bool:
        """Says why the file cannot be read; returns whether there is such a file at all."""
        self._seen = None
        reason = error.strerror or str(error)
        if error.errno not in GONE:
            self.reject(reason)
            return True
        self.hook, self.masks, self.error = None, False, f"a link that leads nowhere: {reason}"
        return os.path.islink(self.path)


def printable(path: str) -> str:
    """Returns a path for people and logs: what cannot be printed, bytes that are no UTF-8 included, is escaped."""
    return path if path.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in path)


def _contents(path: str, status: os.stat_result) -> tuple[bytes, os.stat_result]:
    """Returns a file's bytes, empty for /dev/null, and its status when they were read."""
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev:
        return b"", status
    _check(status)  # before it is opened: that alone has effects on some devices
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        _check(status)
        text = chunk = os.read(fd, status.st_size + 1)
        while len(text) > status.st_size and chunk and len(text) <= MAX_SIZE:  # it has grown, or is in /proc
            chunk = os.read(fd, MAX_SIZE)
            text += chunk
        if not text:
            _wait_for_truncation(fd)
    finally:
        os.close(fd)
    if len(text) > MAX_SIZE:
        raise HookError(f"more than {MAX_SIZE} bytes")
    return text, status


def _wait_for_truncation(fd: int) -> None:
    """Waits for whoever is emptying a file at this moment until the kernel has queued the event of that.

    A file is empty microseconds before; all that time it is locked, and looking for holes takes the lock.
    """
    with contextlib.suppress(OSError):
        os.lseek(fd, 0, os.SEEK_HOLE)


def _check(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise HookError("not a regular file")
    if status.st_size > MAX_SIZE:
        raise HookError(f"{status.st_size} bytes, at most {MAX_SIZE}")


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
