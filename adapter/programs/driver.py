"""Runs a job: carries out the actions of its state machine, and reports to it what the programs and timers do."""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from adapter.base.loop import Timer
from adapter.errors import ProgramError
from adapter.nri import Deferred
from adapter.programs.chain import Chain, Failure, Step
from adapter.programs.machine import JobMachine
from adapter.programs.process import MAX_STDOUT, Process
from adapter.programs.runner import Outcome, Runner
from adapter.programs.states import Action, Actions, JobState

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Step)

_BUG = "meets a bug of the adapter, which has logged it"
_SHOWN = 200
_ENV = re.compile(rb"""\\?["']env\\?["']""", re.IGNORECASE)


class Driver(ABC, Generic[S]):
    """Runs the programs of one event. A subclass says what the programs are, and what becomes of their output."""

    def __init__(self, runner: Runner, chain: Chain[S], *, late_limit: float = 0, is_awaited: bool = True) -> None:
        """Takes what spawns programs, the programs, and the seconds that a program may take after the answer.

        `is_awaited` is whether somebody waits for the answer.
        """
        self.answer: Deferred[Any] = Deferred()
        """What the runtime gets; the job may go on after it."""
        self.on_end: Callable[[Any], object] = lambda _: None
        """Called with the driver when the job has ended, and no program that was left without a result runs."""
        self._machine = JobMachine(chain, is_answered=not is_awaited)
        self._runner = runner
        self._late_limit = late_limit
        self._step: S | None = None
        self._slowest: tuple[float, S] | None = None
        """Of the programs that have printed a result, the one that took longest, with its time in seconds."""
        self._process: Process | None = None
        self._deadline: Timer | None = None
        self._limit: Timer | None = None
        self._left: dict[Process, Timer] = {}
        """The programs that have been left without a result and still run; each with the end of the wait for it."""
        self._is_told = False
        """Whether the log says that the job goes on after the answer."""

    # Defined by a subclass

    @abstractmethod
    def _spawn(self, step: S, on_exit: Callable[[Process], None]) -> Process:
        """Spawns a program. Raises ProgramError."""

    @abstractmethod
    def _request(self, step: S) -> bytes:
        """Returns what the program gets on stdin. Called after the spawn, while the program loads."""

    @abstractmethod
    def _result(self, step: S, process: Process) -> Any:
        """Returns the result that the program has printed, or a Failure. Called once per program."""

    @abstractmethod
    def _response(self) -> Any:
        """Returns the answer to the event, which has not failed."""

    def _has_result(self, process: Process) -> bool:
        """Whether the program, which still runs, has printed a result that counts."""
        return False

    def _before_feed(self, step: S) -> None:
        """A program has been started, and is about to get its request."""

    def _on_not_started(self, step: S) -> bool:
        """A program could not be started; returns whether the log says so."""
        return True

    def _on_done(self, step: S) -> None:
        """A program has exited, or is not waited for any longer."""

    def _on_left(self, process: Process) -> None:
        """A program without a result is not waited for any longer."""

    def _lateness_before(self) -> str:
        """Returns why the job has not started."""
        return "no time was left"

    # Actions

    def answer_by(self, moment: float) -> None:
        """Answers the event at `moment`, on the loop's clock, at the latest."""
        if not self._machine.is_answered:
            self._deadline = self._runner.loop.call_at(moment, self._on_time_up)

    def go(self) -> None:
        """Starts the job: the jobs before it have ended."""
        self._do(self._machine.go())

    def _do(self, actions: Actions) -> None:
        """Carries out actions, and the actions that spawning a program leads to.

        An action that fails does not keep the others from being carried out: somebody waits for the end of the job.
        """
        self._report(self._machine.failures)
        while actions:
            following: Actions = ()
            for action in actions:
                if action is Action.SPAWN:  # always the last of its list
                    following = self._start(self._machine.chain.current)
                    continue
                try:
                    _ACTIONS[action](self)
                except Exception:
                    log.exception("a bug: %s: %s", self, action.name)
            actions = following

    def _start(self, step: S) -> Actions:
        self._step = step
        try:
            self._process = self._spawn(step, self._on_exit)
        except ProgramError as error:
            reason = error.reason
        except Exception:  # the job must go on, for others wait for its end
            log.exception("a bug: %s cannot be started", step.name)
            reason = f"its start {_BUG}"
        else:
            return self._machine.started()
        try:
            is_told = self._on_not_started(step)
        except Exception:  # the job must go on, for others wait for its end
            log.exception("a bug: %s: %s was not started", self, step.name)
            is_told = True
        actions = self._machine.not_started(reason)
        self._report(self._machine.failures, is_told=is_told)
        return actions

    def _feed(self) -> None:
        assert self._process is not None  # noqa: S101 - FEED follows on STARTED only
        assert self._step is not None  # noqa: S101
        try:
            request = self._request(self._step)
            self._before_feed(self._step)
        except Exception:  # the program has been spawned: its exit must be watched all the same
            log.exception("a bug: there is no request for %s", self._step.name)
            request = b""
            self._process.kill()
        self._process.feed(request)

    def _set_limit(self) -> None:
        """Sets the timer for the current program's time limit, if it has one."""
        assert self._process is not None  # noqa: S101 - SET_LIMIT follows on FEED or while a program runs
        assert self._step is not None  # noqa: S101
        self._cancel_limit()
        limits = [self._step.policy.timeout] if self._step.policy.timeout else []
        if self._machine.is_answered:
            limits.append(self._late_limit)
        if limits:
            self._limit = self._runner.loop.call_at(self._process.started + min(limits), self._on_limit)

    def _answer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        error: Exception | None = self._machine.chain.error
        if error is None:
            try:
                self.answer.complete(self._response())
            except Exception as bug:  # what is raised is the answer to the call
                error = bug
        if error is not None:
            self.answer.fail(error)

    def _kill_if_asked(self) -> None:
        if self._process is not None and self._step is not None and self._step.policy.kill:
            self._runner.kill(self._process)

    def _leave(self) -> None:
        process = self._release()
        if process is not None and self._step is not None:
            self._runner.note(process, Outcome.LATE)
            self._on_left(process)
            self._runner.leave(process, self._forget, kill=self._step.policy.kill)
            over = process.started + self._late_limit
            if over > self._runner.loop.time():
                self._left[process] = self._runner.loop.call_at(over, lambda: self._forget(process))

    def _forget(self, process: Process) -> None:
        """Waits no longer for a program that has been left: it has exited, or its time is over."""
        timer = self._left.pop(process, None)
        if timer is not None:
            timer.cancel()
            self._end_if_alone()

    def _let_work(self) -> None:
        process = self._release()
        if process is not None:
            self._runner.let_work(process)

    def _next(self) -> None:
        if self._is_told:
            log.info("%s: it has ended after the answer", self)
        self._end_if_alone()

    def _end_if_alone(self) -> None:
        """Lets the next jobs start, if none of the programs works on: a delete must not overtake its create."""
        if self._machine.state is JobState.ENDED and not self._left:
            self.on_end(self)

    # Inputs

    def _on_exit(self, process: Process) -> None:
        self._release()
        self._do(self._machine.exited(self._checked_result(process)))

    def _on_time_up(self) -> None:
        self._take_printed()
        if self._machine.chain.is_over:
            self._do(self._machine.time_is_up(""))
            return
        self._count_late()
        running, reason = self._step if self._process is not None else None, self._lateness()
        if self._process is not None and self._slowest and self._slowest[0] > self._seconds(self._process):
            reason += f": {self._slowness()}"
        actions = self._machine.time_is_up(reason)
        if self._machine.state is not JobState.ENDED:
            log.warning("%s: %s; it goes on after the answer", self, running.error(reason) if running else reason)
            self._is_told = True
        self._do(actions)

    def _on_limit(self) -> None:
        if not self._take_printed():
            self._count_late()
        self._do(self._machine.limit_reached(self._lateness()))

    def _count_late(self) -> None:
        if self._step is not None:  # else the jobs before it are late
            self._runner.accounts[self._step.name].late += 1

    def _take_printed(self) -> bool:
        """Takes the result of a program that has printed it and works on; returns whether there is one."""
        process = self._process
        if process is None or not self._has_printed(process):
            return False
        self._do(self._machine.printed(self._checked_result(process)))
        return True

    def _has_printed(self, process: Process) -> bool:
        try:
            return self._has_result(process)
        except Exception:  # the event must be answered now
            log.exception("a bug: %s has printed %s", process.name, quoted(process.stdout))
            return False

    def _checked_result(self, process: Process) -> Any:
        """Returns what the program has printed as its result, or as a Failure; notes the program's time."""
        assert self._step is not None  # noqa: S101 - a process has a step
        result = self._result_or_failure(process)
        seconds = self._runner.note(process, Outcome.FAILED if isinstance(result, Failure) else Outcome.DONE)
        if self._slowest is None or seconds > self._slowest[0]:
            self._slowest = seconds, self._step
        return result

    def _result_or_failure(self, process: Process) -> Any:
        assert self._step is not None  # noqa: S101 - a process has a step
        if process.too_long:
            return Failure(f"no result (more than {MAX_STDOUT} bytes), {process.ending}")
        try:
            return self._result(self._step, process)
        except Exception:  # a program's output must not affect other programs
            log.exception("a bug: %s has printed %s", process.name, quoted(process.stdout))
            return Failure(f"its result {_BUG}")

    def _release(self) -> Process | None:
        process, self._process = self._process, None
        self._cancel_limit()
        if process is not None and self._step is not None:
            try:
                self._on_done(self._step)
            except Exception:  # the job must go on, for others wait for its end
                log.exception("a bug: %s: %s is done", self, self._step.name)
        return process

    def _cancel_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _lateness(self) -> str:
        if self._process is not None:
            return f"no result within {self._seconds(self._process):.1f} s"
        return self._slowness() if self._slowest else self._lateness_before()

    def _seconds(self, process: Process) -> float:
        return self._runner.loop.time() - process.started

    def _slowness(self) -> str:
        """Returns which program has taken the most time, and what bounds it."""
        assert self._slowest is not None  # noqa: S101 - the caller has looked
        seconds, step = self._slowest
        return f"{step.name} took {seconds:.1f} s ({step.limit})"

    def _report(self, failures: Iterable[ProgramError], *, is_told: bool = True) -> None:
        for error in failures:
            self._runner.accounts[error.program].fail(error.reason)
            if is_told:
                log.error("%s: %s%s", self, error, "" if error is self._machine.chain.error else " (tolerated)")


_ACTIONS: Mapping[Action, Callable[[Driver[Any]], None]] = {
    Action.FEED: Driver._feed,
    Action.SET_LIMIT: Driver._set_limit,
    Action.ANSWER: Driver._answer,
    Action.KILL_IF_ASKED: Driver._kill_if_asked,
    Action.LEAVE: Driver._leave,
    Action.LET_WORK: Driver._let_work,
    Action.NEXT: Driver._next,
}


def quoted(output: bytes) -> str:
    """Returns the beginning of a program's output for a log line or an error.

    It ends before a key `env`, which the values of variables follow: plugins often print an edited spec.
    """
    shown = _ENV.split(output[:_SHOWN], maxsplit=1)[0]
    text = shown.decode("utf-8", "backslashreplace")
    return f"{text!r}{' …' if len(output) > len(shown) else ''}" if output else "<empty>"


def complaint(process: Process) -> str:
    """Returns the last line that a failed program has written to stderr, for its error; empty if there is none."""
    return f", stderr: {quoted(process.last_line.encode())}" if process.last_line else ""
