"""Chains without processes: what each outcome of each program means under each policy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from adapter.errors import PluginError
from adapter.job.chain import Chain, Ends, Policy

NAMES = "abcd"
FAIL, IGNORE = True, False
POLICIES = list(itertools.product((FAIL, IGNORE), repeat=3))
EARLY = [Ends.AT_FAILURE, Ends.AT_ANSWER]


class Program(NamedTuple):
    name: str
    policy: Policy
    limit: str = "timeout"

    def error(self, reason: str) -> PluginError:
        return PluginError(self.name, reason)


def chain(ends: Ends, fails: Sequence[bool]) -> Chain[Program]:
    """A chain of programs whose failures fail the event, or do not."""
    return Chain(ends, [Program(name, Policy(fail)) for name, fail in zip(NAMES, fails, strict=False)])


def left(of: Chain[Program]) -> str:
    """The names of the programs that are still to run."""
    names = "".join(step.name for step in of.steps)
    assert of.is_over == (not names)
    return names


def test_programs_run_in_order_and_results_are_gathered() -> None:
    of = chain(Ends.AT_FAILURE, (FAIL, IGNORE, FAIL))
    for index, name in enumerate("abc"):
        assert of.current.name == name
        assert of.results == ["result of a", "result of b", "result of c"][:index]
        of.succeed(f"result of {name}")
    assert of.is_over
    assert of.results == ["result of a", "result of b", "result of c"]
    assert of.error is None


def test_a_chain_without_programs_is_over() -> None:
    assert Chain[Program](Ends.NEVER, ()).is_over


def test_a_chain_whose_programs_are_not_known_yet_is_not_over() -> None:
    of = Chain[Program](Ends.NEVER)
    assert not of.is_over
    of.begin(())
    assert of.is_over


@pytest.mark.parametrize("ends", EARLY)
@pytest.mark.parametrize("fails", POLICIES)
@pytest.mark.parametrize("at", range(3))
def test_a_failure_that_fails_the_event_ends_the_chain(at: int, fails: Sequence[bool], ends: Ends) -> None:
    of = chain(ends, fails)
    for _ in range(at):
        of.succeed("done")
    error = of.fail("broken")
    assert str(error) == f"plugin: {NAMES[at]}: broken"
    assert isinstance(error, PluginError)
    assert len(of.results) == at, "a failure is no result"
    assert of.error is (error if fails[at] is FAIL else None)
    assert left(of) == ("" if fails[at] is FAIL else NAMES[at + 1 : 3])


@pytest.mark.parametrize("fails", POLICIES)
@pytest.mark.parametrize("at", range(3))
def test_a_delete_goes_on_after_any_failure(at: int, fails: Sequence[bool]) -> None:
    """The original's ended; but each plugin must get the delete of its create."""
    of = chain(Ends.NEVER, fails)
    for _ in range(at):
        of.succeed("done")
    error = of.fail("broken")
    assert of.error is (error if fails[at] is FAIL else None)
    assert left(of) == NAMES[at + 1 : 3]


def test_a_delete_fails_with_the_first_failure_that_is_not_tolerated() -> None:
    of = chain(Ends.NEVER, (IGNORE, FAIL, FAIL))
    tolerated, first, second = of.fail("x"), of.fail("y"), of.fail("z")
    assert of.error is first
    assert [str(error) for error in (tolerated, second)] == ["plugin: a: x", "plugin: c: z"]


@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize("fails", POLICIES)
@pytest.mark.parametrize("at", range(3))
def test_an_overdue_create_fails_if_a_plugin_that_is_not_done_must_not(
    at: int, fails: Sequence[bool], is_running: bool
) -> None:
    of = chain(Ends.AT_FAILURE, fails)
    for _ in range(at):
        of.succeed("done")
    errors = of.overdue("slow", is_running=is_running)
    culprit = next((number for number in range(at, 3) if fails[number] is FAIL), None)
    if culprit is None:
        assert errors == []
        assert of.error is None
        assert left(of) == NAMES[at:3]
        return
    running = NAMES[at] if is_running else ""
    reason = "slow" if running == NAMES[culprit] else f"not run: {running}: slow" if running else "not run: slow"
    assert errors == [of.error]
    assert str(of.error) == f"plugin: {NAMES[culprit]}: {reason}"
    assert left(of) == ""


@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize("fails", POLICIES)
@pytest.mark.parametrize("at", range(3))
def test_an_overdue_delete_goes_on_whatever_the_policy(at: int, fails: Sequence[bool], is_running: bool) -> None:
    of = chain(Ends.NEVER, fails)
    for _ in range(at):
        of.succeed("done")
    assert of.overdue("slow", is_running=is_running) == []
    assert of.error is None
    assert left(of) == NAMES[at:3]


@pytest.mark.parametrize("fails", POLICIES)
def test_a_chain_of_no_use_behind_the_answer_ends_with_it(fails: Sequence[bool]) -> None:
    of = chain(Ends.AT_ANSWER, fails)
    errors = [str(error) for error in of.overdue("slow", is_running=True)]
    ran = fails.index(FAIL) + 1 if FAIL in fails else 3
    assert errors == ["plugin: a: slow", "plugin: b: no time was left", "plugin: c: no time was left"][:ran]
    assert str(of.error) == (errors[-1] if FAIL in fails else "None")
    assert left(of) == ""
