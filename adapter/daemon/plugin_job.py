"""One event's legacy plugins: their requests, their results, and the ledger's part in it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from adapter.errors import NotAdjustable, PluginError
from adapter.legacy import request, result
from adapter.legacy.answer import AnswerBuilder
from adapter.legacy.config import Entry
from adapter.legacy.request import Target
from adapter.legacy.subscriptions import CREATE, DELETE, STATES
from adapter.owed.ledger import Ledger
from adapter.programs.chain import Chain, Ends, Failure, Policy
from adapter.programs.driver import Driver, complaint, quoted
from adapter.programs.find import Programs
from adapter.programs.process import Process
from adapter.programs.runner import Runner

log = logging.getLogger(__name__)

TELLING = 3600.0
"""Seconds between two log lines of a plugin that cannot be started for deletes that no event asks for."""


class PluginStep(NamedTuple):
    """One plugin of an event.

    `is_extended` is whether its request has more than the original's. `owes_delete` is whether a delete follows on its
    create. `may_adjust` is whether the plugin has a list of events, and so may ask for adjustments.
    """

    entry: Entry
    policy: Policy = Policy()
    is_extended: bool = False
    owes_delete: bool = True
    may_adjust: bool = False

    @property
    def name(self) -> str:
        """The plugin's type."""
        return self.entry.type

    @property
    def limit(self) -> str:
        """The setting of the plugin's time."""
        return f"legacy.plugins.{self.entry.type}.timeout"

    def error(self, reason: str) -> PluginError:
        """Returns the plugin's failure."""
        return PluginError(self.entry.type, reason)


class Services(NamedTuple):
    """What all jobs of the legacy bridge work with.

    `late_limit` is the seconds a plugin may take behind the answer. `warned` holds the plugins, each with what the
    log has a warning of. `told` holds when the log had the last line of a plugin whose delete was tried again.
    """

    runner: Runner
    programs: Programs
    ledger: Ledger
    late_limit: float
    warned: set[tuple[str, str]]
    told: dict[str, float]


class PluginJob(Driver[PluginStep]):
    """One event's work for legacy plugins."""

    def __init__(
        self,
        services: Services,
        event: str,
        target: Target,
        builder: AnswerBuilder,
        steps: Sequence[PluginStep] | None,
        *,
        is_awaited: bool = True,
    ) -> None:
        """Takes the event, what it is about, and its plugins. The plugins of a delete are named by `begin`.

        `is_awaited` is whether the runtime waits for an answer.
        """
        self.event = event
        self.state = STATES[event]
        """The state that the requests give: create, update or delete."""
        self.target = target
        self.entries: Sequence[Entry] = ()
        """The plugins of conf.json when a delete came."""
        self.after: set[PluginJob] = set()
        """The jobs that must end before this one starts."""
        self._services = services
        self._builder = builder
        self._is_awaited = is_awaited
        self._body = b""
        ends = Ends.NEVER if self.state == DELETE else Ends.AT_FAILURE
        super().__init__(services.runner, Chain(ends, steps), late_limit=services.late_limit, is_awaited=is_awaited)

    def __str__(self) -> str:
        """Returns what the job is in a log line."""
        return f"{self.state} of {self.target}"

    def begin(self, steps: Sequence[PluginStep]) -> None:
        """Names the plugins of a delete."""
        self._job.chain.begin(steps)

    def drop(self) -> None:
        """Forgets the plugins of a job whose turn has not come."""
        self._job.chain.begin(())

    def _spawn(self, step: PluginStep, on_exit: Callable[[Process], None]) -> Process:
        return self._services.programs.spawn(self._runner, step.entry.type, on_exit)

    def _request(self, step: PluginStep) -> bytes:
        extension = self._builder.extension() if step.is_extended else None
        self._body = request.encode(self.target, self.state, step.entry, self._job.chain.results, extension)
        return self._body

    def _is_fed(self, step: PluginStep) -> None:
        if self.state == CREATE:
            self._services.ledger.remember(self.target)
            if step.owes_delete:
                self._services.ledger.add(self.target, step.entry)

    def _is_not_started(self, step: PluginStep) -> bool:
        is_owed = self.state == DELETE and self._services.ledger.put_back(self.target.id, step.entry)
        if not is_owed or self._is_awaited:
            return True
        now, told = self._runner.loop.time(), self._services.told
        is_news = now - told.get(step.name, -TELLING) >= TELLING
        if is_news:
            told[step.name] = now
        return is_news

    def _is_done(self, step: PluginStep) -> None:
        if self.state == DELETE:
            self._services.ledger.deleted(self.target.id, step.entry)

    def _is_left(self, process: Process) -> None:
        self._trace(process, Failure("no result in time"))

    def _has_result(self, process: Process) -> bool:
        return result.is_complete(process.stdout)

    def _result(self, step: PluginStep, process: Process) -> Any:
        """Returns the plugin's result, whatever its exit code, or a Failure."""
        answer = self._accepted(step, process)
        self._trace(process, answer)
        return answer

    def _accepted(self, step: PluginStep, process: Process) -> result.Result | Failure:
        try:
            parsed = result.parse(process.stdout)
            self._warn_of_typos(step.entry.type, parsed.typos)
            if parsed.error:
                return Failure(parsed.error)
            if not step.may_adjust:
                parsed = self._without_wishes(step.entry.type, parsed)
            self._builder.take(step.entry.type, parsed)
        except NotAdjustable as refused:
            return Failure(str(refused))
        except result.ResultError as reason:
            output = f", output: {quoted(process.stdout)}" if process.stdout.strip() else ""
            return Failure(f"no result ({reason}), {process.ending}{output}{complaint(process)}")
        return parsed

    def _without_wishes(self, type_: str, parsed: result.Result) -> result.Result:
        """Returns the result as the original client read it: it ignored the keys that it did not know."""
        wishes = parsed.requested()
        if wishes and self._is_news(type_, "wishes"):
            log.warning(
                "%s answers %s with `%s`, which is ignored: the plugin has no `events` in its settings. "
                "To change containers as they are created, add legacy: {plugins: {%s: {events: [CreateContainer]}}}",
                *(type_, self.event, "`, `".join(wishes), type_),
            )
        return parsed.original()

    def _warn_of_typos(self, type_: str, typos: Iterable[tuple[str, str]]) -> None:
        for key, meant in typos:
            if self._is_news(type_, meant):
                log.warning("%s: the key %r in its result is unknown and ignored; did you mean %r?", type_, key, meant)

    def _is_news(self, type_: str, subject: str) -> bool:
        """Whether the log has no warning yet of this in a plugin's results; then it is about to have one."""
        warning = type_, subject
        is_news = warning not in self._services.warned
        self._services.warned.add(warning)
        return is_news

    def _response(self) -> Any:
        return self._builder.reply()

    def _lateness_before(self) -> str:
        return f"waited for {', '.join(map(str, self.after))}"

    def _trace(self, process: Process, answer: result.Result | Failure) -> None:
        """Logs one run in full, at the level debug."""
        if not log.isEnabledFor(logging.DEBUG):
            return
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
