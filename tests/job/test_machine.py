"""The machine driven by random histories: whatever happens, what a job promises holds. Chains without processes.

The model is the promise, not the table: one answer, each program spawned at most once, none waited for twice, an end.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from adapter.errors import LocalProtocolError, PluginError
from adapter.programs.chain import Chain, Ends, Failure, Policy
from adapter.programs.driver import quoted
from adapter.programs.machine import JobMachine
from adapter.programs.states import Action, Actions, JobState

HISTORIES = 500


class Program(NamedTuple):
    name: str
    policy: Policy
    limit: str = "timeout"

    def error(self, reason: str) -> PluginError:
        return PluginError(self.name, reason)


class Play:
    """Drives one job at random and notes what it asks for."""

    def __init__(self, dice: random.Random, ends: Ends, fails: list[bool]) -> None:
        self.dice = dice
        self.ends = ends
        self.programs = [Program(f"p{index}", Policy(fail)) for index, fail in enumerate(fails)]
        self.job = JobMachine(Chain(ends, None if ends is Ends.NEVER else self.programs))
        self.spawned: list[str] = []
        self.fed: list[str] = []
        self.running = ""
        self.failed: list[str] = []
        self.answers = 0
        self.error: PluginError | None = None
        self.ended = 0
        self.is_late = False
        self.reported: list[str] = []

    def run(self) -> Play:
        waiting = True
        time_is_up = False
        for _ in range(100):
            if self.ended:
                break
            choices = []
            if waiting:
                choices.append("go")
            if not time_is_up and not self.answers:
                choices.append("time")
            if self.running:
                choices += ["exit", "exit", "fail", "limit"]
            choice = self.dice.choice(choices)
            if choice == "go":
                waiting = False
                if self.ends is Ends.NEVER:
                    self.job.chain.begin(self.programs)
                self.do(self.job.go())
            elif choice == "time":
                time_is_up = True
                self.print_perhaps()
                self.do(self.job.time_is_up("late"))
            elif choice == "limit":
                self.print_perhaps()
                if self.running:
                    self.failed.append(self.running)
                self.do(self.job.limit_reached("late"))
            else:
                self.exit(ok=choice == "exit")
        return self

    def exit(self, *, ok: bool) -> None:
        name, self.running = self.running, ""
        if not ok:
            self.failed.append(name)
        self.do(self.job.exited(f"result of {name}" if ok else Failure("broken")))

    def print_perhaps(self) -> None:
        """The program may have printed its result though it still runs."""
        if self.running and self.dice.random() < 0.3:
            name = self.running
            ok = self.dice.random() < 0.7
            if not ok:
                self.failed.append(name)
            self.do(self.job.printed(f"result of {name}" if ok else Failure("broken")))
            assert not self.running

    def do(self, actions: Actions) -> None:
        self.reported += [error.program for error in self.job.failures if isinstance(error, PluginError)]
        for action in actions:
            getattr(self, f"on_{action.name.lower()}")()

    def on_spawn(self) -> None:
        step = self.job.chain.current
        assert step.name not in self.spawned, "spawned twice"
        assert not self.running, "two programs at once"
        if self.dice.random() < 0.2:
            self.failed.append(step.name)
            self.do(self.job.not_started("no such file"))
            return
        self.spawned.append(step.name)
        self.is_late |= bool(self.answers)
        self.running = step.name
        self.do(self.job.started())

    def on_feed(self) -> None:
        self.fed.append(self.running)

    def on_set_limit(self) -> None:
        assert self.running

    def on_answer(self) -> None:
        self.answers += 1
        error = self.job.chain.error
        assert error is None or isinstance(error, PluginError)
        self.error = error

    def on_kill_if_asked(self) -> None:
        assert self.running
        assert self.answers

    def on_leave(self) -> None:
        assert self.running
        self.running = ""

    on_let_work = on_leave

    def on_next(self) -> None:
        self.ended += 1


@pytest.mark.parametrize("ends", Ends)
def test_whatever_happens_the_promise_holds(ends: Ends, seed: int) -> None:
    dice = random.Random(f"{seed} {ends}")  # noqa: S311 - histories
    is_late = False
    for _ in range(HISTORIES):
        play = Play(dice, ends, [dice.random() < 0.5 for _ in range(dice.randrange(6))]).run()
        assert (play.answers, play.ended, play.running, play.job.state) == (1, 1, "", JobState.ENDED)
        assert play.fed == play.spawned == sorted(play.spawned)
        assert len(set(play.reported)) == len(play.reported), "every failure is reported once"
        assert set(play.failed) <= set(play.reported)
        if not any(program.policy.fail for program in play.programs):
            assert play.error is None
        fatal = [program.name for program in play.programs if program.policy.fail and program.name in play.failed]
        if ends is Ends.NEVER:
            unstarted = set(play.failed) - set(play.spawned)
            assert {*play.spawned, *unstarted} == {program.name for program in play.programs}, "each has its turn"
        else:
            assert all(name <= fatal[0] for name in play.spawned if fatal), "nothing runs behind a fatal failure"
        is_late |= play.is_late
    assert is_late == (ends is not Ends.AT_ANSWER), "where it is of use, something runs after the answer"


def test_what_cannot_happen_is_an_error() -> None:
    job = JobMachine(Chain[Program](Ends.AT_FAILURE, ()))
    assert job.go() == (Action.ANSWER, Action.NEXT)
    for input_ in (job.go, job.started, lambda: job.time_is_up("x"), lambda: job.limit_reached("x")):
        with pytest.raises(LocalProtocolError):
            input_()
    job = JobMachine(Chain[Program](Ends.NEVER))
    job.time_is_up("late")
    with pytest.raises(LocalProtocolError, match="TIME_IS_UP in state WAITING, answered"):
        job.time_is_up("late")


def test_a_job_that_nobody_waits_for_gives_no_answer() -> None:
    assert JobMachine(Chain[Program](Ends.NEVER, ()), is_answered=True).go() == (Action.NEXT,)


# Chains: what each outcome of each program means under each policy

FAIL, IGNORE = True, False
POLICIES = list(itertools.product((FAIL, IGNORE), repeat=3))


def chain(ends: Ends, fails: Sequence[bool]) -> Chain[Program]:
    """A chain of programs whose failures fail the event, or do not."""
    return Chain(ends, [Program(name, Policy(fail)) for name, fail in zip("abc", fails, strict=True)])


def left(of: Chain[Program]) -> str:
    """The names of the programs that are still to run."""
    return "".join(step.name for step in of.steps)


def test_programs_run_in_order_and_results_are_gathered() -> None:
    of = chain(Ends.AT_FAILURE, (FAIL, IGNORE, FAIL))
    for index, name in enumerate("abc"):
        assert (of.current.name, of.results, of.is_over) == (name, [1, 2, 3][:index], False)
        of.succeed(index + 1)
    assert (of.results, of.error, of.is_over) == ([1, 2, 3], None, True)


def test_a_failure_that_fails_the_event_ends_the_chain_unless_it_is_a_deletes() -> None:
    """The original's ended; but each plugin must get the delete of its create."""
    for ends, fails in itertools.product(Ends, POLICIES):
        of = chain(ends, fails)
        of.succeed("done")
        error, first = of.fail("broken"), fails[1]
        assert (str(error), of.results, of.error) == ("plugin: b: broken", ["done"], error if first else None)
        assert left(of) == ("" if first and ends is not Ends.NEVER else "c")
        if left(of):
            second = of.fail("too")
            assert of.error is (error if first else second if fails[2] else None)


@pytest.mark.parametrize("is_running", [True, False])
def test_an_overdue_create_fails_if_a_plugin_that_is_not_done_must_not_and_a_delete_never(is_running: bool) -> None:
    for fails in POLICIES:
        of, delete = (chain(ends, fails) for ends in (Ends.AT_FAILURE, Ends.NEVER))
        assert (delete.overdue("slow", is_running=is_running), delete.error, left(delete)) == ([], None, "abc")
        errors = of.overdue("slow", is_running=is_running)
        if FAIL not in fails:
            assert (errors, of.error, left(of)) == ([], None, "abc")
            continue
        culprit = "abc"[fails.index(FAIL)]
        reason = "slow" if is_running and culprit == "a" else "not run: a: slow" if is_running else "not run: slow"
        assert errors == [of.error]
        assert (str(of.error), left(of)) == (f"plugin: {culprit}: {reason}", "")


def test_a_chain_of_no_use_behind_the_answer_ends_with_it() -> None:
    for fails in POLICIES:
        of = chain(Ends.AT_ANSWER, fails)
        errors = [str(error) for error in of.overdue("slow", is_running=True)]
        ran = fails.index(FAIL) + 1 if FAIL in fails else 3
        assert errors == ["plugin: a: slow", "plugin: b: no time was left", "plugin: c: no time was left"][:ran]
        assert str(of.error) == (errors[-1] if FAIL in fails else "None")
        assert left(of) == ""


# What of a program's output stands in log lines and errors: its beginning, without the values of variables


def test_an_output_is_shown_up_to_its_two_hundredth_byte_and_without_values_of_variables() -> None:
    for output, shown in {
        b"": "<empty>",
        b"\xff\x1b[31m\n": r"'\\xff\x1b[31m\n'",
        b"x" * 200: f"'{'x' * 200}'",
        b"x" * 201: f"'{'x' * 200}' …",
        b"/usr/bin/env: environ": "'/usr/bin/env: environ'",
    }.items():
        assert quoted(output) == shown
    for key in (b'"env"', b'"ENV"', b"'env'", rb"\"env\""):
        for values in (b': ["PASSWORD=hunter2"]', b':["A', b"\n:\n{"):
            assert quoted(b"x{" + key + values) == "'x{' …"
