"""The table of a job's transitions, looked at as a whole. The promises of a job are in `test_machine`."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.errors import LocalProtocolError
from adapter.programs.chain import Chain, Ends
from adapter.programs.machine import Job
from adapter.programs.states import TRANSITIONS, Action, Input, State

ALL = [
    (state, input_, transition)
    for state, row in TRANSITIONS.items()
    for input_, transitions in row.items()
    for transition in transitions
]


def test_every_state_has_a_row_and_is_reached_and_every_input_is_taken() -> None:
    assert set(TRANSITIONS) == set(State)
    assert {State.WAITING} | {after for _, _, (after, _) in ALL} == set(State)
    assert {input_ for _, input_, _ in ALL} == set(Input)


def test_what_is_done_fits_the_states_before_and_after() -> None:
    for state, input_, (after, actions) in ALL:
        case = f"{input_.name} in {state.name}: {[action.name for action in actions]}, then {after.name}"
        assert actions.count(Action.ANSWER) == (input_ is Input.TIME_IS_UP or after is State.ENDED), case
        assert actions.count(Action.NEXT) == (after is State.ENDED), case
        assert (Action.SPAWN in actions) == (after is State.STARTING), case
        assert Action.SPAWN not in actions[:-1], f"{case}: what follows on a spawn is done later"
        assert (Action.FEED in actions) == (input_ is Input.STARTED), case
        assert (Action.LET_WORK in actions) == (input_ is Input.PRINTED), case
        is_left = Action.LEAVE in actions or Action.LET_WORK in actions
        runs_on = after is not State.RUNNING and input_ is not Input.EXITED
        assert is_left == (state is State.RUNNING and runs_on), f"{case}: a running program is waited for or left"


def test_time_is_up_only_once() -> None:
    job: Job[Any] = Job(Chain(Ends.NEVER))
    job.time_is_up("late")
    with pytest.raises(LocalProtocolError, match="TIME_IS_UP in state WAITING, answered"):
        job.time_is_up("late")


def test_a_job_that_nobody_waits_for_gives_no_answer() -> None:
    job: Job[Any] = Job(Chain(Ends.NEVER, ()), is_answered=True)
    assert job.go() == (Action.NEXT,)
