"""Carries out what `life` decides, with processes and timers, and reports to it what these do."""

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
from v010_adapter.events.life import ENDING, PREPARING, PRINTED, RUNNING, SPAWN, Action, Actions, Input, Life
from v010_adapter.monitoring.logs import RUNS
from v010_adapter.monitoring.trace import UNTRACED, Named, Trace
from v010_adapter.programs.process import Process, Program
from v010_adapter.programs.runner import DONE, FAILED, LATE, Outcome, Runner
from v010_adapter.programs.step import Failure, Step

log = logging.getLogger(__name__)
runs = logging.getLogger(RUNS)
"""One line a run, if log.runs is set."""

S = TypeVar("S", bound=Step)
T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.1
"""Seconds between two starts of a program that is being written: each pause is twice the one before."""
_SETTLED, _TURN = Input.SETTLED, Input.TURN
_BUG = "meets a bug of the adapter, which has logged it"
_RESULT_BUG = Failure(f"its result {_BUG}")


class Slowest(NamedTuple):
    """Of the programs that have printed a result, the one that took longest."""

    seconds: float
    step: Step

    def __str__(self) -> str:
        """Returns how long the program took, and what bounds it."""
        return f"{self.step.name} took {self.seconds:.1f} s ({self.step.limit})"


class Work(ABC, Generic[S]):
    """The programs of one event. A subclass says what the programs are, and what becomes of their output."""

    def __init__(self, runner: Runner, life: Life[S], late_limit: float = 0, *, is_sent: bool = True) -> None:
        """Takes what spawns programs, the life, and the seconds that programs get after the answer.

        `is_sent` is false if `on_sent` will tell that the runtime has got the answer.
        """
        self.answer: Deferred[Any] = Deferred()
        """What the runtime gets; the work may go on after it."""
        self.on_over: Callable[[Any], object] = lambda _: None
        """Told when the work is over."""
        self.life = life
        self.span = UNTRACED
        """The runtime's span of the event."""
        self._runner = runner
        self._late_limit = late_limit
        self._is_sent = is_sent
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
        """Whether the log says that the work goes on after the answer."""

    @property
    def trace(self) -> Trace:
        """What log lines of this work have."""
        return self.span._replace(about=self._named())

    # What a subclass says

    @abstractmethod
    def _named(self) -> Named:
        """Returns whose event it is."""

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

    def _on_not_started(self, step: S) -> bool:
        """A program could not be started; returns whether the log says so."""
        return True

    def _on_left(self, process: Process) -> None:
        """A program without a result is not waited for any longer."""

    def _on_done(self, step: S) -> None:
        """A program has exited, or is not waited for any longer."""

    def _let_go(self) -> None:
        """No program is left to run: lets go of what may be large. A program that was left keeps the work."""

    def _lateness_before(self) -> str:
        """Returns why no program runs yet."""
        return "no time was left"

    def _end_hold(self) -> None:
        """Lets the container of the event go, which is held, or refuses it if the event has failed."""

    # What comes from outside

    def answer_by(self, moment: float) -> None:
        """Answers the event at `moment`, on the loop's clock, at the latest; nothing to do if it is answered."""
        if not self.life.is_answered:
            self._deadline = self._runner.loop.call_at(moment, self._on_time_up)

    def be_large(self, size: int, due: float) -> None:
        """Makes requests and reads results in a child process, until shortly before `due`, while others are served."""
        self.is_large, self._large = True, (f"a container of {size} bytes", due)

    def go(self) -> None:
        """Starts the first program: the turn has come."""
        self._do(self.life.receive(Input.TURN_OF_LARGE if self.is_large else _TURN))

    def drop(self, why: Input) -> None:
        """ANSWERED_ELSEWHERE or RUNTIME_GONE, before the turn has come."""
        self._do(self.life.drop(why))

    def refuse(self, why: str) -> None:
        """The held container of the event must not start, or cannot start any more."""
        is_starting = self.is_starting
        self._restart.cancel()
        self._do(self.life.refuse(why, is_starting=is_starting))

    def on_sent(self) -> None:
        """The runtime has got the answer, or never gets it."""
        self._is_sent = True
        is_last = self.life.state is ENDING and not self._left
        self._do(self.life.receive(_SETTLED if is_last else Input.SENT))

    # Actions

    def _begin_to_prepare(self) -> None:
        in_turn(self._prepare()).then(self._on_prepared)

    def _on_prepared(self, _: None, bug: Exception | None) -> None:
        if bug is not None:  # the request is made here, and meets it again
            log.error("a bug: %s: its first request: %s", self, bug, extra=self.trace.extra)
        if self.life.state is PREPARING:  # else the event has been answered meanwhile, and no program is left to run
            self._do(self.life.receive(Input.PREPARED))

    def _apart(self, compute: Callable[[], T]) -> Deferred[T]:
        """Returns what a function returns in a child process; fails with Oversized if that takes too long."""
        from v010_adapter.programs.apart import computed  # noqa: PLC0415 - only for large containers

        what, due = self._large
        if self.life.is_answered or self.life.was_held:
            due = self._runner.loop.time() + self._late_limit
        return computed(self._runner.loop, compute, due, what)

    def _do(self, actions: Actions) -> None:
        """Carries out actions, and the actions that a program leads to that cannot be started."""
        if self.life.failures:
            self._report()
        due = list(actions)
        for action in due:
            try:
                due += _ACTIONS[action](self) or ()
            except Exception:
                _log_bug(self, action)

    def _start(self) -> Actions:
        """Starts the current program; returns what follows if that is not possible."""
        step = self._step = self.life.steps[0]
        try:
            program = self._program(step)
            try:
                self._process = self._runner.spawn(program, self._on_exit, self.trace)
            except OSError as error:
                reason = f"{program.path}: {error.strerror}"
                if error.errno == errno.ETXTBSY and not self.life.is_answered:
                    self._start_again_later(reason)
                    return ()
                raise step.error(reason) from None
        except ProgramError as error:
            reason = error.reason
        except Exception:  # the work must go on, for others wait for its end
            log.exception("a bug: %s cannot be started", step.name, extra=self.trace.extra)
            reason = f"its start {_BUG}"
        else:
            self._feed(self._process)
            if step.policy.timeout or self.life.is_answered:
                self._set_limit()
            return ()
        return self._not_started(reason)

    def _not_started(self, reason: str) -> Actions:
        """The current program cannot be started; returns what follows."""
        self._pause = FIRST_PAUSE
        is_logged = _safely(self, "a failed start", True, self._on_not_started, self._step)
        actions = self.life.not_started(reason)
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
        except Exception:  # the program has been spawned: its exit must be watched all the same
            log.exception("a bug: there is no request for %s", self._step.name, extra=self.trace.extra)
            request = b""
            process.kill()
        process.feed(request)

    def _set_limit(self) -> None:
        """Sets the timer for the current program's time limit."""
        assert self._process is not None  # noqa: S101 - a program runs
        limits = [self._step.policy.timeout] if self._step.policy.timeout else []
        if self.life.is_answered:
            limits.append(self._late_limit)
        self._limit.cancel()
        self._limit = self._runner.loop.call_at(self._process.started + min(limits), self._on_limit)

    def _answer(self) -> None:
        self._deadline.cancel()
        if self.life.was_held:
            self._end_hold()
            return
        if self.life.error is not None:
            self.answer.fail(self.life.error)
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
            is_last = self.life.state is ENDING and self._is_sent and not self._left
            self._do(self.life.receive(_SETTLED if is_last else Input.LEFT_ENDED))

    def _settle(self) -> Actions | None:
        """Ends the work if it waits for nothing any more. While programs work on, a delete must not overtake them."""
        self._let_go()
        if self.life.state is ENDING and self._is_sent and not self._left:
            return self.life.receive(_SETTLED)
        return None

    def _end(self) -> None:
        if self._goes_on:
            log.info("%s: it has ended after the answer", self, extra=self.trace.extra)
        self.on_over(self)

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
            log.error("a bug: %s: a result: %s", self, bug, extra=self.trace.extra)
            result = _RESULT_BUG
        if self._process is process:  # else the event has been answered meanwhile, without the result
            self._detach(FAILED if isinstance(result, Failure) else DONE)
            self._do(self.life.exited(result))

    def _on_time_up(self, why: str = "") -> None:
        """The event must be answered now: its time is up, or `why` says what else has happened."""
        while self.is_starting:  # the next program may be one that an installer is writing, too
            self._restart.cancel()
            self._do(self._not_started(self._busy))
        if self.life.is_answered:  # by that failure
            return
        self._take_printed()
        if self.life.is_over:
            self._do(self.life.time_is_up(""))
            return
        running, reason = self._step if self._process is not None else None, why or self._lateness()
        since = self._runner.loop.time() - self._process.started if self._process is not None else math.inf
        if self._slowest is not None and self._slowest.seconds > since:
            reason += f": {self._slowest}"
        actions = self.life.time_is_up(reason)
        if self.life.state is not ENDING:
            lateness = running.error(reason) if running else reason
            after = (
                "%s: %s; it goes on after the start" if self.life.was_held else "%s: %s; it goes on after the answer"
            )
            log.warning(after, self, lateness, extra=self.trace.extra)
            self._goes_on = True
        self._do(actions)

    def _on_limit(self) -> None:
        reason = "" if self._take_printed() else self._lateness()
        self._do(self.life.limit_reached(reason))

    def _take_printed(self) -> bool:
        """Takes the result of a program that has printed it and works on; returns whether there is one."""
        process = self._process
        if process is None or not _safely(self, "its output", False, self._has_result, process):
            return False
        self._do(self.life.printed(self._checked_result(process)))
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
        assert process is not None  # noqa: S101 - the work has been RUNNING
        seconds = self._runner.note(process, outcome)
        if runs.isEnabledFor(logging.INFO):
            extra = self.trace.extra_with(plugin=process.name, outcome=str(outcome), us=int(seconds * 1e6))
            runs.info("%s: %s: %s after %.1f ms", self, process.name, outcome, seconds * 1000, extra=extra)
        if outcome is not LATE and (self._slowest is None or seconds > self._slowest.seconds):
            self._slowest = Slowest(seconds, self._step)
        if self._limit is not NO_TIMER:
            self._limit.cancel()
        try:
            self._on_done(self._step)
        except Exception:
            _log_bug(self, "the end of a program")
        return process

    def _lateness(self) -> str:
        """Counts that the current program is late; returns why."""
        if self.life.state in (RUNNING, PRINTED):  # else no program has run yet
            self._runner.accounts[self._step.name].late += 1
        if self._process is not None:
            return f"no result within {self._runner.loop.time() - self._process.started:.1f} s"
        return str(self._slowest or self._lateness_before())

    def _report(self, *, is_logged: bool = True) -> None:
        for error in self.life.failures:
            self._runner.accounts[error.program].fail(error.reason)
            if is_logged:
                tolerated = "" if error is self.life.error else " (tolerated)"
                log.error("%s: %s%s", self, error, tolerated, extra=self.trace.extra)


def _safely(work: Work[Any], doing: object, instead: T, function: Callable[..., T], *arguments: Any) -> T:
    """Returns what a function returns; `instead` if it meets a bug: others wait for the end of this work."""
    try:
        return function(*arguments)
    except Exception:
        _log_bug(work, doing)
        return instead


def _log_bug(work: Work[Any], doing: object) -> None:
    log.exception("a bug: %s: %s", work, doing, extra=work.trace.extra)
    if work._process is not None:
        log.debug("%s: its program has printed: %s", work, work._process.stdout, extra=work.trace.extra)


def _kill_if_asked(work: Work[Any]) -> None:
    if work._process is not None and work._step.policy.kill:
        work._runner.kill(work._process)


def _free_runtime(work: Work[Any]) -> None:
    work.answer.complete(_safely(work, "the answer of a start that is held", None, work._response))


def _let_work(work: Work[Any]) -> None:
    work._runner.let_work(work._detach(FAILED if work.life.failures else DONE))


_ACTIONS: Mapping[Action, Callable[[Work[Any]], Actions | None]] = {
    Action.PREPARE: Work._begin_to_prepare,
    SPAWN: Work._start,
    Action.SET_LIMIT: Work._set_limit,
    Action.FREE_RUNTIME: _free_runtime,
    Action.ANSWER: Work._answer,
    Action.KILL_IF_ASKED: _kill_if_asked,
    Action.LEAVE: Work._leave,
    Action.LET_WORK: _let_work,
    Action.SETTLE: Work._settle,
    Action.GIVE_BACK: Work._end,
}
