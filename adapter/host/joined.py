"""The adapters of a node in the order in which they have joined the runtime.

Each holds the lock of one byte of a file: of its number. The locks end with their processes.
"""

from __future__ import annotations

import os
from contextlib import suppress

from adapter.errors import ConfigError
from adapter.host.lock import Lock, first_locked, lock_byte, unlock_byte


class Joined:
    """The place of this adapter among them."""

    def __init__(self, lock: Lock) -> None:
        """Takes the lock of the state directory, where the file is."""
        self._lock = lock
        self._fd = -1
        self._number = -1

    def join(self) -> None:
        """Makes this adapter the newest one. Where there are no locks, it stays what it is."""
        self.leave()
        with suppress(ConfigError, OSError):
            if self._fd < 0:
                self._fd, _ = self._lock.open("joined", os.O_RDWR | os.O_CREAT)
            number = self._after(0)
            while not lock_byte(self._fd, number):  # another one joins
                number += 1
            self._number = number

    def leave(self) -> None:
        """Gives up the place: the connection with the runtime is gone."""
        if self._number >= 0:
            with suppress(OSError):
                unlock_byte(self._fd, self._number)
            self._number = -1

    @property
    def is_newest(self) -> bool:
        """Whether this adapter has joined, and none has joined since."""
        try:
            return self._number >= 0 and first_locked(self._fd, self._number + 1) is None
        except OSError:
            return False

    def _after(self, number: int) -> int:
        """Returns the number after all that are taken. Raises OSError."""
        while (taken := first_locked(self._fd, number)) is not None:
            number = taken + 1
        return number
