"""The lock of the state directory: of several adapters on a node, one serves the events.

Locks are of an open file (F_OFD_SETLK), so they end with their process.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from adapter.errors import ConfigError, reason_of
from adapter.host.state_directory import Identity, identity, open_file
from adapter.host.trust import Trust, strict

log = logging.getLogger(__name__)

FORGOTTEN = "what is owed is forgotten with this process (state.directory)"

_OWNER = 0
"""The byte of the file whose lock makes a process the owner. Each later byte stands for ids of pods and containers."""
_IDS = 1 << 32
_FLOCK = "hhqqi0q"
"""The C structure flock of 64-bit machines: type, whence, start, length, pid."""


class Served(NamedTuple):
    """The last events that an owner has served before it released the lock."""

    last: str = ""
    earlier: str = ""
    """The event before the last."""
    at: float = math.inf
    """When the last event came, on the clock that all processes share. Infinity if that is unknown."""


NOTHING = Served()


class Told(NamedTuple):
    """What an owner tells of the events before it: those that wait may have some that no owner has got."""

    since: float
    """When the owner joined the runtime: it gets each event from then on."""
    served: Served
    """What the previous owner has told."""


class Lock:
    """The lock of the owner, who serves the events; and locks of ids whose plugins an earlier owner still runs."""

    def __init__(self, directory: str, trust: Trust = strict) -> None:
        """Takes the state directory, which is made if it is missing, and the policy that judges it.

        While the directory cannot be used, `take` makes this adapter the owner, even if another adapter serves.
        """
        self.directory = directory
        self._trust = trust
        self._path = os.path.join(directory, "lock")
        self.is_held = False
        """Whether this process serves the events."""
        self.on_lost: Callable[[], object] = lambda: None
        """Called when another process has become the owner of a directory that was replaced."""
        self.on_remade: Callable[[], object] = lambda: None
        """Called when this process is the owner of a directory that was made again."""
        self.fault = ""
        """Why the state directory cannot be used, empty if it can be."""
        self._kept: set[str] = set()  # the ids whose plugins this process, an earlier owner, still runs
        self._mark = ""  # of this process, as `_write_mark` writes it
        self.before = ""
        """The mark of the previous owner, once this process has become the owner."""
        self.served = Served()
        """The last events of the previous owner, if it has released the lock."""
        self._has_said = self._has_no_locks = False
        self._identity = 0, 0
        """The identity of the open lock file."""
        self._fd = self._opened()

    def open(self, name: str, flags: int) -> tuple[int, Identity]:
        """Opens a file in the state directory; returns its descriptor and its identity. Raises ConfigError."""
        return open_file(self.directory, name, flags, self._trust)

    def _opened(self) -> int:
        """Opens the lock file; returns its descriptor, -1 if it cannot be opened."""
        try:
            fd, self._identity = self.open("lock", os.O_RDWR | os.O_CREAT)
        except ConfigError as error:
            if not self.fault:
                log.warning("%s: %s", error, FORGOTTEN)
            self.fault = f"{error}: {FORGOTTEN}"
            return -1
        self.fault = ""
        return fd

    @property
    def has_directory(self) -> bool:
        """Whether the state directory can be used."""
        return self._fd >= 0

    @property
    def _is_there(self) -> bool:
        """Whether the open lock file is still at its path, so that other processes open the same file."""
        try:
            return identity(os.stat(self._path)) == self._identity
        except OSError:
            return False

    def repair(self) -> None:
        """Opens the lock again if it could not be opened before, or was removed or replaced.

        If another process has taken the new lock, this process is no longer the owner.
        """
        if self._is_there:
            self.fault = ""
            return
        if not self._open_again():
            return
        self.is_held = self._lock(_OWNER)
        if self.is_held:
            log.warning("%s was removed, replaced or unusable: it is in use again", self.directory)
            self._write_mark()
            self.on_remade()
        else:
            log.error("%s was removed or replaced: another adapter serves the events now", self.directory)
            self.on_lost()

    def _open_again(self) -> bool:
        """Opens the lock file at the path, and closes the old one; returns whether it could be opened."""
        fd = self._opened()
        if fd < 0:
            return False
        if self.has_directory:
            os.close(self._fd)
        self._fd = fd
        return True

    def take(self) -> bool:
        """Becomes the owner if no other process is the owner; returns whether this process is the owner now."""
        self._follow()
        if not self.has_directory:
            self.is_held = True
        elif not self.is_held and self._lock(_OWNER):
            self.is_held = True
            self.before, self.served = self.owner, _served(self._content())
            self._write_mark()
        elif not self.is_held and not self._has_said:
            self._has_said = True
            pid = self.owner.partition(" ")[0]
            log.warning("%s: process %s serves the events; this one waits", self.directory, pid or "?")
        return self.is_held

    @property
    def owner(self) -> str:
        """The mark of the present or last owner, empty if there was none. No two owners have the same mark."""
        return " ".join(self._content().split()[:2])

    @property
    def told(self) -> Told | None:
        """What the present or last owner tells; None if it has released the lock, or is an older version."""
        _, *words = self._content().split("\t")
        try:
            since, at, last, earlier = words
            return Told(float(since), Served(last, earlier, float(at)))
        except ValueError:
            return None

    def tell(self, told: Told) -> None:
        """Tells those that wait. Older versions learn nothing from it."""
        served = told.served
        self._write("\t".join((f"{self._mark} serves", str(told.since), str(served.at), served.last, served.earlier)))

    def _follow(self) -> None:
        """Opens the lock file again if it was replaced while this process waits for the lock."""
        if self.has_directory and not (self.is_held or self._kept or self._is_there) and os.path.lexists(self._path):
            self._open_again()

    def release(self, ids: Iterable[str], served: Served = NOTHING) -> None:
        """Lets another process serve the events, except those of `ids`, whose plugins still run."""
        if not self.has_directory or not self.is_held:
            return
        for id_ in ids:
            self._kept.add(id_)
            self._lock(_byte(id_))
        self.is_held = self._has_said = False
        self._write(f"{self._mark} {served.at} {served.earlier}\n{served.last}")
        self._unlock(_OWNER)

    def free(self, id_: str) -> None:
        """Lets another process serve the events of an id, because its plugins have ended."""
        if id_ in self._kept:
            self._kept.discard(id_)
            self._unlock(_byte(id_))

    def is_elsewhere(self, id_: str) -> bool:
        """Whether an earlier owner still runs plugins of an id."""
        return self.has_directory and self._is_locked(_byte(id_), 1)

    @property
    def is_alone(self) -> bool:
        """Whether no earlier owner still runs plugins."""
        return not (self.has_directory and self._is_locked(_OWNER + 1, 0))

    def _content(self) -> str:
        try:
            return os.pread(self._fd, 1000, 0).decode("utf-8", "replace")
        except OSError:
            return ""

    def _write_mark(self) -> None:
        """Writes the pid and a random number, because in containers every adapter may have pid 1."""
        self._mark = f"{os.getpid()} {os.urandom(8).hex()}"
        self._write(self._mark)

    def _write(self, content: str) -> None:
        text = content.encode()
        with suppress(OSError):  # a full disk
            os.pwrite(self._fd, text, 0)
            os.ftruncate(self._fd, len(text))

    def _lock(self, byte: int) -> bool:
        try:
            return lock_byte(self._fd, byte)
        except OSError as error:  # a file system without such locks
            if not self._has_no_locks:
                self._has_no_locks = True
                log.warning(
                    "%s: no lock: %s; an adapter beside this one serves the events, too", self._path, reason_of(error)
                )
            return True

    def _unlock(self, byte: int) -> None:
        with suppress(OSError):  # a file system without such locks
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, byte, 1, 0))

    def _is_locked(self, start: int, length: int) -> bool:
        try:
            return first_locked(self._fd, start, length) is not None
        except OSError:
            return False  # a file system without such locks


def lock_byte(fd: int, byte: int) -> bool:
    """Locks a byte of a file for this open file; returns False if another has it. Raises OSError."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def first_locked(fd: int, start: int, length: int = 0) -> int | None:
    """Returns a byte that another open file has locked, None if there is none. Raises OSError.

    Only `length` bytes from `start` on count; 0 means all bytes.
    """
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    kind, _, found, _, _ = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else found


def _served(content: str) -> Served:
    """Returns the events that an owner has written at its release; NOTHING if it was killed."""
    first, _, last = content.partition("\n")
    words = first.split()[2:]
    try:
        return Served(last, " ".join(words[1:]), float(words[0]))
    except (IndexError, ValueError):
        return Served(last)


def _byte(id_: str) -> int:
    """Returns the byte for an id. Two ids hardly ever have the same byte, because few ids are locked at a time."""
    return _OWNER + 1 + zlib.crc32(id_.encode()) % _IDS
