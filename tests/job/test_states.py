"""The table of a job's transitions, looked at as a whole."""

from __future__ import annotations

import pytest

from adapter.job.states import LATE, TRANSITIONS, Action, Input, State

ALL = [
    (state, input_, transition)
    for state, row in TRANSITIONS.items()
    for input_, transitions in row.items()
    for transition in transitions
]
WAITS_FOR_RUNTIME = {State.WAITING, State.STARTING, State.RUNNING, State.PRINTED}


def test_every_state_has_a_row_and_is_reached() -> None:
    assert set(TRANSITIONS) == set(State)
    assert {State.WAITING} | {after for _, _, (after, _) in ALL} == set(State)


def test_every_input_is_taken_in_some_state() -> None:
    assert {input_ for _, input_, _ in ALL} == set(Input)


@pytest.mark.parametrize(("state", "input_", "transition"), ALL, ids=str)
def test_the_event_is_answered_when_the_job_leaves_the_states_in_which_the_runtime_waits(
    state: State, input_: Input, transition: tuple[State, tuple[Action, ...]]
) -> None:
    after, actions = transition
    leaves = state in WAITS_FOR_RUNTIME and after not in WAITS_FOR_RUNTIME
    assert actions.count(Action.ANSWER) == leaves
    assert not (state in LATE and after in WAITS_FOR_RUNTIME), "an answer cannot be taken back"


@pytest.mark.parametrize(("state", "input_", "transition"), ALL, ids=str)
def test_what_is_done_fits_the_state_that_follows(
    state: State, input_: Input, transition: tuple[State, tuple[Action, ...]]
) -> None:
    after, actions = transition
    assert actions.count(Action.NEXT) == (after is State.ENDED)
    assert (Action.SPAWN in actions) == (after in (State.STARTING, State.LATE_STARTING))
    assert Action.SPAWN not in actions[:-1], "what follows on a spawn is done later"
    assert (Action.FEED in actions) == (input_ is Input.STARTED)
    assert (Action.LET_WORK in actions) == (input_ is Input.PRINTED)


@pytest.mark.parametrize(("state", "input_", "transition"), ALL, ids=str)
def test_a_program_that_runs_is_waited_for_or_left(
    state: State, input_: Input, transition: tuple[State, tuple[Action, ...]]
) -> None:
    after, actions = transition
    runs = state in (State.RUNNING, State.LATE_RUNNING)
    waited_for = after in (State.RUNNING, State.LATE_RUNNING)
    is_left = Action.LEAVE in actions or Action.LET_WORK in actions
    assert is_left == (runs and not waited_for and input_ is not Input.EXITED)
