"""One event's way through its plugins: step by step, answered in time, finished behind the answer if need be."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from adapter.errors import NotAdjustable, PluginError
from adapter.legacy import request, result
from adapter.legacy.chain import CREATE, DELETE, Chain, Step
from adapter.legacy.ledger import Ledger
from adapter.legacy.outcome import Outcome
from adapter.legacy.request import Subject
from adapter.legacy.runner import Runner
from adapter.loop import Timer
from adapter.nri import Deferred
from adapter.process import MAX_STDOUT, Process

log = logging.getLogger(__name__)


class Means(NamedTuple):
    """What every job works with. `late_limit` is the seconds a plugin may take behind the answer."""

    runner: Runner
    ledger: Ledger
    late_limit: float
    ended: Callable[[Job], None]
    """Called when a job's chain has ended."""


class Job:
    """One event's work. It is answered when its chain ends or its time is up, whichever comes first."""

    def __init__(self, means: Means, event: str, subject: Subject, chain: Chain, outcome: Outcome) -> None:
        """Takes what it works with, the event's name, what it is about, its plugins, and what becomes of results."""
        self.event = event
        self.subject = subject
        self.chain = chain
        self.answer: Deferred[Any] = Deferred()
        """What the runtime gets; the chain may go on behind it."""
        self.after: set[Job] = set()
        """The jobs that must end before this one starts."""
        self.started = False
        self._means = means
        self._outcome = outcome
        self._process: Process | None = None
        self._body = b""
        self._deadline: Timer | None = None
        self._limit: Timer | None = None

    def __str__(self) -> str:
        """Returns what it is in a log line."""
        return f"{self.chain.state} of {self.subject}"

    def must_follow(self, earlier: Job) -> bool:
        """Whether an earlier job that has not ended comes before this one."""
        mine, other = self.subject, earlier.subject
        if mine.id == other.id:
            return True
        if other.is_sandbox and earlier.chain.state == CREATE:
            return mine.sandbox_id == other.id
        return mine.is_sandbox and self.chain.state == DELETE and other.sandbox_id == mine.id

    def answer_by(self, moment: float) -> None:
        """Sees to it that an answer goes out at `moment`, on the loop's clock, at the latest."""
        if not self.answer.done:
            self._deadline = self._means.runner.loop.call_at(moment, self._time_is_up)

    def run(self) -> None:
        """Starts the chain."""
        self.started = True
        self._go_on()

    def _go_on(self) -> None:
        """Starts the plugin whose turn it is; those that cannot be started have failed."""
        while (step := self.chain.current) is not None:
            try:
                self._start(step)
                return
            except PluginError as error:
                self._report(self.chain.fail(error.reason))
        self._reply()
        self._means.ended(self)

    def _start(self, step: Step) -> None:
        self._process = self._means.runner.start(step.entry.type, self._exited)
        # Only now, while the program loads.
        full = self._outcome.full() if step.full else None
        self._body = request.encode(self.subject, self.chain.state, step.entry, self.chain.results, full)
        self._process.feed(self._body)
        if self.chain.state == CREATE and step.owes_delete:
            self._means.ledger.add(self.subject, step.entry)
        self._set_limit(step)

    def _set_limit(self, step: Step) -> None:
        """Sets the moment at which the chain goes on without its current plugin, where there is one."""
        if self._limit is not None:
            self._limit.cancel()
        limits = [step.policy.timeout] if step.policy.timeout else []
        if self.answer.done:
            limits.append(self._means.late_limit)
        if limits and self._process is not None:
            moment = self._process.started + min(limits)
            self._limit = self._means.runner.loop.call_at(moment, self._limit_is_reached)

    def _exited(self, process: Process) -> None:
        self._conclude(process)
        self._go_on()

    def _conclude(self, process: Process) -> None:
        """Takes what the plugin has printed as its result, or as its failure."""
        self._release()
        parsed: result.Result | None = None
        try:
            if process.too_long:
                raise result.ResultError(f"more than {MAX_STDOUT} bytes")
            parsed = result.parse(process.stdout)
            if not parsed.error:
                self._outcome.take(process.name, parsed)
            error = self.chain.succeed(parsed)
        except NotAdjustable as refused:
            error = self.chain.fail(str(refused))
        except result.ResultError as reason:
            error = self.chain.fail(f"no result ({reason}), {process.ending}, output: {_quote(process.stdout)}")
        except Exception:  # whatever a plugin prints must cost nobody but itself
            log.exception("a bug: %s has printed %s", process.name, _quote(process.stdout))
            error = self.chain.fail("its result meets a bug of the adapter, which has logged it")
        if log.isEnabledFor(logging.DEBUG):
            self._trace(process, parsed, error)
        if error is not None:
            self._report(error)

    def _release(self) -> None:
        """Lets go of the current process."""
        self._process = None
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _report(self, error: PluginError) -> None:
        self._means.runner.counters["failures"] += 1
        log.error("%s: %s%s", self, error, "" if error is self.chain.error else " (tolerated)")

    def _reply(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self.answer.done:
            return
        if self.chain.error is not None:
            self.answer.fail(self.chain.error)
        else:
            self.answer.complete(self._outcome.reply())

    def _time_is_up(self) -> None:
        """The event must be answered now: fails it, or lets the rest of the chain run behind the answer."""
        if self._has_result():
            self._leave_with_result()
        process, step = self._process, self.chain.current
        if step is None and self.started:
            self._go_on()
            return
        self._means.runner.counters["late"] += 1
        reason = self._lateness()
        error = self.chain.overdue(reason, started=process is not None)
        if error is not None:
            self._report(error)
            if process is not None and step is not None:
                self._leave(process, step)
            self._go_on()
            return
        log.warning("%s: %s; it goes on behind the answer", self, reason)
        self._reply()
        if process is None:
            if self.started:
                self._go_on()
        elif step is not None:
            if step.policy.kill_on_timeout:
                self._means.runner.kill(process)
            self._set_limit(step)

    def _limit_is_reached(self) -> None:
        """The chain goes on without its current plugin."""
        process, step = self._process, self.chain.current
        if process is None or step is None:
            return
        if self._has_result():
            self._leave_with_result()
        else:
            self._means.runner.counters["late"] += 1
            self._report(self.chain.fail(self._lateness()))
            self._leave(process, step)
        self._go_on()

    def _has_result(self) -> bool:
        return self._process is not None and result.is_complete(self._process.stdout)

    def _leave_with_result(self) -> None:
        """A plugin that has printed its result has succeeded, though it works on."""
        process = self._process
        if process is not None:
            self._means.runner.leave_done(process)
            self._conclude(process)

    def _leave(self, process: Process, step: Step) -> None:
        self._release()
        self._means.runner.leave(process, kill=step.policy.kill_on_timeout)

    def _lateness(self) -> str:
        if self._process is not None:
            return f"no result within {self._means.runner.loop.time() - self._process.started:.1f} s"
        if self.started:
            return "no time was left"
        return f"waited for {', '.join(map(str, self.after))}"

    def _trace(self, process: Process, parsed: result.Result | None, error: PluginError | None) -> None:
        """Logs one run in full."""
        fields = {
            "event": self.event,
            "plugin": process.name,
            "state": self.chain.state,
            "id": self.subject.id,
            "request": _data(self._body),
            "result": None if parsed is None else parsed._asdict(),
            "stdout": process.stdout.decode("utf-8", "replace"),
            "us": int((self._means.runner.loop.time() - process.started) * 1e6),
            "error": None if error is None else str(error),
        }
        text = "%s: %s: %s after %d us; request: %s result: %s"
        body = self._body.decode("utf-8", "replace")
        words = (self, process.name, error or "done", fields["us"], body, fields["stdout"])
        log.debug(text, *words, extra={"fields": fields})


def _data(text: bytes) -> Any:
    """Returns what JSON text holds, the text itself where Python's decoder has limits that Go's has not."""
    import json  # noqa: PLC0415 - only where somebody looks closely

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.decode("utf-8", "replace")


def _quote(output: bytes, most: int = 200) -> str:
    text = output[:most].decode("utf-8", "backslashreplace")
    return f"{text!r}{' …' if len(output) > most else ''}" if output else "<empty>"
