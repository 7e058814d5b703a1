"""The order in which the adapters of a node have joined the runtime.

Each adapter has a number, and locks the byte with this number in a file. The locks end with their processes.
"""

from __future__ import annotations

import os
from contextlib import suppress

from adapter.errors import ConfigError
from adapter.host.lock import Lock, first_locked, lock_byte


class Joined:
    """The place of this adapter in the order."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._fd = -1
        """The open file; -1 without a place."""
        self._number = 0

    def join(self) -> None:
        """Makes this adapter the newest one. Has no effect if the file cannot be locked."""
        self.leave()
        with suppress(ConfigError, OSError):
            self._fd, _ = self._lock.open("joined", os.O_RDWR | os.O_CREAT)
            self._number = 0
            while (taken := first_locked(self._fd, self._number)) is not None:
                self._number = taken + 1
            while not lock_byte(self._fd, self._number):  # another adapter joins at the same time
                self._number += 1

    def leave(self) -> None:
        """Gives up the place, after the connection with the runtime has ended."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def is_newest(self) -> bool:
        """Whether this adapter has joined, and no other adapter has joined since."""
        try:
            is_last = self._fd >= 0 and first_locked(self._fd, self._number + 1) is None
            return is_last and not self._is_left_behind()
        except OSError:
            return False

    def _is_left_behind(self) -> bool:
        """Whether the file was removed or replaced, and another adapter has joined in the new one."""
        try:
            fd, _ = self._lock.open("joined", os.O_RDWR)
        except ConfigError:
            return False
        with open(fd, "rb"):
            return not os.path.sameopenfile(fd, self._fd) and first_locked(fd, 0) is not None
