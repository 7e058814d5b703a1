"""What a job is to its driver: the programs of one event, what becomes of their output, and who is told of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, Generic, NamedTuple, TypeVar

from nri import Answer
from v010_adapter.programs.chain import Step
from v010_adapter.programs.process import Process, Program

J = TypeVar("J")
S = TypeVar("S", bound=Step)

LARGE = 128 << 10
"""Bytes of a message from which on requests and results are worth a child process.

Measured: at most 0.7 µs for each byte of a message, and 10 ms for a process.
"""


class Observer(Generic[J, S]):
    """Is told what becomes of jobs, and may name their programs. This one does nothing."""

    def at_turn(self, job: J) -> None:
        """A job is about to start: the jobs before it have ended. `job.chain.set_steps` may name its programs now."""

    def before_feed(self, job: J, step: S) -> None:
        """A program has been started, and is about to get its request."""

    def on_not_started(self, job: J, step: S) -> bool:
        """A program could not be started; returns whether the log says so."""
        return True

    def on_done(self, job: J, step: S) -> None:
        """A program has exited, or is not waited for any longer."""

    def on_end(self, job: J) -> None:
        """A job has ended, and no program that was left without a result runs."""


class Work(ABC, Generic[S]):
    """The programs of one event."""

    @abstractmethod
    def _program(self, step: S) -> Program:
        """Returns what is executed. Raises ProgramError."""

    @abstractmethod
    def _request(self, step: S) -> bytes:
        """Returns what the program gets on stdin. Called after the spawn, while the program loads."""

    @abstractmethod
    def _result(self, step: S, process: Process) -> Any:
        """Returns the result that the program has printed, or a Failure; of a large container, a Deferred.

        Called once per program.
        """

    @abstractmethod
    def _response(self) -> Any:
        """Returns the answer to the event, which has not failed."""

    def _prepare(self) -> Generator[Answer[Any], Any, None]:
        """Makes the large parts of the first request apart. Called before the first program is started."""
        yield None

    def _has_result(self, process: Process) -> bool:
        """Whether the program, which still runs, has printed a result that counts."""
        return False

    def _on_left(self, process: Process) -> None:
        """A program without a result is not waited for any longer."""

    def _lateness_before(self) -> str:
        """Returns why the job has not started."""
        return "no time was left"


class Slowest(NamedTuple):
    """Of the programs that have printed a result, the one that took longest."""

    seconds: float
    step: Step

    def __str__(self) -> str:
        """Returns how long the program took, and what bounds it."""
        return f"{self.step.name} took {self.seconds:.1f} s ({self.step.limit})"
