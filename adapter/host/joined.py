"""The order in which the adapters of a node have joined the runtime.

Each adapter has a number, and locks the byte with this number in a file. The locks end with their processes.
"""

from __future__ import annotations

import os
from contextlib import suppress

from adapter.errors import ConfigError
from adapter.host.lock import Lock, first_locked, lock_byte, unlock_byte

_FIRST = 1 << 32
"""The number of the first adapter of a node."""


class Joined:
    """The place of this adapter in the order."""

    def __init__(self, lock: Lock) -> None:
        """Takes the lock of the state directory, where the file is."""
        self._lock = lock
        self._fd = -1
        self._number = -1

    def join(self, *, as_oldest: bool = False) -> None:
        """Makes this adapter the newest one, or the oldest. Has no effect if the file cannot be locked."""
        self.leave()
        with suppress(ConfigError, OSError):
            self._open()
            number, step = (self._before_all(), -1) if as_oldest else (self._after_all(), 1)
            while not lock_byte(self._fd, number):  # another adapter joins at the same time
                number += step
            self._number = number

    def leave(self) -> None:
        """Gives up the place, after the connection with the runtime has ended."""
        if self._number >= 0:
            with suppress(OSError):
                unlock_byte(self._fd, self._number)
            self._number = -1

    @property
    def has_others(self) -> bool:
        """Whether other adapters have joined."""
        try:
            self._open()
            return first_locked(self._fd, 0) is not None
        except (ConfigError, OSError):
            return False

    @property
    def is_newest(self) -> bool:
        """Whether this adapter has joined, and no other adapter has joined since."""
        try:
            return self._number >= 0 and first_locked(self._fd, self._number + 1) is None
        except OSError:
            return False

    def _open(self) -> None:
        """Opens the file, once. Raises ConfigError."""
        if self._fd < 0:
            self._fd, _ = self._lock.open("joined", os.O_RDWR | os.O_CREAT)

    def _after_all(self) -> int:
        """Returns the number after all locked numbers. Raises OSError."""
        number = _FIRST
        while (taken := first_locked(self._fd, number)) is not None:
            number = taken + 1
        return number

    def _before_all(self) -> int:
        """Returns the number before all locked numbers. Raises OSError."""
        number = _FIRST
        while (taken := first_locked(self._fd, 0, number)) is not None:
            number = taken
        return number - 1
