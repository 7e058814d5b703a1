"""The bridge to the legacy plugins: from an event to the plugins that run, and to the answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from nri import Context, api, cgroup
from nri.runtimes import Runtime
from v010_adapter.base.loop import Loop
from v010_adapter.errors import ConfigError, PluginError
from v010_adapter.events import reconcile
from v010_adapter.events.deletes import Deletes
from v010_adapter.events.fates import Turn
from v010_adapter.events.first_start import FirstStart
from v010_adapter.events.plugin_work import PluginJob, Plugins
from v010_adapter.events.turns import Turns
from v010_adapter.legacy.answer import with_updates
from v010_adapter.legacy.pending_updates import PendingUpdates, Send
from v010_adapter.legacy.plan import DELETE, REMOVALS, STATES
from v010_adapter.legacy.request import Target
from v010_adapter.programs.apart import LARGE
from v010_adapter.programs.process import Program
from v010_adapter.programs.runner import Account, Runner
from v010_adapter.settings import LegacySettings
from v010_adapter.state.ledger import Ledger

if TYPE_CHECKING:
    from v010_adapter.programs.standby import Standby

log = logging.getLogger(__name__)

SECONDS_PER_BYTE = 0.2e-6
"""The time that is reserved for what follows the last program. It grows with the message."""


class Bridge:
    """Runs the legacy plugins of events, and answers with their results."""

    def __init__(
        self, loop: Loop, settings: LegacySettings, turns: Turns, host_root: str = "/", standby: Standby | None = None
    ) -> None:
        """`standby` holds the programs that wait for an event, None if no program does."""
        self.runner = Runner(loop, standby)
        self.updates = PendingUpdates(loop)
        self._loop = loop
        self._plugins = Plugins(self.runner, self.updates, settings, host_root)
        self._turns = turns
        self.ledger = Ledger(loop, turns.directory)
        turns.on_change = self._on_change
        turns.look()
        self.deletes = Deletes(loop, self._plugins, self.ledger, turns)
        self._is_first = True
        """Whether this adapter has not been synchronized yet."""
        self._first_start = FirstStart(self.ledger, self._plugins, turns.directory)
        self._pods_of_runtime: set[str] = set()
        """The pods that run, whose plugins the runtime itself runs."""

    def set_runtime(self, runtime: Runtime, *, pid: int = 0, send: Send | None = None) -> None:
        """Learns which runtime this is, its pid (0: unknown), and what sends updates to it, if it takes them."""
        self._plugins.set_runtime(runtime, pid)
        self._loop.call_soon(self._plugins.sandboxes.log_verdict)  # the runtime waits for the answer
        self.updates.refusal = runtime.habits.no_updates
        self.updates.send = send

    def _on_change(self, is_shared: bool, is_remade: bool) -> None:
        self._loop.is_watchful = is_shared
        self.ledger.expect_changes(is_shared, is_remade)

    # What happens to the runtime's events

    def handle(self, message: Any, target: Target, context: Context, turn: Turn, *, with_hooks: bool = False) -> Any:
        """Runs the plugins of an event, given NRI's request and what it is about; returns the answer, maybe a Deferred.

        `turn` has the fate of the event when the answer is there, if plugins run. `with_hooks` is whether more than
        plugins depends on it: then it is decided in any case, if other adapters may get the event.
        The answer fails with the PluginError of a plugin that must not fail. Raises ConfigError if conf.json cannot be
        read and a create must not go without its plugins.
        """
        size, event = context.size, context.method
        context.be_due_earlier(size * SECONDS_PER_BYTE)
        if self._first_start.is_counting:
            self._first_start.count()
        self.deletes.note_named(target)
        job = self._job(event, message, target, turn, with_hooks=with_hooks)
        if job is not None:
            if size > LARGE:
                job.be_large(size, context.due)
            self.deletes.submit(job)
            job.answer_by(context.due)
        if event in REMOVALS:
            self.deletes.remove(target.id)
            for id_ in self.ledger.containers_of(target.id):
                self.run_for_gone(id_)
        if job is not None:
            return job.answer
        return with_updates(event, None, self.updates, target) if self.updates.waiting else None

    def skip(self, target: Target) -> None:
        """An event that is no end has come too late: other adapters have got it."""
        self.deletes.note_named(target)
        if not target.is_sandbox and self._plugins.plans.reports_ends:
            self.updates.existing.add(target.id)

    def _job(self, event: str, message: Any, target: Target, turn: Turn, *, with_hooks: bool) -> PluginJob | None:
        """Returns the job of an event, None if no plugin runs at it."""
        by_runtime = target.is_sandbox and self._plugins.sandboxes.runtime_runs_at(event)
        if by_runtime:
            self._pods_of_runtime.add(target.id)
        if STATES[event] == DELETE:
            self.updates.existing.discard(target.id)
            self._pods_of_runtime.discard(target.id)
            self._first_start.forget(target.id)
            return self.deletes.of_event(event, message, target, turn, by_runtime=by_runtime)
        if not target.is_sandbox and self._plugins.plans.reports_ends:
            self.updates.existing.add(target.id)
        entries = self._plugins.entries() if event in self._plugins.plans.at and not by_runtime else ()
        if entries is None:
            self._refuse_create(event, target)
            return None
        steps = self._plugins.plans.of_create(event, entries, target) if entries else []
        if not steps and not (with_hooks and self._turns.is_shared(turn)):
            return None
        if not target.pid and target.cgroups_path and event != "CreateContainer":
            target.pid = cgroup.find_pid(target.cgroups_path)
            target.started = cgroup.start_time(target.pid) or -1
        return PluginJob(self._plugins, self.deletes, event, target, steps, message=message, turn=turn)

    def _refuse_create(self, event: str, target: Target) -> None:
        error = self._plugins.conf_json.error
        if self._plugins.settings.fail_create and error is not None and not self._plugins.plans.is_exempt(target):
            refusal = ConfigError(error.place, f"{error.reason} (no plugin can run)")
            log.error("%s of %s: %s", STATES[event], target, refusal)
            raise refusal

    def run_for_gone(self, id_: str) -> None:
        """Runs the deletes of a container that has gone without a stop event, and forgets it."""
        self.deletes.run_owed(id_)
        self.deletes.remove(id_)
        self.updates.existing.discard(id_)

    # What happens to the connection

    def synchronize(self, pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]) -> None:
        """Compares the records with what the runtime has."""
        containers = list(containers)
        self.updates.existing = {container.id for container in containers}
        self.updates.flush_soon()
        node = reconcile.node_of(pods, containers)
        ours = [target for target in node.running if not (target.is_sandbox and self._plugins.sandboxes.runtime_runs)]
        self._pods_of_runtime = {target.id for target in node.running} - {target.id for target in ours}
        if not self._is_first or not self._first_start.is_due:
            self.deletes.reconcile(node, ours)
        elif self._plugins.plans.reports_ends:
            self._first_start.begin(ours)
        self._is_first = False

    def give_up(self) -> None:
        """The process ends while plugins run."""
        self.deletes.give_up()
        self.ledger.write_now()

    def on_runtime_gone(self) -> None:
        """Drops the creates that wait, because nobody knows whether their containers will be started.

        Deletes that are owed come all the same.
        """
        self.updates.on_runtime_gone()
        self.deletes.on_runtime_gone()
        for job in self.deletes.queue.waiting():
            if job.state != DELETE:
                job.chain.set_steps(())

    def when_idle(self, callback: Callable[[], object]) -> None:
        """Calls back, perhaps at once, when no plugin runs any more."""
        self.deletes.queue.when_idle(callback)

    # For stand-by and for `status`

    def standby_programs(self) -> Iterator[tuple[Program | PluginError, int]]:
        """Yields the programs of conf.json that should stand by now, or their errors, with the number of processes."""
        for entry in self._plugins.entries() or ():
            if number := self._plugins.settings.of(entry.type, "standby"):
                try:
                    yield self._plugins.programs.program(entry.type), number
                except PluginError as error:
                    yield error, number

    def describe(self) -> dict[str, Any]:
        """Returns what the plugins do, for `status`; with those of conf.json that have not run yet."""
        accounts = {entry.type: Account() for entry in self._plugins.entries() or ()}
        return {
            "owed": len(self.ledger.ids()),
            "programs": {**accounts, **self.runner.accounts},
            "faults": list(filter(None, [self._plugins.conf_json.fault])),
            "notes": list(
                filter(None, [self._plugins.sandboxes.describe(len(self._pods_of_runtime)), self.ledger.foreign])
            ),
            "state_fault": self._turns.fault or self.ledger.fault,
        }

    def owed(self) -> list[str]:
        """Returns the names of the pods and containers that are owed a delete."""
        return [str(self.ledger.target(id_)) for id_ in self.ledger.ids()]
