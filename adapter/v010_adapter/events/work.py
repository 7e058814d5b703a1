"""The works of events: their order, their turn, their programs, their hold, and their end.

`life` decides what follows on what; a `Work` carries it out with processes and timers, and reports to it what these do.
A `PluginWork` says which legacy plugins run, what they get and answer, and what is noted of that. The `Queue` knows
which work waits for which: the events of a container and of its pod reach plugins in their order.
"""

from __future__ import annotations

import errno
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from nri import Answer, Deferred, cgroup
from nri.deferred import in_turn
from v010_adapter.base.loop import NO_TIMER, Loop, Timer
from v010_adapter.errors import NotAdjustable, Oversized, PluginError, ProgramError
from v010_adapter.events.life import (
    AT_FAILURE,
    BLOCKED,
    BUSY,
    ENDING,
    NEVER,
    PREPARING,
    PRINTED,
    QUEUED,
    RUNNING,
    SPAWN,
    Action,
    Actions,
    Input,
    Life,
)
from v010_adapter.events.turns import PAST, REPEAT, SERVED_ELSEWHERE, Fate, Turn, Turns
from v010_adapter.legacy import request, result
from v010_adapter.legacy.answer import AnswerBuilder, with_updates
from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.pending_updates import PendingUpdates
from v010_adapter.legacy.plan import CREATE, DELETE, STATES, PluginStep
from v010_adapter.legacy.plugins import LegacyPlugins
from v010_adapter.legacy.request import Target
from v010_adapter.monitoring.logs import RUNS
from v010_adapter.monitoring.trace import Trace
from v010_adapter.programs.process import DONE, FAILED, LATE, Process, Program, Runner, RunOutcome
from v010_adapter.programs.step import Failure, Step
from v010_adapter.state.ledger import Ledger

if TYPE_CHECKING:
    from nri import HoldEnd
    from v010_adapter.events.holder import Holder

log = logging.getLogger(__name__)
runs = logging.getLogger(RUNS)
"""One line a run, if log.runs is set."""

S = TypeVar("S", bound=Step)
T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.1
"""Seconds between two starts of a program that is being written: each pause is twice the one before."""
LEAD = 1.0
"""Seconds before a hold at which the adapter looks whether it is possible, and starts the keeper."""
LATEST = 0.15
"""Seconds before the event is due at which its container is held at the latest: a busy keeper needs some."""
LOOK = 0.02
"""Seconds between two looks whether the keeper has started, for a hold before the event is due."""
MOST_PRINTED = 2.0
"""Seconds between two looks whether a plugin for which a container is held has printed its result."""
LOGGING = 3600.0
"""Seconds between two log lines of a plugin that cannot be started for deletes that no event asks for."""
MAX_ERROR = 4 << 10
"""Characters of a result's `error`, which a plugin may copy from a pod, in the answer and in the log."""
FIRST_LOOK, LONGEST_LOOK = 0.001, 0.05
"""Seconds between two looks whether another adapter still works on an id: each wait is twice the one before."""
_SETTLED, _TURN = Input.SETTLED, Input.TURN
_BUG = "meets a bug of the adapter, which has logged it"
_RESULT_BUG = Failure(f"its result {_BUG}")


class Queue:
    """The works that are not over, in the order of their events."""

    def __init__(self, loop: Loop, turns: Turns, on_over: Callable[[PluginWork], object]) -> None:
        """`on_over` is told of each work that is over, before the next works begin."""
        self._loop = loop
        self._turns = turns
        self._on_over = on_over
        self.works: list[PluginWork] = []
        """Those that are not over."""
        self._on_idle: Callable[[], object] | None = None

    def of(self, id_: str) -> list[PluginWork]:
        """Returns the works of a pod or container that are not over."""
        return [work for work in self.works if work.target.id == id_]

    def ids(self) -> set[str]:
        """Returns the ids of the pods and containers whose works are not over."""
        return {work.target.id for work in self.works}

    def give_up(self) -> None:
        """The process ends: see `PluginWork.give_up`."""
        for work in self.works:
            work.give_up()

    def on_runtime_gone(self) -> None:
        """Drops the creates that wait, and ends holds; deletes come all the same.

        The end of a hold may end its work. Then no create may begin that has waited for it.
        """
        for work in sorted(self.works, key=lambda work: work.life.is_held):
            work.on_runtime_gone()

    def on_stopped(self, id_: str, why: str) -> None:
        """The container with this id, or the pod, is stopped: refuses what is held, and lets nothing more be held."""
        for work in self.works[:]:
            if id_ in (work.target.id, work.pod):
                work.on_stopped(why)

    # The turn

    def submit(self, work: PluginWork) -> None:
        """Starts a work, at once or when the works that it must follow are over."""
        if self.works:
            work.after = dict.fromkeys(earlier for earlier in self.works if must_follow(work, earlier))
        self.works.append(work)
        work.on_over = self._remove
        if not work.after:
            self._start(work)
        elif work.turn is not None and self._turns.is_answered(work.turn):
            work.drop(Input.ANSWERED_ELSEWHERE)

    def _start(self, work: PluginWork, pause: float = FIRST_LOOK) -> None:
        """Starts a work whose earlier works are over, as soon as no other adapter works on its id."""
        turn = work.turn
        fate = self._turns.take(turn) if turn is not None else self._turns.take_id(work.pod, work.target.id)
        if fate is not None:
            is_ended = fate is REPEAT and any(later.kind == DELETE for later in self.of(work.target.id))
            work.take_turn(fate, is_ended=is_ended)
            return
        work.on_locked()
        # An end that was answered too late is still to learn that before the note is one of the next event.
        if turn is not None and self._turns.is_answered(turn) and not work.life.is_answered:
            work.drop(Input.ANSWERED_ELSEWHERE)
        again = partial(self._start_again, work, min(2 * pause, LONGEST_LOOK))
        self._loop.call_at(self._loop.time() + pause, again)

    def _start_again(self, work: PluginWork, pause: float) -> None:
        if work.life.state is BLOCKED:  # else its time was up, and it has ended
            self._start(work, pause)

    def _remove(self, ended: PluginWork) -> None:
        """A work is over: frees its id, and starts what has waited for it."""
        self.works.remove(ended)
        if ended.has_lock:
            self._turns.unlock(ended.pod, ended.target.id)
        try:
            self._on_over(ended)
        finally:
            for work in self.works[:]:
                if ended in work.after:
                    del work.after[ended]
                    if not work.after and work.life.state is QUEUED:
                        self._start(work)
            self._call_if_idle()

    # The end

    def when_idle(self, callback: Callable[[], object]) -> None:
        """Calls back, at once or later, when no work is left."""
        self._on_idle = callback
        self._call_if_idle()

    def _call_if_idle(self) -> None:
        if self._on_idle is not None and not self.works:
            callback, self._on_idle = self._on_idle, None
            callback()


def must_follow(work: PluginWork, earlier: PluginWork) -> bool:
    """Whether an earlier work that is not over comes before this one.

    The events of one id follow each other. A container's events follow its pod's create, and a pod's delete follows its
    containers' events.
    """
    mine, other = work.target, earlier.target
    if mine.id == other.id:
        return True
    if other.is_sandbox and earlier.kind == CREATE:
        return mine.sandbox_id == other.id
    return mine.is_sandbox and work.kind == DELETE and other.sandbox_id == mine.id


class Slowest(NamedTuple):
    """Of the programs that have printed a result, the one that took longest."""

    seconds: float
    step: Step

    def __str__(self) -> str:
        """Returns how long the program took, and what bounds it."""
        return f"{self.step.name} took {self.seconds:.1f} s ({self.step.limit})"


class Work(ABC, Generic[S]):
    """The programs of one event. A subclass says what the programs are, and what becomes of their output."""

    def __init__(
        self, runner: Runner, life: Life[S], trace: Trace, late_limit: float = 0, *, is_sent: bool = True
    ) -> None:
        """Takes what spawns programs, the life, the event's trace, and the seconds that programs get after the answer.

        `is_sent` is false if `on_sent` will tell that the runtime has got the answer.
        """
        self.answer: Deferred[Any] = Deferred()
        """What the runtime gets; the work may go on after it."""
        self.on_over: Callable[[Any], object] = lambda _: None
        """Told when the work is over."""
        self.life = life
        self.trace = trace
        """What log lines of this work have, and the runtime's span of the event for its programs."""
        self._runner = runner
        self._late_limit = late_limit
        self._is_sent = is_sent
        self._step: S
        """The program that was started last, or could not be started."""
        self._slowest: Slowest | None = None
        self._process: Process | None = None
        self._deadline = self._limit = self._restart = NO_TIMER
        self._busy, self._pause = "", FIRST_PAUSE
        """Why the current program is BUSY, and the seconds until it is spawned again."""
        self.is_large = False
        """Whether requests are made and results are read in a child process."""
        self._large = "", 0.0
        self._left: dict[Process, Timer] = {}
        """The programs that have been left without a result and still run; each with the end of the wait for it."""
        self._goes_on = False
        """Whether the log says that the work goes on after the answer."""

    # What a subclass says

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

    @abstractmethod
    def _prepare(self) -> Generator[Answer[Any], Any, None]:
        """Makes the large parts of the first request apart. Called before the first program is started."""

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
        self._restart.cancel()
        self._do(self.life.refuse(why))

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
                    self._busy = reason
                    return self.life.receive(Input.BEING_WRITTEN)
                raise step.error(reason) from None
        except ProgramError as error:
            reason = error.reason
        except Exception:  # the work must go on, for others wait for its end
            log.exception("a bug: %s cannot be started", step.name, extra=self.trace.extra)
            reason = f"its start {_BUG}"
        else:
            self._pause = FIRST_PAUSE
            self._feed(self._process)
            if step.policy.timeout or self.life.is_answered:
                self._set_limit()
            return ()
        self._pause = FIRST_PAUSE
        is_logged = _safely(self, "a failed start", True, self._on_not_started, step)
        actions = self.life.not_started(reason)
        self._report(is_logged=is_logged)
        return actions

    def _start_again_later(self) -> None:
        moment = self._runner.loop.time() + self._pause
        self._restart = self._runner.loop.call_at(moment, lambda: self._do(self.life.receive(Input.PAUSE_IS_OVER)))
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
        """Ends the work if it waits for nothing any more. While programs work on, a delete must not overtake them.

        If the runtime got the answer during `_answer`, `on_sent` has ended the work there.
        """
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
        self._take_printed()
        if self.life.has_none_left:
            self._do(self.life.time_is_up(""))
            return
        if self.life.state is BUSY:
            self._restart.cancel()
            _safely(self, "a failed start", True, self._on_not_started, self._step)
            late, reason = True, self._busy
        else:
            late, reason = self._process is not None, why or self._lateness()
            since = self._runner.loop.time() - self._process.started if self._process is not None else math.inf
            if self._slowest is not None and self._slowest.seconds > since:
                reason += f": {self._slowest}"
        actions = self.life.time_is_up(reason)
        if self.life.state is not ENDING:
            lateness = self._step.error(reason) if late else reason
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

    def _detach(self, outcome: RunOutcome) -> Process:
        """Returns the current program, which is not waited for any longer."""
        process, self._process = self._process, None
        assert process is not None  # noqa: S101 - the work has been RUNNING
        seconds = self._runner.count_time(process, outcome)
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
    Action.PAUSE: Work._start_again_later,
    Action.SET_LIMIT: Work._set_limit,
    Action.FREE_RUNTIME: _free_runtime,
    Action.ANSWER: Work._answer,
    Action.KILL_IF_ASKED: _kill_if_asked,
    Action.LEAVE: Work._leave,
    Action.LET_WORK: _let_work,
    Action.SETTLE: Work._settle,
    Action.GIVE_BACK: Work._end,
}


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]} …"


class ReadResult(NamedTuple):
    """A plugin's result, and the keys of changes in it that the plugin may not ask for."""

    answer: result.Result | Failure
    wishes: Sequence[str] = ()


class WorkTools(NamedTuple):
    """What the works of a runtime's events have in common."""

    runner: Runner
    plugins: LegacyPlugins
    updates: PendingUpdates
    ledger: Ledger


class PluginWork(Work[PluginStep]):
    """One event's work for legacy plugins, or a delete that comes without an event."""

    def __init__(
        self,
        tools: WorkTools,
        event: str,
        target: Target,
        steps: Sequence[PluginStep] | None,
        *,
        message: Any = None,
        entries: Sequence[Entry] = (),
        turn: Turn | None = None,
        trace: Trace | None = None,
    ) -> None:
        """The steps of a delete are None: `take_turn` names them. `entries` are the plugins of conf.json when it came.

        `message` is NRI's request, `turn` and `trace` are those of the event: None if no event asks for the work.
        """
        self.event = event
        self.kind = STATES[event]
        """What the requests have as their `state`: create, update or delete."""
        self.target = target
        self.pod = target.sandbox_id
        """The pod as the event names it, for the lock: the record of the create may complete the target meanwhile."""
        self.entries = entries
        self.is_awaited = message is not None
        """Whether the runtime waits for an answer."""
        self.turn = turn
        self.after: dict[PluginWork, None] = {}
        """The works that must be over before the turn of this one comes, in the order in which they came."""
        self.has_lock = False
        """Whether this work has the lock of its id."""
        runner, self._plugins, self._updates, self._ledger = tools
        self._message = message
        self._builder: AnswerBuilder | None = None
        """Made for the first request or result that needs it: see `_made_builder`."""
        self._is_stopped = False
        """Whether the container, or its pod, has been stopped since: then it is not held any more."""
        self._holder: Holder | None = None
        """Holds the container; None if it was never held."""
        self._body = b""
        self._fault: Oversized | None = None
        """Why a large container has no request."""
        life = Life(NEVER if self.kind == DELETE else AT_FAILURE, steps, is_answered=not self.is_awaited)
        late_limit = self._plugins.settings.late_limit
        super().__init__(runner, life, trace or Trace(about=target.named), late_limit, is_sent=not self.is_awaited)

    def __str__(self) -> str:
        """Returns what the work is in a log line."""
        return f"{self.kind} of {self.target}"

    # The turn

    def on_locked(self) -> None:
        """Another adapter works on the id."""
        self._do(self.life.receive(Input.LOCKED))

    def take_turn(self, fate: Fate, *, is_ended: bool = False) -> None:
        """Names the programs by the fate of the event, now that the id is locked, and starts them.

        `is_ended` is whether a later delete of the id waits.
        """
        self.has_lock = True
        try:
            # An adapter that has lost its connection is not seen any more. It runs on, and tries its deletes again.
            is_stale = self.turn is None or self.life.state is BLOCKED
            self._ledger.refresh(self.target, is_locked=True, is_stale=is_stale)
            if self.kind == DELETE:
                self._begin_deletes(fate)
            elif fate in SERVED_ELSEWHERE:
                self.life.set_steps(())
            elif fate is REPEAT and self.kind == CREATE:
                self.life.set_steps(() if is_ended else self._missing())  # deletes may have removed what was noted
        except Exception:  # others wait for its end
            log.exception("a bug: %s runs no program", self, extra=self.trace.extra)
            self.life.set_steps(())
        self.go()

    def _missing(self) -> list[PluginStep]:
        """Returns the steps of a create that the adapter which has begun it has not done."""
        assert self.turn is not None  # noqa: S101 - else its fate is MINE
        noted = self._ledger.keys(self.target.id, self.turn.at)
        is_asked = self.event == "CreateContainer"  # the runtime does not have the changes
        return [step for step in self.life.steps if step.entry.key not in noted or (is_asked and step.may_adjust)]

    def _begin_deletes(self, fate: Fate) -> None:
        target, earlier = self.target, self._ledger.target(self.target.id)
        if earlier is not None:
            has_pid = bool(target.pid)
            target.complete(earlier)
            self.trace = self.trace._replace(about=target.named)
            if not has_pid and earlier.started and earlier.started != cgroup.start_time(earlier.pid):
                target.pid = 0  # perhaps it is another process by now
        owed = self._ledger.begin_deletes(target.id) if fate is not PAST else ()
        entries = () if fate in SERVED_ELSEWHERE else self.entries
        self.life.set_steps(self._plugins.plans.of_delete(self.event, owed, entries, target))

    # The hold

    def hold_by(self, moment: float, due: float, holder: Callable[[], Holder]) -> None:
        """Holds the container at `moment`, on the loop's clock, or LATEST before the event is `due`, if it can be held.

        Else it answers the event when that is due. `holder` is called when the moment is near.
        """
        if not self.life.is_answered:
            moment = min(moment, due - LATEST)
            near = partial(self._on_hold_near, moment, due, holder)
            self._deadline = self._runner.loop.call_at(moment - LEAD, near)

    def _on_hold_near(self, moment: float, due: float, holder: Callable[[], Holder]) -> None:
        if _safely(self, "its hold", False, self._can_hold, holder):
            self._deadline = self._runner.loop.call_at(moment, partial(self._on_hold_due, due, holder()))
        else:
            self.answer_by(due)

    def _can_hold(self, holder: Callable[[], Holder]) -> bool:
        return not self._plugins.plans.is_exempt(self.target) and holder().can_hold(self.target, self.trace)

    def _on_hold_due(self, due: float, holder: Holder) -> None:
        now, latest = self._runner.loop.time(), due - LATEST
        if now < latest and not holder.is_ready:
            again = partial(self._on_hold_due, due, holder)
            self._deadline = self._runner.loop.call_at(min(latest, now + LOOK), again)
            return
        has_printed = now >= latest and self._take_printed()
        may_hold = not self.life.has_none_left and not self._is_stopped
        if may_hold and _safely(self, "its hold", False, self._hold, holder, due):
            self._runner.loop.call_at(max(due, now + MOST_PRINTED), self._look_for_printed)
            return
        if has_printed:
            self._do(self.life.limit_reached(""))
        self.answer_by(due)

    def _hold(self, holder: Holder, due: float) -> bool:
        """Holds the container, and tells the runtime that its event is over; returns False if that is not possible."""
        waits_for = self.life.steps[0].name if not self.after else ", ".join(map(str, self.after))
        is_held = holder.hold(
            self.target,
            str(self),
            waits_for,
            due=due,
            must_finish=self.life.must_finish,
            on_end=self._on_hold_ended,
            trace=self.trace,
        )
        if not is_held:
            return False
        self._holder = holder
        self._deadline = self._runner.loop.call_at(self._runner.loop.time() + holder.limit, self._on_time_up)
        self._do(self.life.hold())
        return True

    def _look_for_printed(self) -> None:
        """A plugin that has printed its result and works on holds nobody up for longer than it would hold the event."""
        if self.life.is_held:
            if self._take_printed():
                self._do(self.life.limit_reached(""))
            self._runner.loop.call_at(self._runner.loop.time() + MOST_PRINTED, self._look_for_printed)

    def on_stopped(self, why: str) -> None:
        """The container, or its pod, is stopped, and must not start any more."""
        if self.life.is_held:
            self.refuse(why)
        else:
            self._is_stopped = True

    def _on_hold_ended(self, end: HoldEnd) -> None:
        """Somebody else has ended the hold."""
        self._take_printed()  # perhaps of the plugin for which the container was refused
        if end.name == "GONE":
            self.refuse("the container's process has ended while it was held")
        elif end.name == "REFUSED" and not self.life.must_finish:
            self.refuse("the hold is over")
        else:
            self._on_time_up("the hold is over")

    def _end_hold(self) -> None:
        if self._holder is not None:
            self._holder.end(self.target.id, self.life.error)

    def on_runtime_gone(self) -> None:
        """The connection is lost. Creates that wait are dropped: nobody knows whether their containers will be started.

        A container that is held waits no longer: the next connection would wait for it. Deletes come all the same.
        """
        if self.life.is_held:
            self._on_time_up("the connection with the runtime is lost")
        if self.life.state in (QUEUED, BLOCKED):
            self.drop(Input.RUNTIME_GONE)

    # What is noted

    def _note_create(self, step: PluginStep) -> None:
        """Notes a create before its plugin knows of it."""
        if step.owes_delete:
            self._ledger.add(self.target, step.entry)
        else:
            self._ledger.keep(self.target)

    def _on_not_started(self, step: PluginStep) -> bool:
        """Puts the delete of a plugin that could not be started back; returns whether the log says so."""
        is_owed = self.kind == DELETE and self._ledger.put_back(self.target.id, step.entry)
        if not is_owed or self.is_awaited:
            return True
        now = self._runner.loop.time()
        if now - self._plugins.logged_at.get(step.name, -LOGGING) < LOGGING:
            return False
        self._plugins.logged_at[step.name] = now
        return True

    def _on_done(self, step: PluginStep) -> None:
        """Notes that the delete of a plugin has ended, or is not waited for any longer."""
        if self.kind == DELETE:
            self._ledger.end_delete(self.target.id, step.entry)

    def give_up(self) -> None:
        """The process ends. A delete that runs counts as ended: its plugin has the request, and is left to finish."""
        if self.life.state is RUNNING:
            self._on_done(self.life.steps[0])

    # What plugins get and answer

    def _made_builder(self) -> AnswerBuilder:
        if self._builder is None:
            self._builder = self._new_builder()
            self._builder.is_answered = self.is_awaited and (self.life.is_answered or self.life.was_held)
        return self._builder

    def _new_builder(self) -> AnswerBuilder:
        if self.event == "CreateContainer":
            from v010_adapter.legacy.create_answer import CreateAnswerBuilder  # noqa: PLC0415 - only where plugins may change something

            prefix, runtime = self._plugins.settings.metadata_prefix, self._plugins.runtime
            return CreateAnswerBuilder(self.event, self._message, self.target, self._updates, runtime, prefix)
        if self.event == "UpdateContainer":
            from v010_adapter.legacy.update_answer import UpdateAnswerBuilder  # noqa: PLC0415 - only where plugins may change something

            return UpdateAnswerBuilder(self.event, self._message, self.target, self._updates)
        return AnswerBuilder(self.event, self._message, self.target, self._updates)

    def _program(self, step: PluginStep) -> Program:
        try:
            if self._fault is not None:
                raise self._fault
            if step.is_extended:
                self._made_builder().refuse_oversized(is_large=self.is_large)
        except Oversized as error:
            raise PluginError(step.entry.type, str(error)) from None
        return self._plugins.programs.program(step.entry.type)

    def _prepare(self) -> Generator[Answer[Any], Any, None]:
        try:
            changes, *texts = yield self._apart(self._parts)
        except Oversized as error:
            self._fault = error.with_traceback(None)
            return
        self._made_builder().restore(changes)
        self.target.take_texts(*texts)

    def _parts(self) -> tuple[dict[str, Any], bytes, bytes]:
        """Makes the large parts of requests, in a child process."""
        return self._changes(self.life.steps), self.target.spec, self.target.labels

    def _changes(self, steps: Iterable[PluginStep]) -> dict[str, Any]:
        """Returns the builder's changes, with the part of the requests of further plugins that it makes."""
        builder = self._made_builder()
        if any(step.is_extended for step in steps):
            with suppress(Oversized):  # then `_program` raises it
                builder.refuse_oversized(is_large=self.is_large)
                builder.extension()
        return builder.changes()

    def _request(self, step: PluginStep) -> bytes:
        extension = self._made_builder().extension() if step.is_extended else None
        self._body = request.encode(self.target, self.kind, step.entry, self.life.results, extension)
        if self.kind == CREATE:
            self._note_create(step)
        return self._body

    def _on_left(self, process: Process) -> None:
        if log.isEnabledFor(logging.DEBUG):
            self._trace(process, Failure("no result in time"))

    def _has_result(self, process: Process) -> bool:
        """There is no time left for a result that may change a large container."""
        return not (self.is_large and self._step.is_extended) and result.is_complete(process.stdout)

    def _result(self, step: PluginStep, process: Process) -> Any:
        """Returns the plugin's result, whatever its exit code, or a Failure."""
        if self.is_large and step.is_extended:
            return in_turn(self._result_apart(step, process))
        return self._taken(step, process, self._read(step, process))

    def _result_apart(self, step: PluginStep, process: Process) -> Generator[Answer[Any], Any, Any]:
        try:
            read, changes = yield self._apart(lambda: self._read_apart(step, process))
            self._made_builder().restore(changes)
        except Oversized as error:
            read = ReadResult(Failure(str(error)))
        return self._taken(step, process, read)

    def _read_apart(self, step: PluginStep, process: Process) -> tuple[ReadResult, dict[str, Any]]:
        """Reads a result in a child process, where the next request is made, too."""
        read = self._read(step, process)
        if isinstance(read.answer, result.Result):
            read = read._replace(answer=read.answer.original())  # the builder has taken the changes
        return read, self._changes(self.life.steps[1:])

    def _read(self, step: PluginStep, process: Process) -> ReadResult:
        """Reads a result, and adds it to the answer."""
        parsed, wishes = result.Result(), list[str]()
        try:
            parsed = result.parse(process.stdout)
            if parsed.error:
                return ReadResult(Failure(_shortened(parsed.error)))
            if parsed.has_wishes and not step.may_adjust:  # the original client ignored unknown keys
                wishes, parsed = parsed.wishes(), parsed.original()
            if parsed.has_wishes or parsed.metadata:
                self._made_builder().accept(step.entry.type, parsed)
        except NotAdjustable as refused:
            return ReadResult(Failure(str(refused)), wishes)
        except result.ResultError as reason:
            return ReadResult(Failure(f"no result ({reason}), {process.ending}"))
        return ReadResult(parsed, wishes)

    def _taken(self, step: PluginStep, process: Process, read: ReadResult) -> result.Result | Failure:
        if read.wishes:
            self._warn_of_wishes(step.entry.type, read.wishes)
        if self._builder is not None:
            self._builder.settle()
        if log.isEnabledFor(logging.DEBUG):
            self._trace(process, read.answer)
        return read.answer

    def _warn_of_wishes(self, type_: str, wishes: Sequence[str]) -> None:
        """Logs that a result asks for changes that the plugin may not ask for."""
        if type_ not in self._plugins.warned:
            self._plugins.warned.add(type_)
            log.warning(
                "%s answers %s with `%s`, which is ignored: the plugin has no `events` in its settings. "
                "To change containers as they are created, add legacy: {plugins: {%s: {events: [CreateContainer]}}}",
                *(type_, self.event, "`, `".join(wishes), type_),
                extra=self.trace.extra,
            )

    def _response(self) -> Any:
        if self._builder is None:  # nobody has asked for anything
            updates = self._updates
            return with_updates(self.event, None, updates, self.target) if updates.waiting else None
        return self._builder.reply()

    def _let_go(self) -> None:
        self._message = self._builder = None
        self._body = b""
        self.life.results.clear()

    def _lateness_before(self) -> str:
        if self.life.state is BLOCKED:
            return f"waited for another adapter, which works on {self.target}"
        return f"waited for {', '.join(map(str, self.after))}" if self.after else super()._lateness_before()

    def _trace(self, process: Process, answer: result.Result | Failure) -> None:
        """Logs one run in full, at the level debug."""
        outcome = answer.reason if isinstance(answer, Failure) else "done"
        microseconds = int((self._runner.loop.time() - process.started) * 1e6)
        body, stdout = self._body, process.stdout  # as bytes: the formatters hide the values of variables in JSON
        fields = {
            "event": self.event,
            "plugin": process.name,
            "state": self.kind,
            "request": body,
            "result": stdout,
            "us": microseconds,
            "ending": process.ending,
            "error": str(PluginError(process.name, answer.reason)) if isinstance(answer, Failure) else None,
        }
        text = "%s: %s: %s after %d us; request: %s result: %s"
        log.debug(
            text,
            self,
            process.name,
            outcome,
            microseconds,
            body,
            stdout,
            extra=self.trace.extra_with(**fields),
        )
