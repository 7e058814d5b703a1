"""The order in which the adapters of a node have joined the runtime.

Each adapter has a number, and locks the byte with this number in a file. The locks end with their processes.
"""

from __future__ import annotations

import os
from contextlib import suppress

from adapter.errors import ConfigError
from adapter.host.lock import Lock, first_locked, lock_byte, unlock_byte


class Joined:
    """The place of this adapter in the order."""

    def __init__(self, lock: Lock) -> None:
        """Takes the lock of the state directory, where the file is."""
        self._lock = lock
        self._fd = -1
        self._number = -1

    def join(self) -> None:
        """Makes this adapter the newest one. Has no effect if the file cannot be locked."""
        self.leave()
        with suppress(ConfigError, OSError):
            if self._fd >= 0 and os.fstat(self._fd).st_nlink == 0:  # it was removed: others use another
                os.close(self._fd)
                self._fd = -1
            if self._fd < 0:
                self._fd, _ = self._lock.open("joined", os.O_RDWR | os.O_CREAT)
            number = self._after(0)
            while not lock_byte(self._fd, number):  # another adapter joins at the same time
                number += 1
            self._number = number

    def leave(self) -> None:
        """Gives up the place, after the connection with the runtime has ended."""
        if self._number >= 0:
            with suppress(OSError):
                unlock_byte(self._fd, self._number)
            self._number = -1

    @property
    def is_newest(self) -> bool:
        """Whether this adapter has joined, and no other adapter has joined since."""
        try:
            return self._number >= 0 and first_locked(self._fd, self._number + 1) is None
        except OSError:
            return False

    def _after(self, number: int) -> int:
        """Returns the number after all locked numbers. Raises OSError."""
        while (taken := first_locked(self._fd, number)) is not None:
            number = taken + 1
        return number
