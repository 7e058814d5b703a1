"""Serves a runtime that the adapter has joined: the way of each event, from the runtime's call to its answer.

An event that another adapter has not served goes to the legacy plugins that run at it, as a `PluginWork`, and at a
creation to the hooks. `life` has what may happen to a work; `turns` has which adapter serves an event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from nri import Answer, Context, api, cgroup, runtimes
from nri.deferred import in_turn
from nri.events import subject_of
from nri.runtimes import Runtime
from v010_adapter.base.loop import Loop
from v010_adapter.errors import ConfigError, PluginError
from v010_adapter.events.deletes import Deletes, FirstStart, listed_by
from v010_adapter.events.turns import SERVED_ELSEWHERE, NoteState, Turn, Turns
from v010_adapter.events.work import PluginWork, WorkTools
from v010_adapter.legacy.answer import with_updates
from v010_adapter.legacy.pending_updates import PendingUpdates
from v010_adapter.legacy.plan import DELETE, REMOVALS, STATES
from v010_adapter.legacy.plugins import LegacyPlugins
from v010_adapter.legacy.request import Target, of_event
from v010_adapter.monitoring.trace import Trace, created, trace_of
from v010_adapter.programs.apart import LARGE
from v010_adapter.programs.process import Account, Runner
from v010_adapter.settings import Settings
from v010_adapter.state.ledger import Ledger

if TYPE_CHECKING:
    from v010_adapter.events.holder import Holder
    from v010_adapter.events.hooks import HookBridge
    from v010_adapter.legacy.pending_updates import OnUpdated
    from v010_adapter.programs.process import Program
    from v010_adapter.programs.standby import Standby

log = logging.getLogger(__name__)

SECONDS_PER_BYTE = 0.2e-6
"""The time that is reserved for what follows the last program. It grows with the message."""
CREATION, START = "CreateContainer", "StartContainer"


class DaemonLink(Protocol):
    """The `Daemon`, as this module needs it: the process, and its connection with the runtime."""

    @property
    def runtime_pid(self) -> int:
        """The pid of the runtime, 0 if that is not known."""

    def on_joined(self) -> None:
        """The runtime has synchronized the adapter."""

    def on_bug(self, error: Exception) -> None:
        """Joins anew: nothing is known of what a bug has left undone."""

    def on_served(self, is_ours: bool) -> None:
        """Notes whether this adapter, or another one, does the work: as soon as that is known, and when it changes."""

    def send_updates(self, updates: list[api.ContainerUpdate], on_reply: OnUpdated) -> None:
        """Asks the runtime for updates of containers."""

    def keep_configuration(self, text: str, socket: str) -> None:
        """Keeps the runtime's configuration text, and the path of the socket in it, for a later process."""


class Serving:
    """Serves the events of one runtime with legacy plugins and hooks."""

    def __init__(
        self, loop: Loop, own: Settings, turns: Turns, link: DaemonLink, make_holder: Callable[[], Holder] | None = None
    ) -> None:
        """Call `set_runtime` and `on_synchronize` next.

        `make_holder` returns what holds containers; None if none is ever held.
        """
        self._own = own
        self._link = link
        self._loop = loop
        self._turns = turns
        self._runtime = Runtime()
        self._make_holder = make_holder if own.legacy.hold_after is not None else None
        self._hold_after = own.legacy.hold_after or 0.0
        self._unanswered: dict[Context, tuple[Turn, PluginWork | None]] = {}
        """The events without an answer, each with its work if plugins may run at it."""
        self.serves = self._is_decided = False
        """Whether this adapter serves: it has served the last event, or is alone; and whether that is known."""
        self._standby = self._made_standby()
        self.runner = Runner(loop, self._standby.claim if self._standby is not None else None)
        self.plugins = LegacyPlugins(own.legacy, own.host_root)
        self.updates = PendingUpdates(loop)
        self.ledger = Ledger(loop, turns.directory)
        self.ledger.on_fault = turns.tell_unwritten
        turns.on_change = self._on_change
        turns.look()
        self._tools = WorkTools(self.runner, self.plugins, self.updates, self.ledger)
        self.deletes = Deletes(loop, self._tools, turns)
        self._is_first = True
        """Whether this adapter has not been synchronized yet."""
        self._first_start = FirstStart(self.ledger, self.plugins, turns.directory)
        self._pods_of_runtime: set[str] = set()
        """The pods that run, whose plugins the runtime itself runs."""
        self._hooks: HookBridge | None = None

    def _made_standby(self) -> Standby | None:
        """Returns the programs that are started ahead of events, None if none is configured to be."""
        legacy, hooks = self._own.legacy, self._own.hooks
        if not any((legacy.standby, hooks.standby, *(plugin.standby for plugin in legacy.plugins.values()))):
            return None
        from v010_adapter.programs.standby import Standby  # noqa: PLC0415

        return Standby(self._loop, legacy.standby_max_age, self._programs_ahead)

    def _programs_ahead(self) -> Iterator[tuple[Program | PluginError, int]]:
        """Yields the programs that should stand by now, or their errors, with the number of processes."""
        for entry in self.plugins.entries() or ():
            if number := self._own.legacy.of(entry.type, "standby"):
                try:
                    yield self.plugins.programs.program(entry.type), number
                except PluginError as error:
                    yield error, number
        if self._hooks is not None:
            yield from self._hooks.standby_programs()

    def set_runtime(self, runtime: Runtime, *, with_hooks: bool = False) -> None:
        """Learns which runtime this is, and whether hooks are ours to inject."""
        self._runtime = runtime
        self.plugins.set_runtime(runtime, self._link.runtime_pid)
        self._loop.call_soon(self.plugins.sandboxes.log_verdict)  # the runtime waits for the answer
        self.updates.refusal = runtime.habits.no_updates
        self.updates.send = self._link.send_updates if runtime.nri >= runtimes.UPDATES_AT_ANY_TIME else None
        if with_hooks and self._hooks is None:
            from v010_adapter.events.hooks import HookBridge  # noqa: PLC0415 - only where there are hooks

            self._hooks = HookBridge(self._loop, self._own.hooks, self.runner, self._own.host_root)
        elif not with_hooks:
            self._hooks = None

    def _on_change(self, is_shared: bool, is_remade: bool) -> None:
        self._loop.is_watchful = is_shared
        self.ledger.expect_changes(is_shared, is_remade)

    # The connection

    def on_synchronize(self, request: api.SynchronizeRequest) -> None:
        """Compares the records with what the runtime has. Call it after the answer, before any event."""
        if prefix := self._own.legacy.metadata_prefix:
            _withhold((*request.pods, *request.containers), prefix)
        self.updates.existing = {container.id for container in request.containers}
        self.updates.flush_soon()
        node = listed_by(request.pods, request.containers)
        ours = [target for target in node.running if not (target.is_sandbox and self.plugins.sandboxes.runtime_runs)]
        self._pods_of_runtime = {target.id for target in node.running} - {target.id for target in ours}
        if not self._is_first or not self._first_start.is_due:
            self.deletes.reconcile(node, ours)
        elif self.plugins.plans.reports_ends:
            self._first_start.begin(ours)
        self._is_first = False
        self._note_served(is_ours=not self._turns.has_others)
        if self._hooks is not None:
            self._hooks.start(self._runtime)

    def on_runtime_gone(self) -> None:
        """The connection is lost: running plugins may finish, waiting creates do not start.

        Nobody knows whether their containers will be started. Deletes that are owed come all the same.
        """
        unanswered, self._unanswered = self._unanswered, {}
        self.deletes.queue.on_runtime_gone()
        for _, work in unanswered.values():
            if work is not None:
                work.on_sent()
        self.updates.on_runtime_gone()
        self.deletes.on_runtime_gone()
        self._is_decided = False

    # From the event to the answer

    def on_event(self, request: Any, context: Context) -> Any:
        """Returns the answer to an event, maybe a Deferred; an empty one if another adapter has served the event.

        The answer fails with the PluginError of a plugin that must not fail. Raises ConfigError if conf.json cannot be
        read and a create must not go without its plugins.

        Only stops and removals are served in two cases: the runtime has closed the connection, so it waits for no
        answer; or this process was stopped, has read the event too late, and other adapters have got it.
        """
        target = of_event(context.method, request)
        timeout = context.deadline - context.came
        turn = self._turns.turn(context.method, target.sandbox_id, target.id, self._loop.quiet_at, timeout)
        if not self._loop.is_watchful:  # until a moment ago nobody was beside this adapter, or it has not seen that yet
            turn.deadline = context.deadline
        if not context.is_heard and not turn.is_end:
            return None
        if self._standby is not None:
            self._standby.on_event()
        if turn.at >= context.deadline and self._turns.others_got(turn) and not turn.is_end:
            self.deletes.note_named(target)
            self._note_existing(target)
            return None
        self._unanswered[context] = turn, None
        if context.method == CREATION:
            return in_turn(self._create(request, target, context, turn))
        if prefix := self._own.legacy.metadata_prefix:
            is_of_pod = context.method.endswith("PodSandbox")
            _withhold([request.pod] if is_of_pod else [request.pod, request.container], prefix)
        return self._run_plugins(request, target, context, turn, trace_of(context, target.named))

    def _create(
        self, request: api.CreateContainerRequest, target: Target, context: Context, turn: Turn
    ) -> Generator[Answer[Any], Any, api.CreateContainerResponse | None]:
        """Serves CreateContainer: legacy plugins, then hooks, then precreate hooks.

        Hooks are matched with the container of the request; precreate hooks get it as plugins and hooks have adjusted
        it. Yields each answer that the creation waits for, to be sent its reply; returns the answer to the event.
        """
        trace = trace_of(context, created(request))
        prefix = self._own.legacy.metadata_prefix
        withheld = _withhold_at_creation(request, prefix, trace) if prefix else ()
        response: api.CreateContainerResponse | None = yield self._run_plugins(request, target, context, turn, trace)
        if turn.fate in SERVED_ELSEWHERE:
            return None
        if withheld:
            response = response or api.CreateContainerResponse()
            _remove(withheld, response.adjust)
        if self._hooks is not None:
            response = response or api.CreateContainerResponse()
            response = yield from self._hooks.on_creation(request, response, context.due, trace)
        return response

    def _run_plugins(self, message: Any, target: Target, context: Context, turn: Turn, trace: Trace) -> Any:
        """Runs the legacy plugins of an event; returns the answer that they make, maybe a Deferred."""
        event = context.method
        context.be_due_earlier(context.size * SECONDS_PER_BYTE)
        if self._first_start.is_counting:
            self._first_start.count()
        self.deletes.note_named(target)
        work = self._work_of(event, message, target, turn, trace)
        if work is not None:
            self._unanswered[context] = turn, work
            if context.size > LARGE:
                work.be_large(context.size, context.due)
            self.deletes.submit(work)
            if event == START and self._make_holder is not None:
                work.hold_by(context.came + self._hold_after, context.due, self._make_holder)
            else:
                work.answer_by(context.due)
        if event in REMOVALS:
            self.deletes.remove(target.id)
            for id_ in self.ledger.containers_of(target.id):
                self.run_for_gone(id_)
        if work is not None:
            return work.answer
        return with_updates(event, None, self.updates, target) if self.updates.waiting else None

    def _work_of(self, event: str, message: Any, target: Target, turn: Turn, trace: Trace) -> PluginWork | None:
        """Returns the work of an event, None if no plugin runs at it, and nothing else depends on its fate."""
        plugins = self.plugins
        by_runtime = target.is_sandbox and plugins.sandboxes.runtime_runs_at(event)
        if by_runtime:
            self._pods_of_runtime.add(target.id)
        if STATES[event] == DELETE:
            if self._make_holder is not None and self.deletes.queue.works:
                self.deletes.queue.on_stopped(target.id, f"{event} has come while the container was held")
            self.updates.existing.discard(target.id)
            self._pods_of_runtime.discard(target.id)
            self._first_start.forget(target.id)
            return self.deletes.of_event(event, message, target, turn, trace, by_runtime=by_runtime)
        self._note_existing(target)
        entries = plugins.entries() if event in plugins.plans.at and not by_runtime else ()
        if entries is None:
            self._refuse_create(event, target, trace)
            return None
        steps = plugins.plans.of_create(event, entries, target) if entries else []
        if not steps and not (event == CREATION and self._changes_creations and self._turns.is_shared(turn)):
            return None
        if not target.pid and target.cgroups_path and event != CREATION:
            target.pid = cgroup.find_pid(target.cgroups_path)
            started = cgroup.start_time(target.pid)
            target.started = 0 if started is None else started or -1
        return PluginWork(self._tools, event, target, steps, message=message, turn=turn, trace=trace)

    @property
    def _changes_creations(self) -> bool:
        """Whether this adapter changes containers at their creation without any plugin."""
        return self._hooks is not None or bool(self._own.legacy.metadata_prefix)

    def _note_existing(self, target: Target) -> None:
        if not target.is_sandbox and self.plugins.plans.reports_ends:
            self.updates.existing.add(target.id)

    def _refuse_create(self, event: str, target: Target, trace: Trace) -> None:
        error = self.plugins.conf_json.error
        if self._own.legacy.fail_create and error is not None and not self.plugins.plans.is_exempt(target):
            refusal = ConfigError(error.place, f"{error.reason} (no plugin can run)")
            log.error("%s of %s: %s", STATES[event], target, refusal, extra=trace.extra)
            raise refusal

    def run_for_gone(self, id_: str) -> None:
        """Runs the deletes of a container that has gone without a stop event, and forgets it."""
        self.deletes.run_owed(id_)
        self.deletes.remove(id_)
        self.updates.existing.discard(id_)

    # After the answer

    def on_answered(self, context: Context) -> None:
        """The answer to an event has been sent.

        A runtime that reports no end of a container that it was refused has heard the refusal: the container has gone.
        If that is not sure, for the event may have come while this process was stopped, its pod's removal tells.
        """
        turn, work = self._unanswered.pop(context, (None, None))
        if turn is not None:
            if work is not None:
                if turn.is_begun or turn.fate is None:  # others serve, too, or its time was up before its turn
                    state = NoteState.FAILED if context.has_failed else NoteState.ANSWERED
                    is_in_time = context.is_heard and self._loop.time() < turn.deadline
                    self._turns.end(turn, state if is_in_time else None)
                work.on_sent()
            is_refused = context.has_failed and context.method == CREATION and self._runtime.habits.hides_refused
            if is_refused and context.is_heard and context.remaining() > context.came - turn.quiet_at:
                self._loop.call_soon(lambda: self.run_for_gone(turn.id))
            if turn.fate is not None and self.serves is (turn.fate in SERVED_ELSEWHERE):
                self._note_served(is_ours=not self.serves)
        if self._standby is not None:
            self._standby.on_answered()

    def _note_served(self, *, is_ours: bool) -> None:
        """Notes which adapter does the work: programs that stand by and ports belong to that one."""
        if is_ours == self.serves and self._is_decided:
            return
        self.serves, self._is_decided = is_ours, True
        if self._standby is not None:
            (self._standby.open if is_ours else self._standby.close)()
        self._link.on_served(is_ours)

    # The end of the process, and what others ask

    def end(self) -> None:
        """The process ends, perhaps while plugins run."""
        if self._standby is not None:
            self._standby.close()
        self.deletes.queue.give_up()
        self.ledger.write_now()

    def when_idle(self, callback: Callable[[], object]) -> None:
        """Calls back, perhaps at once, when no plugin runs any more."""
        self.deletes.queue.when_idle(partial(self.ledger.when_not_needed, callback))

    def renew(self) -> None:
        """Starts the programs that stand by anew."""
        if self._standby is not None:
            self._standby.renew()

    def owed(self) -> list[str]:
        """Returns the names of the pods and containers that are owed a delete."""
        return [str(self.ledger.target(id_)) for id_ in self.ledger.ids()]

    def describe(self) -> dict[str, Any]:
        """Returns what plugins and hooks do, for `status`; with the programs that have not run yet."""
        hooks, plugins, standby = self._hooks, self.plugins, self._standby
        programs = [*(entry.type for entry in plugins.entries() or ()), *(hooks.programs if hooks else ())]
        accounts = {**{name: Account() for name in programs}, **self.runner.accounts}
        return {
            "serves": self.serves,
            "owed": len(self.ledger.ids()),
            "programs": {name: account.describe() for name, account in accounts.items()},
            "standby": standby.describe() if standby is not None else {},
            "hooks": hooks.containers if hooks else {},
            "faults": [*plugins.faults(), *(hooks.faults if hooks else ())],
            "notes": list(filter(None, [plugins.sandboxes.describe(len(self._pods_of_runtime)), self.ledger.foreign])),
            "state_fault": self._turns.fault or self.ledger.fault,
        }


# Annotations under `metadataPrefix` are withheld from plugins and hooks, because a pod's author can forge them. A
# container's are removed at its creation, unless they record the result of a plugin. The pod keeps its own, because NRI
# cannot change it: every event of the pod and of its containers, and each Synchronize, brings them again.


def _withhold(messages: Iterable[api.PodSandbox | api.Container], prefix: str) -> list[str]:
    """Removes the annotations under a prefix from messages; returns their keys."""
    taken = []
    for message in messages:
        keys = [key for key in message.annotations if key.startswith(prefix)]
        for key in keys:
            del message.annotations[key]
        taken += keys
    return taken


def _withhold_at_creation(request: api.CreateContainerRequest, prefix: str, trace: Trace) -> Sequence[str]:
    """Withholds the annotations of a new container and its pod, and logs that; returns those of the container."""
    brought = _withhold([request.container], prefix)
    if withheld := sorted({*brought, *_withhold([request.pod], prefix)}):
        text = "%s brings %d annotations under %s, which are removed; the first is %.200s"
        log.warning(text, subject_of(request), len(withheld), prefix, withheld[0], extra=trace.extra)
    return brought


def _remove(withheld: Sequence[str], adjustment: api.ContainerAdjustment) -> None:
    """Removes the withheld annotations from the container itself, unless a plugin has set them."""
    for key in withheld:
        if key not in adjustment.annotations:
            adjustment.annotations[f"-{key}"] = ""
