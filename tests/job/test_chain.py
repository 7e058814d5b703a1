"""Chains without processes: what each outcome of each program means under each policy.

That a chain keeps its promises whatever happens in which order, the histories of a node show.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from nri.errors import LocalProtocolError
from v010_adapter.errors import PluginError
from v010_adapter.events.life import Action, Ends, Input, Life
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


def test_a_chain_that_nobody_waits_for_gives_no_answer() -> None:
    assert Life[Program](Ends.NEVER, (), is_answered=True).receive(Input.TURN) == (Action.SETTLE,)


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


def test_programs_run_in_order_and_results_are_gathered() -> None:
    of = chain(Ends.AT_FAILURE, (FAIL, IGNORE, FAIL))
    for index, name in enumerate("abc"):
        assert (of.steps[0].name, of.results, of.is_over) == (name, [1, 2, 3][:index], False)
        exit_with(of, index + 1)
    assert (of.results, of.error, of.is_over) == ([1, 2, 3], None, True)


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
