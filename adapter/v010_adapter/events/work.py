"""Runs a job: carries out the actions of its state machine, and reports to it what the programs and timers do."""

from __future__ import annotations

import errno
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from nri import Answer, Deferred
from nri.deferred import in_turn
from v010_adapter.base.loop import NO_TIMER, Timer
from v010_adapter.errors import ProgramError
from v010_adapter.events.life import ENDED, SPAWN, WAITING, Action, Actions, Chain
from v010_adapter.programs.process import Process, Program
from v010_adapter.programs.runner import DONE, FAILED, LATE, Outcome, Runner
from v010_adapter.programs.step import Failure, Step

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Step)
T = TypeVar("T")
J = TypeVar("J")

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.1
"""Seconds between two starts of a program that is being written: each pause is twice the one before."""
_BUG = "meets a bug of the adapter, which has logged it"
_RESULT_BUG = Failure(f"its result {_BUG}")


class Observer(Generic[J, S]):
    """Is told what becomes of jobs, and may name their programs. This one does nothing."""

    def at_turn(self, job: J) -> None:
        """A job is about to start: the jobs before it have ended. `job.chain.set_steps` may name its programs now."""

    def before_feed(self, job: J, step: S) -> None:
        """A program has been started, and is about to get its request."""

    def on_not_started(self, job: J, step: S) -> bool:
        """A program could not be started; returns whether the log says so."""
        return True

    def on_done(self, job: J, step: S) -> None:
        """A program has exited, or is not waited for any longer."""

    def on_end(self, job: J) -> None:
        """A job has ended, and no program that was left without a result runs."""


class Work(ABC, Generic[S]):
    """The programs of one event."""

    @abstractmethod
    def _program(self, step: S) -> Program:
        """Returns what is executed. Raises ProgramError."""

    @abstractmethod
    def _request(self, step: S) -> bytes:
        """Returns what the program gets on stdin. Called after the spawn, while the program loads."""

    @abstractmethod
    def _result(self, step: S, process: Process) -> Any:
        """Returns the result that the program has printed, or a Failure; of a large container, a Deferred.

        Called once per program.
        """

    @abstractmethod
    def _response(self) -> Any:
        """Returns the answer to the event, which has not failed."""

    def _prepare(self) -> Generator[Answer[Any], Any, None]:
        """Makes the large parts of the first request apart. Called before the first program is started."""
        yield None

    def _has_result(self, process: Process) -> bool:
        """Whether the program, which still runs, has printed a result that counts."""
        return False

    def _on_left(self, process: Process) -> None:
        """A program without a result is not waited for any longer."""

    def _let_go(self) -> None:
        """The chain has ended: lets go of what may be large. A program that was left keeps the job while it runs."""

    def _lateness_before(self) -> str:
        """Returns why the job has not started."""
        return "no time was left"


class Slowest(NamedTuple):
    """Of the programs that have printed a result, the one that took longest."""

    seconds: float
    step: Step

    def __str__(self) -> str:
        """Returns how long the program took, and what bounds it."""
        return f"{self.step.name} took {self.seconds:.1f} s ({self.step.limit})"


class Driver(Work[S]):
    """Runs the programs of one event. A subclass says what the programs are, and what becomes of their output."""

    def __init__(
        self, runner: Runner, chain: Chain[S], observer: Observer[Any, S] | None = None, late_limit: float = 0
    ) -> None:
        """Takes what spawns programs, the programs, who is told of them, and the seconds they get after the answer."""
        self.answer: Deferred[Any] = Deferred()
        """What the runtime gets; the job may go on after it."""
        self.chain = chain
        self._runner = runner
        self._observer = observer or Observer()
        self._late_limit = late_limit
        self._step: S
        """The program that was started last, or could not be started."""
        self._slowest: Slowest | None = None
        self._process: Process | None = None
        self._deadline = self._limit = self._restart = NO_TIMER
        self._busy, self._pause = "", FIRST_PAUSE
        """Why the current program, which is started again, could not be started; and the seconds until then."""
        self.is_large = False
        """Whether requests are made and results are read in a child process."""
        self._large = "", 0.0
        self._left: dict[Process, Timer] = {}
        """The programs that have been left without a result and still run; each with the end of the wait for it."""
        self._goes_on = False
        """Whether the log says that the job goes on after the answer."""

    # Actions

    def answer_by(self, moment: float) -> None:
        """Answers the event at `moment`, on the loop's clock, at the latest; nothing to do if it is answered."""
        if not self.chain.is_answered:
            self._deadline = self._runner.loop.call_at(moment, self._on_time_up)

    def be_large(self, size: int, due: float) -> None:
        """Makes requests and reads results in a child process, until shortly before `due`, while others are served."""
        self.is_large, self._large = True, (f"a container of {size} bytes", due)

    def go(self) -> None:
        """Starts the job: the jobs before it have ended."""
        try:
            self._observer.at_turn(self)
        except Exception:  # others wait for its end
            log.exception("a bug: %s runs no program", self)
            self.chain.set_steps(())
        if self.is_large and not self.chain.is_over:
            in_turn(self._prepare()).then(self._go_prepared)
        else:
            self._do(self.chain.go())

    def _go_prepared(self, _: None, bug: Exception | None) -> None:
        if bug is not None:  # the request is made here, and meets it again
            log.error("a bug: %s: its first request: %s", self, bug)
        if self.chain.state is WAITING:  # else the event has been answered meanwhile, and no program is left to run
            self._do(self.chain.go())

    def _apart(self, compute: Callable[[], T]) -> Deferred[T]:
        """Returns what a function returns in a child process; fails with Oversized if that takes too long."""
        from v010_adapter.programs.apart import computed  # noqa: PLC0415 - only for large containers

        what, due = self._large
        if self.chain.is_answered:
            due = self._runner.loop.time() + self._late_limit
        return computed(self._runner.loop, compute, due, what)

    def _do(self, actions: Actions) -> None:
        """Carries out actions, and the actions that a program leads to that cannot be started."""
        if self.chain.failures:
            self._report()
        due = list(actions)
        for action in due:
            try:
                due += _ACTIONS[action](self) or ()
            except Exception:
                _log_bug(self, action)

    def _start(self) -> Actions:
        """Starts the current program; returns what follows if that is not possible."""
        step = self._step = self.chain.steps[0]
        try:
            program = self._program(step)
            try:
                self._process = self._runner.spawn(program, self._on_exit)
            except OSError as error:
                reason = f"{program.path}: {error.strerror}"
                if error.errno == errno.ETXTBSY and not self.chain.is_answered:
                    self._start_again_later(reason)
                    return ()
                raise step.error(reason) from None
        except ProgramError as error:
            reason = error.reason
        except Exception:  # the job must go on, for others wait for its end
            log.exception("a bug: %s cannot be started", step.name)
            reason = f"its start {_BUG}"
        else:
            self._feed(self._process)
            if step.policy.timeout or self.chain.is_answered:
                self._set_limit()
            return ()
        return self._not_started(reason)

    def _not_started(self, reason: str) -> Actions:
        """The current program cannot be started; returns what follows."""
        self._pause = FIRST_PAUSE
        is_logged = _safely(self, "a failed start", True, self._observer.on_not_started, self, self._step)
        actions = self.chain.not_started(reason)
        self._report(is_logged=is_logged)
        return actions

    @property
    def is_starting(self) -> bool:
        """Whether the current program could not be started yet, and is started again."""
        return self._restart.callback is not None

    def _start_again_later(self, reason: str) -> None:
        """Starts the current program again, until the event is due: an installer is writing it (ETXTBSY)."""
        self._busy = reason
        moment = self._runner.loop.time() + self._pause
        self._restart = self._runner.loop.call_at(moment, lambda: self._do(self._start()))
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _feed(self, process: Process) -> None:
        try:
            request = self._request(self._step)
            self._observer.before_feed(self, self._step)
        except Exception:  # the program has been spawned: its exit must be watched all the same
            log.exception("a bug: there is no request for %s", self._step.name)
            request = b""
            process.kill()
        process.feed(request)

    def _set_limit(self) -> None:
        """Sets the timer for the current program's time limit."""
        assert self._process is not None  # noqa: S101 - a program runs
        limits = [self._step.policy.timeout] if self._step.policy.timeout else []
        if self.chain.is_answered:
            limits.append(self._late_limit)
        self._limit.cancel()
        self._limit = self._runner.loop.call_at(self._process.started + min(limits), self._on_limit)

    def _answer(self) -> None:
        self._deadline.cancel()
        if self.chain.error is not None:
            self.answer.fail(self.chain.error)
            return
        try:
            self.answer.complete(self._response())
        except Exception as bug:  # what is raised is the answer to the call
            self.answer.fail(bug)

    def _leave(self) -> None:
        process = self._detach(LATE)
        self._on_left(process)
        if process.status is not None:  # it has ended, and its result is being read
            return
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

    def _end_if_alone(self) -> None:
        """Lets the next jobs start, if none of the programs works on: a delete must not overtake its create."""
        if self.chain.state is not ENDED:
            return
        self._let_go()
        if not self._left:
            if self._goes_on:
                log.info("%s: it has ended after the answer", self)
            self._observer.on_end(self)

    # Inputs

    def _on_exit(self, process: Process) -> None:
        result = self._checked_result(process)
        if isinstance(result, Deferred):
            self._limit.cancel()  # the program has ended in time
            result.then(partial(self._on_result, process))
        else:
            self._on_result(process, result)

    def _on_result(self, process: Process, result: Any, bug: Exception | None = None) -> None:
        if bug is not None:
            log.error("a bug: %s: a result: %s", self, bug)
            result = _RESULT_BUG
        if self._process is process:  # else the event has been answered meanwhile, without the result
            self._detach(FAILED if isinstance(result, Failure) else DONE)
            self._do(self.chain.exited(result))

    def _on_time_up(self) -> None:
        if self.is_starting:
            self._restart.cancel()
            self._do(self._not_started(self._busy))
        if self.chain.is_answered:  # by that failure
            return
        self._take_printed()
        if self.chain.is_over:
            self._do(self.chain.time_is_up(""))
            return
        running, reason = self._step if self._process is not None else None, self._lateness()
        since = self._runner.loop.time() - self._process.started if self._process is not None else math.inf
        if self._slowest is not None and self._slowest.seconds > since:
            reason += f": {self._slowest}"
        actions = self.chain.time_is_up(reason)
        if self.chain.state is not ENDED:
            log.warning("%s: %s; it goes on after the answer", self, running.error(reason) if running else reason)
            self._goes_on = True
        self._do(actions)

    def _on_limit(self) -> None:
        reason = "" if self._take_printed() else self._lateness()
        self._do(self.chain.limit_reached(reason))

    def _take_printed(self) -> bool:
        """Takes the result of a program that has printed it and works on; returns whether there is one."""
        process = self._process
        if process is None or not _safely(self, "its output", False, self._has_result, process):
            return False
        self._do(self.chain.printed(self._checked_result(process)))
        return True

    def _checked_result(self, process: Process) -> Any:
        """Returns what the program has printed as its result, or as a Failure; a Deferred for a large container."""
        if process.too_long:
            return Failure(f"no result (more than {process.max_stdout} bytes), {process.ending}")
        try:
            return self._result(self._step, process)
        except Exception:
            _log_bug(self, "a result")
            return _RESULT_BUG

    def _detach(self, outcome: Outcome) -> Process:
        """Returns the current program, which is not waited for any longer."""
        process, self._process = self._process, None
        assert process is not None  # noqa: S101 - the chain has been in the state RUNNING
        seconds = self._runner.note(process, outcome)
        if outcome is not LATE and (self._slowest is None or seconds > self._slowest.seconds):
            self._slowest = Slowest(seconds, self._step)
        if self._limit is not NO_TIMER:
            self._limit.cancel()
        try:
            self._observer.on_done(self, self._step)
        except Exception:
            _log_bug(self, "the end of a program")
        return process

    def _lateness(self) -> str:
        """Counts that the current program is late; returns why."""
        if self.chain.state is not WAITING:  # else the jobs before it are late
            self._runner.accounts[self._step.name].late += 1
        if self._process is not None:
            return f"no result within {self._runner.loop.time() - self._process.started:.1f} s"
        return str(self._slowest or self._lateness_before())

    def _report(self, *, is_logged: bool = True) -> None:
        for error in self.chain.failures:
            self._runner.accounts[error.program].fail(error.reason)
            if is_logged:
                log.error("%s: %s%s", self, error, "" if error is self.chain.error else " (tolerated)")


def _safely(driver: Driver[Any], doing: object, instead: T, function: Callable[..., T], *arguments: Any) -> T:
    """Returns what a function returns; `instead` if it meets a bug: others wait for the end of this job."""
    try:
        return function(*arguments)
    except Exception:
        _log_bug(driver, doing)
        return instead


def _log_bug(driver: Driver[Any], doing: object) -> None:
    log.exception("a bug: %s: %s", driver, doing)
    if driver._process is not None:
        log.debug("%s: its program has printed: %s", driver, driver._process.stdout)


def _kill_if_asked(driver: Driver[Any]) -> None:
    if driver._process is not None and driver._step.policy.kill:
        driver._runner.kill(driver._process)


def _let_work(driver: Driver[Any]) -> None:
    driver._runner.let_work(driver._detach(FAILED if driver.chain.failures else DONE))


_ACTIONS: Mapping[Action, Callable[[Driver[Any]], Actions | None]] = {
    SPAWN: Driver._start,
    Action.SET_LIMIT: Driver._set_limit,
    Action.ANSWER: Driver._answer,
    Action.KILL_IF_ASKED: _kill_if_asked,
    Action.LEAVE: Driver._leave,
    Action.LET_WORK: _let_work,
    Action.NEXT: Driver._end_if_alone,
}
