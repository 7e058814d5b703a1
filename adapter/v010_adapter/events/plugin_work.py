"""The work of one event for legacy plugins: who runs, what they get and answer, and what is noted of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from nri import Answer, cgroup
from nri.deferred import in_turn
from v010_adapter.errors import NotAdjustable, Oversized, PluginError
from v010_adapter.events.fates import PAST, REPEAT, SERVED_ELSEWHERE, Fate, Turn
from v010_adapter.events.life import AT_FAILURE, BLOCKED, NEVER, QUEUED, RUNNING, Input, Life
from v010_adapter.events.work import Work
from v010_adapter.legacy import request, result
from v010_adapter.legacy.answer import AnswerBuilder, with_updates
from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.pending_updates import PendingUpdates
from v010_adapter.legacy.plan import CREATE, DELETE, STATES, PluginStep
from v010_adapter.legacy.plugins import LegacyPlugins
from v010_adapter.legacy.request import Target
from v010_adapter.monitoring.trace import Named
from v010_adapter.programs.process import Process, Program
from v010_adapter.programs.runner import Runner
from v010_adapter.programs.step import Failure
from v010_adapter.state.ledger import Ledger

if TYPE_CHECKING:
    from nri import HoldEnd
    from v010_adapter.events.holder import Holder

log = logging.getLogger(__name__)

LEAD = 1.0
"""Seconds before a hold at which the adapter looks whether it is possible, and starts the keeper."""
LOOK = 0.02
"""Seconds between two looks whether the keeper has started, for a hold before the event is due."""
MOST_PRINTED = 2.0
"""Seconds between two looks whether a plugin for which a container is held has printed its result."""
LOGGING = 3600.0
"""Seconds between two log lines of a plugin that cannot be started for deletes that no event asks for."""
MAX_ERROR = 4 << 10
"""Characters of a result's `error`, which a plugin may copy from a pod, in the answer and in the log."""


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]} …"


class Read(NamedTuple):
    """A plugin's result, and the keys of changes in it that the plugin may not ask for."""

    answer: result.Result | Failure
    wishes: Sequence[str] = ()


class Shared(NamedTuple):
    """What all works of a runtime's events share."""

    runner: Runner
    plugins: LegacyPlugins
    updates: PendingUpdates
    ledger: Ledger


class PluginWork(Work[PluginStep]):
    """One event's work for legacy plugins, or a delete that comes without an event."""

    def __init__(
        self,
        shared: Shared,
        event: str,
        target: Target,
        steps: Sequence[PluginStep] | None,
        *,
        message: Any = None,
        entries: Sequence[Entry] = (),
        turn: Turn | None = None,
    ) -> None:
        """The steps of a delete are None: `take_turn` names them. `turn` is None if no event asks for the work.

        `message` is NRI's request, None if no event asks for the work. `entries` are the plugins of conf.json when a
        delete came.
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
        self.after: set[PluginWork] = set()
        """The works that must be over before the turn of this one comes."""
        self.has_lock = False
        """Whether this work has the lock of its id."""
        runner, self._plugins, self._updates, self._ledger = shared
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
        super().__init__(runner, life, self._plugins.settings.late_limit, is_sent=not self.is_awaited)

    def __str__(self) -> str:
        """Returns what the work is in a log line."""
        return f"{self.kind} of {self.target}"

    def _named(self) -> Named:
        return self.target.named

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
            if not has_pid and earlier.started and earlier.started != cgroup.start_time(earlier.pid):
                target.pid = 0  # perhaps it is another process by now
        owed = self._ledger.begin_deletes(target.id) if fate is not PAST else ()
        entries = () if fate in SERVED_ELSEWHERE else self.entries
        self.life.set_steps(self._plugins.plans.of_delete(self.event, owed, entries, target))

    # The hold

    def hold_by(self, moment: float, due: float, holder: Callable[[], Holder]) -> None:
        """Holds the container at `moment`, on the loop's clock, if that is possible.

        Else answers the event when it is `due`, which is not earlier. `holder` is called when the moment is near.
        """
        if not self.life.is_answered:
            near = partial(self._on_hold_near, moment, due, holder)
            self._deadline = self._runner.loop.call_at(moment - LEAD, near)

    def _on_hold_near(self, moment: float, due: float, holder: Callable[[], Holder]) -> None:
        if self._plugins.plans.is_exempt(self.target) or not holder().can_hold(self.target, self.trace):
            self.answer_by(due)
        else:
            self._deadline = self._runner.loop.call_at(moment, partial(self._on_hold_due, due, holder()))

    def _on_hold_due(self, due: float, holder: Holder) -> None:
        now = self._runner.loop.time()
        if now < due and not holder.is_ready:
            again = partial(self._on_hold_due, due, holder)
            self._deadline = self._runner.loop.call_at(min(due, now + LOOK), again)
            return
        if now >= due:
            self._take_printed()
        if not self.life.is_over and not self._is_stopped and self._hold(holder):
            self._runner.loop.call_at(max(due, now + MOST_PRINTED), self._look_for_printed)
        elif now < due:
            self.answer_by(due)
        else:
            self._on_time_up()

    def _hold(self, holder: Holder) -> bool:
        """Holds the container, and tells the runtime that its event is over; returns False if that is not possible."""
        waits_for = self.life.steps[0].name if not self.after else ", ".join(map(str, self.after))
        must_finish = self.life.must_finish
        ended, trace = self._on_hold_ended, self.trace
        if not holder.hold(self.target, str(self), waits_for, must_finish=must_finish, on_end=ended, trace=trace):
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
        if end.name == "GONE":
            self.refuse("the container's process has ended while it was held")
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
        if self.life.state is RUNNING and not self.is_starting:
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
            read = Read(Failure(str(error)))
        return self._taken(step, process, read)

    def _read_apart(self, step: PluginStep, process: Process) -> tuple[Read, dict[str, Any]]:
        """Reads a result in a child process, where the next request is made, too."""
        read = self._read(step, process)
        if isinstance(read.answer, result.Result):
            read = read._replace(answer=read.answer.original())  # the builder has taken the changes
        return read, self._changes(self.life.steps[1:])

    def _read(self, step: PluginStep, process: Process) -> Read:
        """Reads a result, and adds it to the answer."""
        parsed, wishes = result.Result(), list[str]()
        try:
            parsed = result.parse(process.stdout)
            if parsed.error:
                return Read(Failure(_shortened(parsed.error)))
            if parsed.has_wishes and not step.may_adjust:  # the original client ignored unknown keys
                wishes, parsed = parsed.wishes(), parsed.original()
            if parsed.has_wishes or parsed.metadata:
                self._made_builder().accept(step.entry.type, parsed)
        except NotAdjustable as refused:
            return Read(Failure(str(refused)), wishes)
        except result.ResultError as reason:
            return Read(Failure(f"no result ({reason}), {process.ending}"))
        return Read(parsed, wishes)

    def _taken(self, step: PluginStep, process: Process, read: Read) -> result.Result | Failure:
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
