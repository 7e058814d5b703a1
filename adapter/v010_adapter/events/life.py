"""The programs of one event in their order, and what their outcomes mean for the event: a state machine. Pure.

The programs run one after the other; the runtime waits for the event's answer meanwhile. A job whose event is answered
before the last program has ended continues in the same states, and answers no more. The driver reports what happens by
calling a method, and carries out the actions that the method returns. Clocks and processes are the driver's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, Generic, TypeAlias, TypeVar

from nri.errors import LocalProtocolError
from v010_adapter.base.keys import Key
from v010_adapter.errors import ProgramError
from v010_adapter.programs.step import Failure, Step


class Ends(Enum):
    """What ends a chain before its last program."""

    AT_FAILURE = auto()
    """A failure that fails the event: creates and updates (containerd/nri client.go, InvokeWithSandbox)."""
    NEVER = auto()
    """Deletes: each plugin must get the delete that belongs to its create. The original ended these too."""
    AT_ANSWER = auto()
    """A failure that fails the event, and the answer: precreate hooks, whose edits are of no use after it."""


class JobState(Key):
    """Where a job is."""

    WAITING = auto()
    """An earlier job must end first, or the first request of a large container is being made."""
    RUNNING = auto()
    """A program runs, or is about to be spawned, and has printed no complete result."""
    PRINTED = auto()
    """A program has printed its result, works on, and is not waited for any longer."""
    ENDED = auto()


class Input(Key):
    """What happens to a job."""

    GO = auto()
    """The jobs before this one have ended."""
    NOT_STARTED = auto()
    """The program could not be spawned."""
    PRINTED = auto()
    """The time of the program is over, and its complete result has been read; the program still runs."""
    EXITED = auto()
    TIME_IS_UP = auto()
    """The event must be answered now. This cannot happen to a job whose event is answered."""
    LIMIT = auto()
    """The program's own time limit is reached, or the limit for late programs."""


class Action(Key):
    """What the driver must do, in the order of the list."""

    SPAWN = auto()
    """Spawn the chain's current program, write the request to its stdin, and set its limit.

    NOT_STARTED must be reported at once if it cannot be spawned.
    """
    SET_LIMIT = auto()
    """Set the timer for the program's time limit."""
    ANSWER = auto()
    """Answer the event. Left out if the event is answered."""
    KILL_IF_ASKED = auto()
    """Kill the late program if its policy says so. The job still waits for its exit."""
    LEAVE = auto()
    """Stop waiting for a program without a result: its policy says whether it is killed."""
    LET_WORK = auto()
    """Stop waiting for a program that has printed its result."""
    NEXT = auto()
    """The job has ended: start the jobs that wait for it."""


Actions: TypeAlias = tuple[Action, ...]
Transition: TypeAlias = tuple[JobState, Actions]
Row: TypeAlias = Mapping[Input, tuple[Transition, Transition]]

# A global name is faster than an enumeration's attribute.
AT_FAILURE, NEVER, AT_ANSWER = Ends
WAITING, RUNNING, PRINTED, ENDED = JobState
_GO, _NOT_STARTED, _PRINTED, _EXITED, _TIME_IS_UP, _LIMIT = Input
SPAWN, _SET_LIMIT, _ANSWER, _KILL, _LEAVE, _LET_WORK, _NEXT = Action

_WAIT: Transition = WAITING, (_ANSWER,)
_START: Transition = RUNNING, (SPAWN,)
_GO_LATE: Transition = RUNNING, (_ANSWER, _KILL, _SET_LIMIT)
_REPLACE: Transition = RUNNING, (_LEAVE, SPAWN)
_WORK: Transition = PRINTED, (_LET_WORK,)
_ANSWER_AND_START: Transition = RUNNING, (_ANSWER, SPAWN)
_END: Transition = ENDED, (_ANSWER, _NEXT)
_LEAVE_AND_END: Transition = ENDED, (_LEAVE, _ANSWER, _NEXT)

# Each input leads to one of two transitions: the left one if the chain has a program to run, the right one if not.
# An input that a state does not list cannot happen there.
TRANSITIONS: Mapping[JobState, Row] = {
    WAITING: {
        _GO: (_START, _END),
        _TIME_IS_UP: (_WAIT, _END),
    },
    RUNNING: {
        _NOT_STARTED: (_START, _END),
        _EXITED: (_START, _END),
        _PRINTED: (_WORK, _WORK),
        _TIME_IS_UP: (_GO_LATE, _LEAVE_AND_END),
        _LIMIT: (_REPLACE, _LEAVE_AND_END),
    },
    PRINTED: {
        _TIME_IS_UP: (_ANSWER_AND_START, _END),
        _LIMIT: (_START, _END),
    },
    ENDED: {},
}


S = TypeVar("S", bound=Step)


class Chain(Generic[S]):
    """The programs of one event, from its arrival to the last exit.

    The event is answered when no program is left to run or when its time is up, whichever comes first.
    """

    def __init__(self, ends: Ends, steps: Sequence[S] | None = None, *, is_answered: bool = False) -> None:
        """Takes what ends the chain early, and the programs in their order.

        Without programs, `set_steps` names them later: who is owed a delete is known when the jobs before it have
        ended. `is_answered` from the start is an event whose answer nobody waits for.
        """
        self.state = WAITING
        self.is_answered = is_answered
        """Whether the event has been answered."""
        self.results: list[Any] = []
        """The results of the programs that have succeeded."""
        self.error: ProgramError | None = None
        """The error that the event fails with, if it fails."""
        self.failures: Sequence[ProgramError] = ()
        """The failures that the last input has brought."""
        self._ends = ends
        self._has_steps = steps is not None
        self.steps = list(steps or ())
        """The programs that are not done, in their order; the first is the current one: to be run next, or running."""

    def set_steps(self, steps: Sequence[S]) -> None:
        """Names the programs."""
        self._has_steps = True
        self.steps = list(steps)

    @property
    def is_over(self) -> bool:
        """Whether no program is left to run."""
        return self._has_steps and not self.steps

    def go(self) -> Actions:
        """The jobs before this one have ended."""
        return self._receive(_GO)

    def not_started(self, reason: str) -> Actions:
        """The current program could not be spawned."""
        return self._receive(_NOT_STARTED, [self._fail(reason)])

    def exited(self, result: Any) -> Actions:
        """The current program has exited. `result` is its result, or a Failure."""
        return self._receive(_EXITED, self._judge(result))

    def printed(self, result: Any) -> Actions:
        """The current program still runs, but its time is over and it has printed a result: `result`, or a Failure.

        TIME_IS_UP or LIMIT must follow at once.
        """
        return self._receive(_PRINTED, self._judge(result))

    def time_is_up(self, reason: str) -> Actions:
        """The event must be answered now. `reason` says why the current program is not done.

        If the chain is not over afterwards, it goes on after the answer.
        """
        return self._receive(_TIME_IS_UP, self._overdue(reason))

    def limit_reached(self, reason: str) -> Actions:
        """The current program's time is over."""
        return self._receive(_LIMIT, [self._fail(reason)] if self.state is RUNNING else ())

    def _receive(self, input_: Input, failures: Sequence[ProgramError] = ()) -> Actions:
        self.failures = failures
        transitions = TRANSITIONS[self.state].get(input_)
        if transitions is None or (self.is_answered and input_ is _TIME_IS_UP):
            raise LocalProtocolError(f"{input_.name} in state {self.state.name}{', answered' * self.is_answered}")
        self.state, actions = transitions[self._has_steps and not self.steps]
        if self.is_answered:
            return tuple(action for action in actions if action is not _ANSWER)
        self.is_answered = _ANSWER in actions
        return actions

    def _judge(self, result: Any) -> Sequence[ProgramError]:
        if isinstance(result, Failure):
            return [self._fail(result.reason)]
        self.results.append(result)
        del self.steps[0]
        return ()

    def _fail(self, reason: str) -> ProgramError:
        """Takes the current program's failure and returns it as an error."""
        step = self.steps.pop(0)
        error = step.error(reason)
        if step.policy.fail:
            self.error = self.error or error
            if self._ends is not NEVER:
                self.steps.clear()
        return error

    def _overdue(self, reason: str) -> list[ProgramError]:
        """Judges the programs that are not done when the event must be answered; returns their failures."""
        errors: list[ProgramError] = []
        if self._ends is AT_ANSWER:
            while self.steps:
                errors.append(self._fail("no time was left" if errors else reason))
        elif self._ends is AT_FAILURE and (step := next((one for one in self.steps if one.policy.fail), None)):
            if self.state is not RUNNING:
                reason = f"not run: {reason}"
            elif step is not self.steps[0]:
                reason = f"not run: {self.steps[0].name}: {reason}"
            self.error = step.error(reason)
            self.steps.clear()
            errors.append(self.error)
        return errors
