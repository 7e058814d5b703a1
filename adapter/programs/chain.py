"""The programs of one event in their order, and what their outcomes mean for the event. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from adapter.errors import ProgramError


class Policy(NamedTuple):
    """What a program's failure means.

    `fail` is whether the event fails when the program fails. `timeout` is in seconds, 0 for as long as the event has.
    `kill` is whether the program is killed when its time is over.
    """

    fail: bool = True
    timeout: float = 0
    kill: bool = False


class Step(Protocol):
    """One program of a chain."""

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


class Ends(Enum):
    """What ends a chain before its last program."""

    AT_FAILURE = auto()
    """A failure that fails the event: creates and updates (containerd/nri client.go, InvokeWithSandbox)."""
    NEVER = auto()
    """Deletes: each plugin must get the delete that belongs to its create. The original ended these too."""
    AT_ANSWER = auto()
    """A failure that fails the event, and the answer: precreate hooks, whose edits are of no use after it."""


class Failure(NamedTuple):
    """A program has failed; `reason` says how."""

    reason: str


S = TypeVar("S", bound=Step)


class Chain(Generic[S]):
    """The programs of one event: run `current`, report how it went, until `is_over`."""

    def __init__(self, ends: Ends, steps: Sequence[S] | None = None) -> None:
        """Takes what ends the chain early, and the programs in their order.

        Without programs, `begin` names them later: who is owed a delete is known when the jobs before it have ended.
        """
        self.results: list[Any] = []
        """The results of the programs that have succeeded."""
        self.error: ProgramError | None = None
        """The error that the event fails with, if it fails."""
        self._ends = ends
        self._begun = steps is not None
        self._steps = list(steps or ())

    def begin(self, steps: Sequence[S]) -> None:
        """Names the programs."""
        self._begun = True
        self._steps = list(steps)

    @property
    def steps(self) -> Sequence[S]:
        """The programs that are not done, in their order; the first is the current one."""
        return self._steps

    @property
    def current(self) -> S:
        """The program to run next, or running. There is one unless the chain is over."""
        return self._steps[0]

    @property
    def is_over(self) -> bool:
        """Whether no program is left to run."""
        return self._begun and not self._steps

    def succeed(self, result: Any) -> None:
        """Takes the current program's result."""
        self.results.append(result)
        del self._steps[0]

    def fail(self, reason: str) -> ProgramError:
        """Takes the current program's failure and returns it as an error."""
        step = self._steps.pop(0)
        error = step.error(reason)
        if step.policy.fail:
            self.error = self.error or error
            if self._ends is not Ends.NEVER:
                self._steps.clear()
        return error

    def overdue(self, reason: str, *, is_running: bool) -> list[ProgramError]:
        """Judges the programs that are not done when the event must be answered; returns their failures.

        `reason` says why the current program is not done, `is_running` whether it runs. If the chain is not over
        afterwards, it goes on after the answer.
        """
        if self._ends is Ends.NEVER:
            return []
        if self._ends is Ends.AT_ANSWER:
            return self._fail_all(reason)
        late = self.current if is_running else None
        for step in self._steps:
            if step.policy.fail:
                cause = f"{late.name}: {reason}" if late else reason
                self.error = step.error(reason if step is late else f"not run: {cause}")
                self._steps.clear()
                return [self.error]
        return []

    def _fail_all(self, reason: str) -> list[ProgramError]:
        errors: list[ProgramError] = []
        while self._steps:
            errors.append(self.fail("no time was left" if errors else reason))
        return errors
