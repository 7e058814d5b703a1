"""A process that owns a state directory, with its ledger and its journal; the death of it."""

from __future__ import annotations

import os
from pathlib import Path

from adapter.host.lock import Lock
from adapter.host.state_directory import Identity
from adapter.owed.journal import Journal
from adapter.owed.ledger import Ledger


class Held(Lock):
    """A lock whose process can die."""

    lock = -1

    def open(self, name: str, flags: int) -> tuple[int, Identity]:
        opened = super().open(name, flags)
        if name == "lock":
            self.lock = opened[0]
        return opened

    def die(self) -> None:
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


class Process:
    """What a process becomes that takes the lock."""

    def __init__(self, directory: Path) -> None:
        self.owner, self.ledger = Held(str(directory)), Ledger()
        assert self.owner.take()
        self.journal = Journal(self.owner)
        self.ledger.resume_from(self.journal)

    def care(self) -> None:
        """What happens at each event, and from time to time."""
        self.owner.repair()
        self.ledger.repair()

    @property
    def fault(self) -> str:
        return self.owner.fault or self.ledger.fault

    def die(self) -> None:
        self.owner.die()
        self.ledger.resume_from(None)
