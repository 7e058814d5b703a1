"""Chains without processes: what each outcome of each plugin means under each policy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from adapter.errors import PluginError
from adapter.legacy.chain import CREATE, DELETE, Chain, Policy, Step
from adapter.legacy.config import Entry
from adapter.legacy.result import Result

NAMES = "abcd"
FAIL, IGNORE = True, False
POLICIES = list(itertools.product((FAIL, IGNORE), repeat=3))


def chain(state: str, fails: Sequence[bool]) -> Chain:
    """A chain of plugins that must not fail, or may, in events of this state. In the others it is the other way."""
    steps = []
    for name, fail in zip(NAMES, fails, strict=False):
        policy = Policy(fail_create=fail == (state == CREATE), fail_delete=fail == (state == DELETE))
        steps.append(Step(Entry(name, 0, "0.1", None), policy))
    return Chain(state, steps)


def left(of: Chain) -> str:
    """The names of the plugins that are still to run, which there is no other way to learn than to let them."""
    names = ""
    while (step := of.current) is not None:
        names += step.entry.type
        of.succeed(Result())
    return names


def test_plugins_have_their_turn_in_order_and_results_are_gathered() -> None:
    of = chain(CREATE, (FAIL, IGNORE, FAIL))
    results = [Result(f"result of {name}") for name in "abc"]
    for name, result in zip("abc", results, strict=True):
        assert of.current is not None
        assert of.current.entry.type == name
        assert of.results == results[: "abc".index(name)]
        assert of.succeed(result) is None
    assert of.current is None
    assert of.results == results
    assert of.error is None


def test_a_chain_of_nothing_is_at_its_end() -> None:
    assert Chain(DELETE, ()).current is None


@pytest.mark.parametrize("report", ["a failure", "a result with an error"])
@pytest.mark.parametrize("fails", POLICIES)
@pytest.mark.parametrize("at", range(3))
def test_a_create_ends_with_a_failure_that_is_not_tolerated(at: int, fails: Sequence[bool], report: str) -> None:
    of = chain(CREATE, fails)
    for _ in range(at):
        of.succeed(Result())
    error = of.fail("broken") if report == "a failure" else of.succeed(Result(error="broken"))
    assert str(error) == f"plugin: {NAMES[at]}: broken"
    assert isinstance(error, PluginError)
    assert len(of.results) == at, "a failure is no result"
    if fails[at] is FAIL:
        assert of.error is error
        assert left(of) == ""
    else:
        assert of.error is None
        assert left(of) == NAMES[at + 1 : 3]


@pytest.mark.parametrize("fails", POLICIES)
@pytest.mark.parametrize("at", range(3))
def test_a_delete_goes_on_after_any_failure(at: int, fails: Sequence[bool]) -> None:
    """The original's ended; but each plugin must get the delete of its create."""
    of = chain(DELETE, fails)
    for _ in range(at):
        of.succeed(Result())
    error = of.fail("broken")
    assert of.error is (error if fails[at] is FAIL else None)
    assert left(of) == NAMES[at + 1 : 3]


def test_a_delete_fails_with_the_first_failure_that_is_not_tolerated() -> None:
    of = chain(DELETE, (IGNORE, FAIL, FAIL))
    tolerated, first, second = of.fail("x"), of.fail("y"), of.fail("z")
    assert of.error is first
    assert [str(error) for error in (tolerated, second)] == ["plugin: a: x", "plugin: c: z"]


def test_a_result_with_an_error_is_not_handed_on() -> None:
    of = chain(CREATE, (IGNORE, IGNORE))
    of.succeed(Result("a", error="no"))
    of.succeed(Result("b"))
    assert of.results == [Result("b")]


@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("fails", POLICIES)
@pytest.mark.parametrize("at", range(3))
def test_an_overdue_create_fails_if_a_plugin_that_is_not_done_must_not(
    at: int, fails: Sequence[bool], started: bool
) -> None:
    of = chain(CREATE, fails)
    for _ in range(at):
        of.succeed(Result())
    error = of.overdue("slow", started=started)
    assert of.error is error
    culprit = next((number for number in range(at, 3) if fails[number] is FAIL), None)
    if culprit is None:
        assert error is None
        assert left(of) == NAMES[at:3]
        return
    running = NAMES[at] if started else ""
    reason = "slow" if running == NAMES[culprit] else f"not run: {running}: slow" if running else "not run: slow"
    assert str(error) == f"plugin: {NAMES[culprit]}: {reason}"
    assert left(of) == ""


@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("fails", POLICIES)
@pytest.mark.parametrize("at", range(3))
def test_an_overdue_delete_goes_on_whatever_the_policy(at: int, fails: Sequence[bool], started: bool) -> None:
    of = chain(DELETE, fails)
    for _ in range(at):
        of.succeed(Result())
    assert of.overdue("slow", started=started) is None
    assert of.error is None
    assert left(of) == NAMES[at:3]


def test_by_default_creates_fail_and_deletes_do_not() -> None:
    assert Policy() == (True, False, 0, False)
