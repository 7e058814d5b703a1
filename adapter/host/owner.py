"""The lock of the state directory: of several adapters on a node, one serves the events.

The others stay registered, and try to take the lock at each event. So an adapter that is killed, that loses its runtime
or that is replaced by a newer one loses no event and doubles none.
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

from adapter.errors import ConfigError, reason_of
from adapter.host.state_directory import Identity, identity, open_file
from adapter.host.trust import Trust, strict

log = logging.getLogger(__name__)

FORGOTTEN = "what is owed is forgotten with this process (state.directory)"

_OWNER = 0
"""The byte of the file whose lock makes the owner. Each byte after it stands for ids of pods and containers."""
_IDS = 1 << 32
_FLOCK = "hhqqi0q"
"""The C structure flock of 64-bit machines: type, whence, start, length, pid."""


class Owner:
    """The right to serve events. Locks are of this open file (F_OFD_SETLK), so they end with the process."""

    def __init__(self, directory: str, trust: Trust = strict) -> None:
        """Takes the state directory, which is made if it is missing, and the policy that judges it.

        While the directory cannot be used, `take` makes this adapter the owner, whatever other adapters do.
        """
        self.directory = directory
        self._trust = trust
        self._path = os.path.join(directory, "lock")
        self.is_held = False
        """Whether this process serves the events."""
        self.on_lost: Callable[[], object] = lambda: None
        """Called when another process has become the owner of a directory that was replaced."""
        self.fault = ""
        """Why the state directory cannot be used, empty if it can be."""
        self._kept: set[str] = set()
        self._token = ""
        """What this process last wrote to the file."""
        self.last = ""
        """The last event that this process has got. The next owner may get the same event from the runtime."""
        self.last_at = 0.0
        """The moment of that event, on the clock that all processes have."""
        self.served_before = ""
        """The last event that the owner before has served, if it has released the lock."""
        self.served_before_at = math.inf
        self._has_said = self._has_no_locks = False
        self._identity = 0, 0
        """Which file the open lock is."""
        self._fd = self._opened()

    def open(self, name: str, flags: int) -> tuple[int, Identity]:
        """Returns a descriptor of a file in the state directory, and which file it is. Raises ConfigError."""
        return open_file(self.directory, name, flags, self._trust)

    def _opened(self) -> int:
        """Returns a descriptor of the lock, -1 if it cannot be opened."""
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
        """Whether the lock is the file that other processes open now."""
        try:
            return identity(os.stat(self._path)) == self._identity
        except OSError:
            return False

    def keep(self) -> None:
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
            self._write(_mark())
        else:
            log.error("%s was removed or replaced: another adapter serves the events now", self.directory)
            self.on_lost()

    def _open_again(self) -> bool:
        """Opens the lock at the path in place of the one that is open; returns whether it could be opened."""
        fd = self._opened()
        if fd < 0:
            return False
        if self.has_directory:
            os.close(self._fd)
        self._fd = fd
        return True

    def take(self) -> bool:
        """Becomes the owner if no other process is it; returns whether this process is the owner now."""
        self._follow()
        if not self.has_directory:
            self.is_held = True
        elif not self.is_held and self._lock(_OWNER):
            self.is_held = True
            mark, _, self.served_before = self._content().partition("\n")
            self.served_before_at = _moment(mark)
            self._write(_mark())
        elif not self.is_held and not self._has_said:
            self._has_said = True
            pid = self._content().partition(" ")[0]
            log.warning("%s: process %s serves the events; this one waits", self.directory, pid or "?")
        return self.is_held

    def _follow(self) -> None:
        """Opens the file that has replaced the lock for which this process waits."""
        if self.has_directory and not (self.is_held or self._kept or self._is_there) and os.path.lexists(self._path):
            self._open_again()

    def release(self, ids: Iterable[str]) -> None:
        """Lets another process serve the events, but for those of pods and containers whose chains are under way."""
        if not self.has_directory or not self.is_held:
            return
        for id_ in ids:
            self._kept.add(id_)
            self._lock(_byte(id_))
        self.is_held = self._has_said = False
        self._write(f"{_mark()} {self.last_at}\n{self.last}")
        self._set(fcntl.F_UNLCK, _OWNER)

    def take_back(self) -> bool:
        """Becomes the owner again if no other process was it since `release`; returns whether this process is it."""
        self._follow()
        if self._token and self._lock(_OWNER):
            self.is_held = self._content() == self._token
            if not self.is_held:
                self._set(fcntl.F_UNLCK, _OWNER)
        return self.is_held

    def leave(self, id_: str) -> None:
        """Lets another process have an id, for its chains have ended."""
        if id_ in self._kept:
            self._kept.discard(id_)
            self._set(fcntl.F_UNLCK, _byte(id_))

    def is_elsewhere(self, id_: str) -> bool:
        """Whether an earlier owner still has chains of an id under way."""
        return self.has_directory and self._is_locked(_byte(id_), 1)

    @property
    def is_alone(self) -> bool:
        """Whether no earlier owner has chains under way."""
        return not (self.has_directory and self._is_locked(_OWNER + 1, 0))

    def _content(self) -> str:
        try:
            return os.pread(self._fd, 1000, 0).decode("utf-8", "replace")
        except OSError:
            return ""

    def _write(self, token: str) -> None:
        self._token = ""
        text = token.encode()
        with suppress(OSError):  # a full disk, and an empty file: then the lock cannot be taken back, only taken
            os.pwrite(self._fd, text, 0)
            os.ftruncate(self._fd, len(text))
            self._token = token

    def _lock(self, byte: int) -> bool:
        return self._set(fcntl.F_WRLCK, byte)

    def _set(self, kind: int, byte: int) -> bool:
        try:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, byte, 1, 0))
        except (BlockingIOError, PermissionError):
            return False
        except OSError as error:  # a file system without such locks
            if not self._has_no_locks:
                self._has_no_locks = True
                log.warning(
                    "%s: no lock: %s; an adapter beside this one serves the events, too", self._path, reason_of(error)
                )
        return True

    def _is_locked(self, start: int, length: int) -> bool:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
        try:
            answer = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, asked)
        except OSError:
            return False  # likewise
        return int(struct.unpack(_FLOCK, answer)[0]) != fcntl.F_UNLCK


def _moment(mark: str) -> float:
    """Returns the moment of the owner's last event, infinity for an owner of a version that wrote none."""
    words = mark.split()
    with suppress(IndexError, ValueError):
        return float(words[2])
    return math.inf


def _mark() -> str:
    """Returns the pid, and a random number: in containers, every adapter may have pid 1."""
    return f"{os.getpid()} {os.urandom(8).hex()}"


def _byte(id_: str) -> int:
    """Returns the byte that stands for an id. Few ids are kept at a time, so two of them never have one byte."""
    return _OWNER + 1 + zlib.crc32(id_.encode()) % _IDS
