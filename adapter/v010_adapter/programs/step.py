"""One program of an event: what it is called, and what its failure means."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from v010_adapter.errors import ProgramError


class Policy(NamedTuple):
    """What a program's failure means.

    `fail` is whether the event fails when the program fails. `timeout` is in seconds, 0 for as long as the event has.
    `kill` is whether the program is killed when its time is over.
    """

    fail: bool = True
    timeout: float = 0
    kill: bool = False


class Step(Protocol):
    """One program of an event."""

    @property
    def name(self) -> str:
        """What the program is called in errors."""

    @property
    def policy(self) -> Policy:
        """What the program's failure means."""

    @property
    def limit(self) -> str:
        """The setting that limits the program's time, for errors."""

    def error(self, reason: str) -> ProgramError:
        """Returns the error that the program's failure is reported as."""


class Failure(NamedTuple):
    """A program has failed; `reason` says how."""

    reason: str
