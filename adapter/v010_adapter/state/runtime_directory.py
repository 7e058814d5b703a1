"""The directory in the state directory that belongs to one runtime and one boot: no runtime sees what another one has.

After another boot nothing is owed, for no process has survived it. A file is replaced as a whole, so that nobody finds
half of one. Others may fill the disk, so the adapters keep a reserve of room, which they give up to write their files.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar

from v010_adapter.base.loop import CLOSED
from v010_adapter.errors import ConfigError, reason_of
from v010_adapter.host import private_directory
from v010_adapter.host.trust import Trust, strict

log = logging.getLogger(__name__)

Wrote = TypeVar("Wrote")
BOOT_ID = "/proc/sys/kernel/random/boot_id"
UNKNOWN = "unknown"
"""The word for a boot whose id cannot be read."""
FORGOTTEN = "what is owed is forgotten with this process (state.directory)"
_NEW = "new."
_MODE = 0o600
"""Of each file."""
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFELY
ROOM = 8 << 10
"""Bytes for a line of `turns` and a record."""
RECORD = 4 << 10
"""The bytes that a record takes on most file systems."""
RESERVE, RESERVED = "reserve", 256 * RECORD
"""The file that keeps room, and its bytes."""
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
MARK = "joined-before"
RUN, LASTING = "/run/", "/var/lib/"
"""The first is empty after a boot, so the mark of a state directory there is below the second in its place."""
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,109}")


@lru_cache(1000)
def file_name(text: str) -> str:
    """Returns the file name for an id or a runtime: no two have the same, and none leads out of a directory."""
    if _SAFE.fullmatch(text):
        return text
    import hashlib  # noqa: PLC0415 - no runtime in use has such ids

    return "=" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class RefusedError(PermissionError):
    """A file that others than root and this process's user could have written."""


class RuntimeDirectory:
    """The open directory, and why it cannot be used."""

    def __init__(self, above: str, runtime: str, trust: Trust = strict) -> None:
        """Takes the state directory, the runtime's name, and what judges the directories."""
        self.runtime = runtime
        self._above = above
        self._trust = trust
        self._prefix = file_name(runtime or "runtime") + "."
        self.path = os.path.join(above, self._prefix + _boot())
        self._lasting = LASTING + above.removeprefix(RUN) if above.startswith(RUN) else above
        """The directory of the mark that outlives a boot."""
        self._marks = os.path.join(self.path, MARK), os.path.join(self._lasting, f"{MARK}-{file_name(runtime)}")
        self.fd = CLOSED
        """The descriptor of the directory, CLOSED if it cannot be used."""
        self.is_new = True
        """Whether `open` has found another directory than it had open before."""
        self._was_marked = False
        """Whether this process knows that an adapter has been on this node."""
        self.fault = ""
        self._new = f"{_NEW}{os.urandom(6).hex()}"
        """The file that replaces another one when it is whole. Each process has its own."""

    def open(self) -> bool:
        """Opens the directory, which is made if it is missing; returns whether it can be used."""
        before, self.fd = self.fd, CLOSED
        try:
            with (
                private_directory.open_directory(self._above, self._trust),
                private_directory.open_directory(self.path, self._trust, os.O_NOFOLLOW) as fd,
            ):
                self.fd = os.dup(fd)
                self.is_new = before == CLOSED or not os.path.sameopenfile(before, fd)
                if self.is_new and self._was_marked:
                    self.mark()
        except (ConfigError, OSError) as error:
            text = f"{error if isinstance(error, ConfigError) else reason_of(error)}: {FORGOTTEN}"
            if text != self.fault:
                log.warning("%s", text)
            self.fault = text
            self.close()
            return False
        finally:
            if before != CLOSED:
                os.close(before)
        self.fault = ""
        return True

    @property
    def is_lost(self) -> bool:
        """Whether the state directory was removed, and its path still leads to what was removed: it is a mount."""
        with suppress(OSError):
            return os.stat(self._above).st_nlink == 0
        return False

    def close(self) -> None:
        """Closes the descriptor."""
        if self.fd != CLOSED:
            os.close(self.fd)
            self.fd = CLOSED

    def open_file(self, name: str, flags: int) -> int:
        """Returns the descriptor of a file in the directory. A new file gets the mode 0600.

        Raises OSError, a `RefusedError` for a file that others could have written.
        """
        fd = os.open(name, flags | _SAFELY, _MODE, dir_fd=self.fd)
        try:
            if reason := private_directory.fault_of_file(os.fstat(fd), self._trust):
                raise RefusedError(errno.EPERM, reason)
        except OSError:
            os.close(fd)
            raise
        return fd

    def names(self, prefix: str, *, is_alone: bool) -> list[str]:
        """Returns the names of the files that begin with a prefix. Raises OSError.

        `is_alone` is whether no other process writes: then what killed processes have not finished is removed.
        """
        with suppress(FileNotFoundError):  # it was removed
            names = os.listdir(self.path)
            for name in names if is_alone else ():
                if name.startswith(_NEW):
                    with suppress(OSError):  # another process may have removed it; that it stays harms nobody
                        os.unlink(name, dir_fd=self.fd)
            return [name for name in names if name.startswith(prefix)]
        return []

    def read(self, name: str) -> bytes | None:
        """Returns a file, None if there is none; one that others could have written is empty.

        Raises OSError, also if the directory was removed with all files.
        """
        try:
            with open(self.open_file(name, os.O_RDONLY), "rb", buffering=0) as file:
                return file.read()
        except RefusedError as error:
            log.warning("%s/%s: %s: it is not used", self.path, name, error.strerror)
            return b""
        except FileNotFoundError:
            if os.fstat(self.fd).st_nlink == 0:
                raise
            return None

    def replace(self, name: str, text: bytes) -> None:
        """Writes a file; without a text there is none. Raises OSError."""
        if text:
            self.with_room(lambda: self._put(name, text), len(text))
        else:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self.fd)
            self.reserve()

    def _put(self, name: str, text: bytes) -> None:
        self._write_new(text)
        os.rename(self._new, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)  # the directory may need room for the name

    def _write_new(self, text: bytes) -> None:
        fd = os.open(self._new, _WRITE_NEW, _MODE, dir_fd=self.fd)
        try:
            if os.write(fd, text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)

    def reserve(self) -> None:
        """Fills the reserve, unless that takes more than half of the room that is left."""
        with suppress(OSError):
            fd = self.open_file(RESERVE, os.O_WRONLY | os.O_CREAT)
            try:
                lacking = RESERVED - os.fstat(fd).st_size
                if lacking > 0 and 2 * lacking <= _left(fd):
                    os.posix_fallocate(fd, 0, RESERVED)
            finally:
                os.close(fd)

    def with_room(self, write: Callable[[], Wrote], size: int) -> Wrote:
        """Calls what writes so many bytes, again and again while the reserve has room for them. Raises OSError."""
        while True:
            try:
                return write()
            except OSError as error:
                if error.errno not in _NO_ROOM or not self._give_up(size + ROOM):
                    raise

    def _give_up(self, size: int) -> bool:
        """Takes bytes off the reserve; returns whether it had any."""
        with suppress(OSError):
            fd = self.open_file(RESERVE, os.O_WRONLY)
            try:
                if not os.fstatvfs(fd).f_favail and _left(fd) > RESERVED:
                    return False  # inodes are lacking
                before = min(os.fstat(fd).st_size, RESERVED)  # more is none of the adapters'
                os.ftruncate(fd, max(before - size, 0))
            finally:
                os.close(fd)
            if before == RESERVED:
                text = "%s: no room is left: records take the reserve, which has room for %d"
                log.warning(text, self.path, before // RECORD)
            return before > 0
        return False

    @property
    def is_marked(self) -> bool:
        """Whether an adapter has called `mark`, in this boot or in an earlier one."""
        self._was_marked = self._was_marked or any(map(os.path.lexists, self._marks))
        return self._was_marked

    def mark(self) -> None:
        """Notes that an adapter has been on this node. Raises ConfigError, OSError."""
        self._was_marked = True
        for directory, path in zip((self.path, self._lasting), self._marks, strict=True):
            with private_directory.open_directory(directory, self._trust) as fd:
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                os.close(os.open(os.path.basename(path), flags, _MODE, dir_fd=fd))

    def remove_earlier_boots(self) -> None:
        """Removes what the adapters of earlier boots have left for this runtime.

        If the id of this boot or of theirs is unknown, it may be the same: they may be running.
        """
        unknown = os.path.join(self._above, self._prefix + UNKNOWN)
        if self.path == unknown:
            return
        with suppress(OSError):
            for name in os.listdir(self._above):
                place = os.path.join(self._above, name)
                runtime, separator, _ = name.rpartition(".")  # the name of another runtime may begin with this one's
                if runtime + separator == self._prefix and place not in {self.path, unknown}:
                    import shutil  # noqa: PLC0415 - only after another boot, where the directory is no tmpfs

                    shutil.rmtree(place, ignore_errors=True)


def probe(directory: str) -> None:
    """Tries whether there is room for a line of `turns` and a record, perhaps in the reserve. Raises OSError."""
    path = os.path.join(directory, f"{_NEW}{os.urandom(6).hex()}")
    fd = os.open(path, _WRITE_NEW | os.O_EXCL, _MODE)
    try:
        os.posix_fallocate(fd, 0, ROOM)
    except OSError as error:
        with suppress(OSError):
            if error.errno in _NO_ROOM and os.lstat(os.path.join(directory, RESERVE)).st_size >= ROOM:
                return
        raise
    finally:
        os.close(fd)
        os.unlink(path)


def _left(fd: int) -> int:
    """Returns the bytes that are left on the file system of an open file."""
    left = os.fstatvfs(fd)
    return left.f_bavail * left.f_frsize


def _boot() -> str:
    """Returns a word for this boot."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read(36) or UNKNOWN  # an empty file may be mounted over it
    except (OSError, ValueError):
        return UNKNOWN
