"""The states of a job and its transitions, as one table.

A job runs the programs of one event, one after the other. The runtime waits for the event's answer meanwhile. A job
whose event is answered before the last program has ended continues in the same states, and answers no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import TypeAlias


class Key(Enum):
    """A member that is a key in tables: its own hash is computed in Python."""

    __hash__ = object.__hash__


class JobState(Key):
    """Where a job is."""

    WAITING = auto()
    """An earlier job must end first."""
    STARTING = auto()
    """A program is about to be spawned."""
    RUNNING = auto()
    """A program runs and has printed no complete result."""
    PRINTED = auto()
    """A program has printed its result, works on, and is not waited for any longer."""
    ENDED = auto()


class Input(Key):
    """What happens to a job."""

    GO = auto()
    """The jobs before this one have ended."""
    STARTED = auto()
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
    """Spawn the chain's current program, and report STARTED or NOT_STARTED at once."""
    FEED = auto()
    """Write the request to the program's stdin."""
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

_SPAWN, _FEED, _SET_LIMIT, _ANSWER = Action.SPAWN, Action.FEED, Action.SET_LIMIT, Action.ANSWER
_KILL, _LEAVE, _LET_WORK, _NEXT = Action.KILL_IF_ASKED, Action.LEAVE, Action.LET_WORK, Action.NEXT

_WAIT: Transition = JobState.WAITING, (_ANSWER,)
_START: Transition = JobState.STARTING, (_SPAWN,)
_RUN: Transition = JobState.RUNNING, (_FEED, _SET_LIMIT)
_GO_LATE: Transition = JobState.RUNNING, (_ANSWER, _KILL, _SET_LIMIT)
_REPLACE: Transition = JobState.STARTING, (_LEAVE, _SPAWN)
_WORK: Transition = JobState.PRINTED, (_LET_WORK,)
_ANSWER_AND_START: Transition = JobState.STARTING, (_ANSWER, _SPAWN)
_END: Transition = JobState.ENDED, (_ANSWER, _NEXT)
_LEAVE_AND_END: Transition = JobState.ENDED, (_LEAVE, _ANSWER, _NEXT)

# Each input leads to one of two transitions: the left one if the chain has a program to run, the right one if not.
# An input that a state does not list cannot happen there: in STARTING, for example, no timer fires.
TRANSITIONS: Mapping[JobState, Row] = {
    JobState.WAITING: {
        Input.GO: (_START, _END),
        Input.TIME_IS_UP: (_WAIT, _END),
    },
    JobState.STARTING: {
        Input.STARTED: (_RUN, _RUN),
        Input.NOT_STARTED: (_START, _END),
    },
    JobState.RUNNING: {
        Input.EXITED: (_START, _END),
        Input.PRINTED: (_WORK, _WORK),
        Input.TIME_IS_UP: (_GO_LATE, _LEAVE_AND_END),
        Input.LIMIT: (_REPLACE, _LEAVE_AND_END),
    },
    JobState.PRINTED: {
        Input.TIME_IS_UP: (_ANSWER_AND_START, _END),
        Input.LIMIT: (_START, _END),
    },
    JobState.ENDED: {},
}
