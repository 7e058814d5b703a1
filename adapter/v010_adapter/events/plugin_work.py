"""The work of one event for legacy plugins: their requests, and their results; and what all such jobs share."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from nri import Answer
from nri.deferred import in_turn
from nri.errors import let_go_of_frames
from nri.runtimes import Runtime
from v010_adapter.errors import ConfigError, NotAdjustable, Oversized, PluginError
from v010_adapter.events.fates import Turn
from v010_adapter.events.life import AT_FAILURE, NEVER, Chain
from v010_adapter.events.work import Driver, Observer
from v010_adapter.legacy import request, result
from v010_adapter.legacy.answer import AnswerBuilder, with_updates
from v010_adapter.legacy.config import ConfigFile, Entry
from v010_adapter.legacy.find import Programs
from v010_adapter.legacy.pending_updates import PendingUpdates
from v010_adapter.legacy.plan import DELETE, STATES, Plans, PluginStep
from v010_adapter.legacy.request import Target
from v010_adapter.legacy.sandboxes import Sandboxes
from v010_adapter.programs.process import Process, Program
from v010_adapter.programs.runner import Runner
from v010_adapter.programs.step import Failure
from v010_adapter.settings import LegacySettings

log = logging.getLogger(__name__)

MAX_ERROR = 4 << 10
"""Characters of a result's `error`, which a plugin may copy from a pod, in the answer and in the log."""


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]} …"


class Read(NamedTuple):
    """A plugin's result, the misspelt keys in it, and the keys of changes that the plugin may not ask for."""

    answer: result.Result | Failure
    typos: Sequence[tuple[str, str]] = ()
    wishes: Sequence[str] = ()


class Plugins:
    """What the jobs of a node have in common: conf.json, the programs, which of them run when, what builds answers."""

    def __init__(self, runner: Runner, updates: PendingUpdates, settings: LegacySettings, host_root: str) -> None:
        self.settings = settings
        self.runner = runner
        self.updates = updates
        self.conf_json = ConfigFile(settings.config, trust=settings.trust)
        self.programs = Programs(settings.path, settings.environment, settings.trust)
        self.warned: set[tuple[str, str]] = set()
        """The plugins, each with what the log has a warning of."""
        self._host_root = host_root
        self.set_runtime(Runtime())

    def set_runtime(self, runtime: Runtime, pid: int = 0) -> None:
        """Learns which runtime this is, and its pid (0: unknown)."""
        self.runtime = runtime
        self.sees_pods = pid != 0
        """Whether pods have the same pids here as for the runtime: it has none here in another pid namespace."""
        self.sandboxes = Sandboxes(self.settings, self._host_root, runtime, pid)
        self.plans = Plans(self.settings, reports_ends=not runtime.habits.no_ends)

    def entries(self) -> Sequence[Entry] | None:
        """Looks at conf.json, as at every event at which a plugin may run; None if no version of it can be used."""
        try:
            return self.conf_json.current().entries
        except ConfigError as error:
            let_go_of_frames(error)  # it is kept: `conf_json.error`
            return None  # it has been logged

    def answer_builder(self, event: str, message: Any, target: Target) -> AnswerBuilder:
        """Returns what builds the answer to an event; `message` is NRI's request, None if no event asks for the job."""
        if event == "CreateContainer":
            from v010_adapter.legacy.create_answer import CreateAnswerBuilder  # noqa: PLC0415 - only where plugins may change something

            prefix = self.settings.metadata_prefix
            return CreateAnswerBuilder(event, message, target, self.updates, self.runtime, prefix)
        if event == "UpdateContainer":
            from v010_adapter.legacy.update_answer import UpdateAnswerBuilder  # noqa: PLC0415 - only where plugins may change something

            return UpdateAnswerBuilder(event, message, target, self.updates)
        return AnswerBuilder(event, message, target, self.updates)


class PluginJob(Driver[PluginStep]):
    """One event's work for legacy plugins."""

    def __init__(
        self,
        plugins: Plugins,
        observer: Observer[PluginJob, PluginStep],
        event: str,
        target: Target,
        steps: Sequence[PluginStep] | None,
        *,
        message: Any = None,
        entries: Sequence[Entry] = (),
        turn: Turn | None = None,
    ) -> None:
        """The steps of a delete are None: `chain.set_steps` names them. `turn` is None if no event asks for the job.

        `message` is NRI's request, None if no event asks for the job. `entries` are the plugins of conf.json when a
        delete came.
        """
        self.event = event
        self.state = STATES[event]
        """The state that the requests give: create, update or delete."""
        self.target = target
        self.pod = target.sandbox_id
        """The pod as the event names it, for the lock: the record of the create may complete the target meanwhile."""
        self.entries = entries
        self.is_awaited = message is not None
        """Whether the runtime waits for an answer."""
        self.turn = turn
        self.after: set[object] = set()
        """The jobs that must end before this one starts. Without any, it has started, and has the lock of its id."""
        self._plugins = plugins
        self._message = message
        self._builder: AnswerBuilder | None = None
        """Made for the first request or result that needs it: see `_made_builder`."""
        self._body = b""
        self._fault: Oversized | None = None
        """Why a large container has no request."""
        chain = Chain(NEVER if self.state == DELETE else AT_FAILURE, steps, is_answered=not self.is_awaited)
        super().__init__(plugins.runner, chain, observer, plugins.settings.late_limit)

    def __str__(self) -> str:
        """Returns what the job is in a log line."""
        return f"{self.state} of {self.target}"

    def answer_empty(self) -> None:
        """Answers the event, which another adapter has served. A delete goes on: it runs what is owed then."""
        if self.state != DELETE:
            self.chain.set_steps(())
        self._do(self.chain.time_is_up(""))

    def _made_builder(self) -> AnswerBuilder:
        if self._builder is None:
            self._builder = self._plugins.answer_builder(self.event, self._message, self.target)
            self._builder.is_answered = self.is_awaited and self.chain.is_answered
        return self._builder

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
        return self._changes(self.chain.steps), self.target.spec, self.target.labels

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
        self._body = request.encode(self.target, self.state, step.entry, self.chain.results, extension)
        return self._body

    def _on_left(self, process: Process) -> None:
        if log.isEnabledFor(logging.DEBUG):
            self._trace(process, Failure("no result in time"))

    def _has_result(self, process: Process) -> bool:
        """See Work. There is no time left for a result that may change a large container."""
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
        return read, self._changes(self.chain.steps[1:])

    def _read(self, step: PluginStep, process: Process) -> Read:
        """Reads a result, and adds it to the answer."""
        parsed, wishes = result.Result(), list[str]()
        try:
            parsed = result.parse(process.stdout)
            if parsed.error:
                return Read(Failure(_shortened(parsed.error)), parsed.typos)
            if parsed.has_wishes and not step.may_adjust:  # the original client ignored unknown keys
                wishes, parsed = parsed.wishes(), parsed.original()._replace(typos=parsed.typos)
            if parsed.has_wishes or parsed.metadata:
                self._made_builder().accept(step.entry.type, parsed)
        except NotAdjustable as refused:
            return Read(Failure(str(refused)), parsed.typos, wishes)
        except result.ResultError as reason:
            return Read(Failure(f"no result ({reason}), {process.ending}"))
        return Read(parsed, parsed.typos, wishes)

    def _taken(self, step: PluginStep, process: Process, read: Read) -> result.Result | Failure:
        if read.typos:
            self._warn_of_typos(step.entry.type, read.typos)
        if read.wishes:
            self._warn_of_wishes(step.entry.type, read.wishes)
        if self._builder is not None:
            self._builder.settle()
        if log.isEnabledFor(logging.DEBUG):
            self._trace(process, read.answer)
        return read.answer

    def _warn_of_wishes(self, type_: str, wishes: Sequence[str]) -> None:
        """Logs that a result asks for changes that the plugin may not ask for."""
        if self._is_news(type_, "wishes"):
            log.warning(
                "%s answers %s with `%s`, which is ignored: the plugin has no `events` in its settings. "
                "To change containers as they are created, add legacy: {plugins: {%s: {events: [CreateContainer]}}}",
                *(type_, self.event, "`, `".join(wishes), type_),
            )

    def _warn_of_typos(self, type_: str, typos: Iterable[tuple[str, str]]) -> None:
        for key, meant in typos:
            if self._is_news(type_, meant):
                log.warning("%s: the key %r in its result is unknown and ignored; did you mean %r?", type_, key, meant)

    def _is_news(self, type_: str, subject: str) -> bool:
        """Whether the log has no warning yet of this in a plugin's results; then it is about to have one."""
        warning = type_, subject
        is_news = warning not in self._plugins.warned
        self._plugins.warned.add(warning)
        return is_news

    def _response(self) -> Any:
        if self._builder is None:  # nobody has asked for anything
            updates = self._plugins.updates
            return with_updates(self.event, None, updates, self.target) if updates.waiting else None
        return self._builder.reply()

    def _let_go(self) -> None:
        self._message = self._builder = None
        self._body = b""
        self.chain.results.clear()

    def _lateness_before(self) -> str:
        return f"waited for {', '.join(map(str, self.after))}" if self.after else super()._lateness_before()

    def _trace(self, process: Process, answer: result.Result | Failure) -> None:
        """Logs one run in full, at the level debug."""
        outcome = answer.reason if isinstance(answer, Failure) else "done"
        microseconds = int((self._runner.loop.time() - process.started) * 1e6)
        body, stdout = self._body, process.stdout  # as bytes: the formatters hide the values of variables in JSON
        fields = {
            "event": self.event,
            "plugin": process.name,
            "state": self.state,
            "id": self.target.id,
            "request": body,
            "result": stdout,
            "us": microseconds,
            "ending": process.ending,
            "error": str(PluginError(process.name, answer.reason)) if isinstance(answer, Failure) else None,
        }
        text = "%s: %s: %s after %d us; request: %s result: %s"
        log.debug(text, self, process.name, outcome, microseconds, body, stdout, extra={"fields": fields})
