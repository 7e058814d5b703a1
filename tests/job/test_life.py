"""The life of a work without processes: its table, and what each outcome of each program means under each policy.

That a work keeps its promises whatever happens in which order, the histories of a node show.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from nri.errors import LocalProtocolError
from v010_adapter.errors import PluginError
from v010_adapter.events.life import TRANSITIONS, Action, Ends, Input, Life, LifeState
from v010_adapter.programs.step import Failure, Policy


class Program(NamedTuple):
    name: str
    policy: Policy
    limit: str = "timeout"

    def error(self, reason: str) -> PluginError:
        return PluginError(self.name, reason)


def test_what_cannot_happen_is_an_error() -> None:
    of = Life[Program](Ends.AT_FAILURE, ())
    assert of.receive(Input.TURN) == (Action.ANSWER, Action.SETTLE)
    for input_ in (Input.TURN, Input.TIME_IS_UP, Input.LIMIT, Input.EXITED):
        with pytest.raises(LocalProtocolError):
            of.receive(input_)
    of = Life[Program](Ends.NEVER)
    of.time_is_up("late")
    with pytest.raises(LocalProtocolError, match="TIME_IS_UP in state QUEUED, answered"):
        of.time_is_up("late")


def test_an_answer_may_be_due_and_may_have_been_sent_in_each_state_that_waits_for_something() -> None:
    """PRINTED lasts no longer than a call: the answer, or the next program, follows at once."""
    for state in {*LifeState} - {LifeState.PRINTED, LifeState.OVER}:
        assert Input.SENT in TRANSITIONS[state]
        assert Input.TIME_IS_UP in TRANSITIONS[state] or state is LifeState.ENDING


def test_what_waits_loses_its_programs_with_the_runtime_and_a_delete_does_not() -> None:
    for ends, left_to_run in ((Ends.AT_FAILURE, ""), (Ends.NEVER, "abc")):
        of = chain(ends, (True, True, True), is_running=False)
        assert (of.drop(Input.RUNTIME_GONE), of.state, left(of)) == ((), LifeState.QUEUED, left_to_run)
        of = chain(ends, (True, True, True), is_running=False)
        assert Action.ANSWER in of.drop(Input.ANSWERED_ELSEWHERE)
        assert (of.state, left(of)) == (LifeState.QUEUED if left_to_run else LifeState.ENDING, left_to_run)


def test_a_container_can_be_held_once_in_each_state_in_which_the_time_of_its_event_can_be_up() -> None:
    for row in TRANSITIONS.values():
        assert (Input.HELD in row) is (Input.TIME_IS_UP in row)
    for is_running in (False, True):
        of = chain(Ends.AT_FAILURE, (True, True, True), is_running=is_running)
        state = of.state
        assert (of.hold(), of.state, of.is_held, of.is_answered) == ((Action.FREE_RUNTIME,), state, True, False)
        with pytest.raises(LocalProtocolError, match=f"HELD in state {state.name}, held"):
            of.hold()
        of.time_is_up("slow")
        assert (of.is_held, of.was_held, of.is_answered) == (False, True, True)
        with pytest.raises(LocalProtocolError, match="HELD in state ENDING, answered"):
            of.hold()


def test_what_is_refused_while_it_is_held_has_an_error_and_runs_nothing_more_whatever_may_fail() -> None:
    left_and_done = (Action.LEAVE, Action.ANSWER, Action.SETTLE)
    for fails, is_running in itertools.product(POLICIES, (False, True)):
        of = chain(Ends.AT_FAILURE, fails, is_running=is_running)
        of.hold()
        assert of.refuse("stopped") == (left_and_done if is_running else left_and_done[1:])
        assert (str(of.error), of.failures, left(of), of.state) == ("plugin: a: stopped", (), "", LifeState.ENDING)
    of = chain(Ends.AT_FAILURE, (False, True, True))
    of.hold()
    of.receive(Input.BEING_WRITTEN)
    assert of.refuse("stopped") == (Action.ANSWER, Action.SETTLE)


def test_a_program_that_is_being_written_is_spawned_again_until_the_event_is_due_and_has_failed_then() -> None:
    for ends, fails in itertools.product((Ends.AT_FAILURE, Ends.NEVER), POLICIES):
        of = chain(ends, fails)
        assert (of.receive(Input.BEING_WRITTEN), of.state) == ((Action.PAUSE,), LifeState.BUSY)
        assert (of.receive(Input.PAUSE_IS_OVER), of.state) == ((Action.SPAWN,), LifeState.RUNNING)
        of.receive(Input.BEING_WRITTEN)
        actions = of.time_is_up("busy")
        assert str(of.failures[0]) == "plugin: a: busy"
        if ends is Ends.NEVER or FAIL not in fails:
            assert (actions, of.state, left(of)) == ((Action.ANSWER, Action.SPAWN), LifeState.RUNNING, "bc")
            with pytest.raises(LocalProtocolError, match="BEING_WRITTEN in state RUNNING, answered"):
                of.receive(Input.BEING_WRITTEN)
            continue
        culprit = "abc"[fails.index(FAIL)]
        assert str(of.error) == f"plugin: {culprit}: {'' if culprit == 'a' else 'not run: a: '}busy"
        assert (actions, left(of)) == ((Action.ANSWER, Action.SETTLE), "")


FAIL, IGNORE = True, False
POLICIES = list(itertools.product((FAIL, IGNORE), repeat=3))


def chain(ends: Ends, fails: Sequence[bool], *, is_running: bool = True) -> Life[Program]:
    """A chain of programs whose failures fail the event, or do not; the first runs, or the chain has not begun."""
    of = Life(ends, [Program(name, Policy(fail)) for name, fail in zip("abc", fails, strict=True)])
    if is_running:
        of.receive(Input.TURN)
    return of


def exit_with(of: Life[Program], result: object) -> list[str]:
    """The running program exits; returns the failures."""
    of.exited(result)
    return list(map(str, of.failures))


def left(of: Life[Program]) -> str:
    """The names of the programs that are still to run."""
    return "".join(step.name for step in of.steps)


def test_a_failure_that_fails_the_event_ends_the_chain_unless_it_is_a_deletes() -> None:
    """The original's ended; but each plugin must get the delete of its create."""
    for ends, fails in itertools.product(Ends, POLICIES):
        of = chain(ends, fails)
        exit_with(of, "done")
        first = fails[1]
        assert exit_with(of, Failure("broken")) == ["plugin: b: broken"]
        assert (of.results, str(of.error)) == (["done"], "plugin: b: broken" if first else "None")
        assert left(of) == ("" if first and ends is not Ends.NEVER else "c")
        if left(of):
            assert exit_with(of, Failure("too")) == ["plugin: c: too"]
            second = "plugin: c: too" if fails[2] else "None"
            assert str(of.error) == ("plugin: b: broken" if first else second)


@pytest.mark.parametrize("is_running", [True, False])
def test_an_overdue_create_fails_if_a_plugin_that_is_not_done_must_not_and_a_delete_never(is_running: bool) -> None:
    for fails in POLICIES:
        of, delete = (chain(ends, fails, is_running=is_running) for ends in (Ends.AT_FAILURE, Ends.NEVER))
        delete.time_is_up("slow")
        assert (delete.failures, delete.error, left(delete)) == ([], None, "abc")
        of.time_is_up("slow")
        if FAIL not in fails:
            assert (of.failures, of.error, left(of)) == ([], None, "abc")
            continue
        culprit = "abc"[fails.index(FAIL)]
        reason = "slow" if is_running and culprit == "a" else "not run: a: slow" if is_running else "not run: slow"
        assert of.failures == [of.error]
        assert (str(of.error), left(of)) == (f"plugin: {culprit}: {reason}", "")


def test_a_chain_of_no_use_behind_the_answer_ends_with_it() -> None:
    for fails in POLICIES:
        of = chain(Ends.AT_ANSWER, fails)
        of.time_is_up("slow")
        errors = list(map(str, of.failures))
        ran = fails.index(FAIL) + 1 if FAIL in fails else 3
        assert errors == ["plugin: a: slow", "plugin: b: no time was left", "plugin: c: no time was left"][:ran]
        assert str(of.error) == (errors[-1] if FAIL in fails else "None")
        assert left(of) == ""
