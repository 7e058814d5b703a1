"""A job as a state machine without input and output: the programs of one event, from its arrival to the last exit.

The driver reports what happens by calling a method, and carries out the actions that the method returns. Clocks,
processes and the ledger are the driver's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from adapter.errors import LocalProtocolError, ProgramError
from adapter.programs.chain import Chain, Failure, Step
from adapter.programs.states import TRANSITIONS, Action, Actions, Input, JobState

S = TypeVar("S", bound=Step)


class JobMachine(Generic[S]):
    """One event's work. Its event is answered when the chain is over or when its time is up, whichever comes first."""

    def __init__(self, chain: Chain[S], *, is_answered: bool = False) -> None:
        """Takes the programs. `is_answered` from the start is an event whose answer nobody waits for."""
        self.chain = chain
        self.state = JobState.WAITING
        self.is_answered = is_answered
        """Whether the event has been answered."""
        self.failures: Sequence[ProgramError] = ()
        """The failures that the last input has brought."""

    def go(self) -> Actions:
        """The jobs before this one have ended."""
        return self._receive(Input.GO)

    def started(self) -> Actions:
        """The current program has been spawned."""
        return self._receive(Input.STARTED)

    def not_started(self, reason: str) -> Actions:
        """The current program could not be spawned."""
        return self._receive(Input.NOT_STARTED, [self.chain.fail(reason)])

    def exited(self, result: Any) -> Actions:
        """The current program has exited. `result` is its result, or a Failure."""
        return self._receive(Input.EXITED, self._judge(result))

    def printed(self, result: Any) -> Actions:
        """The current program still runs, but its time is over and it has printed a result: `result`, or a Failure.

        TIME_IS_UP or LIMIT must follow at once.
        """
        return self._receive(Input.PRINTED, self._judge(result))

    def time_is_up(self, reason: str) -> Actions:
        """The event must be answered now. `reason` says why the chain is not over."""
        failures = [] if self.chain.is_over else self.chain.overdue(reason, is_running=self.state is JobState.RUNNING)
        return self._receive(Input.TIME_IS_UP, failures)

    def limit_reached(self, reason: str) -> Actions:
        """The current program's time is over."""
        return self._receive(Input.LIMIT, [self.chain.fail(reason)] if self.state is JobState.RUNNING else ())

    def _judge(self, result: Any) -> Sequence[ProgramError]:
        if isinstance(result, Failure):
            return [self.chain.fail(result.reason)]
        self.chain.succeed(result)
        return ()

    def _receive(self, input_: Input, failures: Sequence[ProgramError] = ()) -> Actions:
        self.failures = failures
        transitions = TRANSITIONS[self.state].get(input_)
        if transitions is None or (input_ is Input.TIME_IS_UP and self.is_answered):
            raise LocalProtocolError(f"{input_.name} in state {self.state.name}{', answered' * self.is_answered}")
        self.state, actions = transitions[self.chain.is_over]
        if self.is_answered:
            return tuple(action for action in actions if action is not Action.ANSWER)
        self.is_answered = Action.ANSWER in actions
        return actions
