"""Chains without processes: what each outcome of each program means under each policy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from adapter.errors import PluginError
from adapter.programs.chain import Chain, Ends, Policy
from adapter.programs.driver import quoted

NAMES = "abcd"
FAIL, IGNORE = True, False
POLICIES = list(itertools.product((FAIL, IGNORE), repeat=3))


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


def test_a_chain_is_over_once_it_is_known_to_have_no_programs() -> None:
    assert Chain[Program](Ends.NEVER, ()).is_over
    of = Chain[Program](Ends.NEVER)
    assert not of.is_over
    of.begin(())
    assert of.is_over


def cases(ends: Ends) -> Iterator[tuple[Chain[Program], int, Sequence[bool]]]:
    """Chains under each policy, after each number of successes."""
    for fails, at in itertools.product(POLICIES, range(3)):
        of = chain(ends, fails)
        for _ in range(at):
            of.succeed("done")
        yield of, at, fails


@pytest.mark.parametrize("ends", Ends)
def test_a_failure_that_fails_the_event_ends_the_chain_unless_it_is_a_deletes(ends: Ends) -> None:
    """The original's ended; but each plugin must get the delete of its create."""
    for of, at, fails in cases(ends):
        error = of.fail("broken")
        assert str(error) == f"plugin: {NAMES[at]}: broken"
        assert isinstance(error, PluginError)
        assert len(of.results) == at, "a failure is no result"
        assert of.error is (error if fails[at] is FAIL else None)
        is_end = fails[at] is FAIL and ends is not Ends.NEVER
        assert left(of) == ("" if is_end else NAMES[at + 1 : 3]), (at, fails)


def test_a_delete_fails_with_the_first_failure_that_is_not_tolerated() -> None:
    of = chain(Ends.NEVER, (IGNORE, FAIL, FAIL))
    tolerated, first, second = of.fail("x"), of.fail("y"), of.fail("z")
    assert of.error is first
    assert [str(error) for error in (tolerated, second)] == ["plugin: a: x", "plugin: c: z"]


@pytest.mark.parametrize("is_running", [True, False])
def test_an_overdue_create_fails_if_a_plugin_that_is_not_done_must_not(is_running: bool) -> None:
    for of, at, fails in cases(Ends.AT_FAILURE):
        errors = of.overdue("slow", is_running=is_running)
        culprit = next((number for number in range(at, 3) if fails[number] is FAIL), None)
        if culprit is None:
            assert (errors, of.error, left(of)) == ([], None, NAMES[at:3])
            continue
        running = NAMES[at] if is_running else ""
        reason = "slow" if running == NAMES[culprit] else f"not run: {running}: slow" if running else "not run: slow"
        assert errors == [of.error]
        assert str(of.error) == f"plugin: {NAMES[culprit]}: {reason}"
        assert left(of) == ""


def test_an_overdue_delete_goes_on_whatever_the_policy() -> None:
    for is_running in (True, False):
        for of, at, _ in cases(Ends.NEVER):
            assert of.overdue("slow", is_running=is_running) == []
            assert (of.error, left(of)) == (None, NAMES[at:3])


def test_a_chain_of_no_use_behind_the_answer_ends_with_it() -> None:
    for fails in POLICIES:
        of = chain(Ends.AT_ANSWER, fails)
        errors = [str(error) for error in of.overdue("slow", is_running=True)]
        ran = fails.index(FAIL) + 1 if FAIL in fails else 3
        assert errors == ["plugin: a: slow", "plugin: b: no time was left", "plugin: c: no time was left"][:ran]
        assert str(of.error) == (errors[-1] if FAIL in fails else "None")
        assert left(of) == ""


# What of a program's output stands in log lines and errors: its beginning, without the values of variables


def test_an_output_is_shown_up_to_its_two_hundredth_byte() -> None:
    for output, shown in {
        b"": "<empty>",
        b"oops\n": r"'oops\n'",
        b"\xff\x1b[31m": r"'\\xff\x1b[31m'",
        b"x" * 200: f"'{'x' * 200}'",
        b"x" * 201: f"'{'x' * 200}' …",
        b"/usr/bin/env: environ": "'/usr/bin/env: environ'",
    }.items():
        assert quoted(output) == shown


def test_an_output_that_is_no_result_shows_no_values_of_variables() -> None:
    for key in (b'"env"', b'"ENV"', b"'env'", rb"\"env\""):
        for values in (b': ["PASSWORD=hunter2"]', b':["A', b"\n:\n{"):
            assert quoted(b"x{" + key + values) == "'x{' …"
