"""The bridge to the legacy plugins: from an event to the plugins that run, and to the answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from adapter.base.loop import Loop
from adapter.errors import ConfigError, PluginError
from adapter.host import cgroup
from adapter.host.lock import Lock
from adapter.legacy import request
from adapter.legacy.answer import with_updates
from adapter.legacy.job import PluginJob, Plugins
from adapter.legacy.pending_updates import PendingUpdates, Send
from adapter.legacy.plan import DELETE, REMOVALS, STATES
from adapter.legacy.request import Target
from adapter.nri import Context, api
from adapter.nri.runtimes import Runtime
from adapter.owed import reconcile
from adapter.owed.deletes import Deletes
from adapter.owed.first_start import FirstStart
from adapter.owed.handover import GiveUp, Handover
from adapter.programs.process import Program
from adapter.programs.runner import Account, Runner
from adapter.settings import LegacySettings

if TYPE_CHECKING:
    from adapter.programs.standby import Standby

log = logging.getLogger(__name__)


class Bridge:
    """Runs the legacy plugins of events, and answers with their results."""

    def __init__(
        self,
        loop: Loop,
        settings: LegacySettings,
        host_root: str = "/",
        lock: Lock | None = None,
        standby: Standby | None = None,
    ) -> None:
        """Without a lock there is no journal: what is owed is forgotten with this process.

        `standby` holds the programs that wait for an event, None if no program does.
        """
        self.runner = Runner(loop, standby)
        self.updates = PendingUpdates(loop)
        self._loop = loop
        self._plugins = Plugins(self.runner, self.updates, settings, host_root)
        self.deletes = Deletes(loop, self._plugins, lock)
        self.ledger = self.deletes.ledger
        self.handover = Handover(loop, lock, self.ledger, self.deletes.queue)
        self._first_start = FirstStart(loop, self.ledger, self._plugins)
        self._is_first_start = True
        self._may_be_repeated = False
        """Whether the previous owner may have served the next event, or may serve it still."""

    def set_runtime(self, runtime: Runtime, *, pid: int = 0, send: Send | None = None) -> None:
        """Learns which runtime this is, its pid (0: unknown), and what sends updates to it, if it takes them."""
        self._plugins.set_runtime(runtime, pid)
        self._loop.call_soon(self._plugins.sandboxes.tell)  # the runtime waits for the answer
        self.updates.refusal = runtime.habits.no_updates
        self.updates.send = send

    # What happens to the runtime's events

    def handle(self, message: Any, context: Context, *, is_awaited: bool = True) -> Any:
        """Runs the plugins of an event, given NRI's request; returns the answer, perhaps a Deferred.

        `is_awaited` is whether the runtime waits for the answer.
        The answer fails with the PluginError of a plugin that must not fail. Raises ConfigError if conf.json cannot be
        read and a create must not go without its plugins.
        """
        event = context.method
        target = self._target(event, message)
        self._first_start.count((target.id, target.sandbox_id))
        self.deletes.note_named(target)
        job = self._job(event, message, target, is_awaited=is_awaited)
        if job is not None:
            self.deletes.submit(job)
            job.answer_by(context.due)
        if event in REMOVALS:
            self.deletes.remove(target.id)
            for id_ in self.ledger.containers_of(target.id):
                self.run_for_gone(id_)
        if is_awaited:
            self._may_be_repeated = False
        return with_updates(event, None, self.updates, target) if job is None else job.answer

    def note_served(self, message: Any, context: Context) -> None:
        """Notes an event that the previous owner has served: the pod or container that it names is not absent.

        That owner may have been killed before it ran a delete. If so, the delete runs here, after the plugins that the
        owner still runs.
        """
        target = self._target(context.method, message)
        self.deletes.note_named(target)
        self._may_be_repeated = False
        if STATES[context.method] == DELETE:
            self.deletes.run_owed(target.id)

    def _target(self, event: str, message: Any) -> Target:
        if event.endswith("PodSandbox"):
            return request.of_pod(message.pod)
        target = request.of_container(message.container, message.pod)
        if STATES[event] == DELETE:
            self.updates.known.discard(target.id)
        elif self._plugins.plans.end_is_told:
            self.updates.known.add(target.id)
        return target

    def _job(self, event: str, message: Any, target: Target, *, is_awaited: bool) -> PluginJob | None:
        """Returns the job of an event, None if no plugin runs at it."""
        is_left = self._plugins.sandboxes.is_left(event, target)
        if STATES[event] == DELETE:
            self._first_start.forget(target.id)
            return self.deletes.of_event(event, message, target, is_left=is_left, is_awaited=is_awaited)
        if is_left or not self._plugins.plans.may_be_at(event):
            return None
        entries = self._plugins.entries()
        if entries is None:
            self._refuse_create(event, target)
            return None
        steps = self._plugins.plans.of_create(event, entries, target)
        if not steps:
            return None
        if not target.pid and target.cgroups_path and event != "CreateContainer":
            target.pid = cgroup.find_pid(target.cgroups_path)
            target.started = cgroup.start_time(target.pid) or -1
        job = PluginJob(self._plugins, self.deletes, event, target, steps, message=message, is_awaited=is_awaited)
        job.may_be_repeated = self._may_be_repeated
        return job

    def _refuse_create(self, event: str, target: Target) -> None:
        error = self._plugins.conf_json.error
        if self._plugins.settings.fail_create and error is not None and not self._plugins.plans.is_exempt(target):
            refusal = ConfigError(error.place, f"{error.reason} (no plugin can run)")
            log.error("%s of %s: %s", STATES[event], target, refusal)
            raise refusal

    def run_for_gone(self, id_: str) -> None:
        """Runs the deletes of a container that has gone without a stop event."""
        self.deletes.run_for_gone(id_)
        self.updates.known.discard(id_)

    # What happens to the connection and to the lock

    def synchronize(self, pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]) -> None:
        """Compares the ledger with what the runtime has. The owner calls it when it knows all that the runtime has."""
        containers = list(containers)
        self.updates.known = {container.id for container in containers}
        self.updates.flush_soon()
        node = reconcile.node_of(pods, containers)
        ours = [target for target in node.running if not (target.is_sandbox and self._plugins.sandboxes.are_left)]
        if not self._is_first_start:
            self.deletes.reconcile(node, ours)
        elif self._plugins.plans.end_is_told:
            self._first_start.begin(ours)
        self._is_first_start = False
        self.handover.cancel_release()

    def take_over(self, ids: Iterable[str]) -> None:
        """Resumes from the previous owner's journal: this process has become the owner. See `Handover.take_over`."""
        existed = self.handover.take_over(ids)
        self._is_first_start = self._is_first_start and not existed

    def expect_repeat(self) -> None:
        """The previous owner may have served the next event, or may serve it still."""
        self._may_be_repeated = self._plugins.plans.end_is_told  # else it may be a restart, which is no repeat

    def note_left(self, message: Any, context: Context) -> None:
        """Notes an event that another adapter serves."""
        target = self._target(context.method, message)
        self.deletes.note_named(target)
        self.deletes.note_left(target.id, has_ended=STATES[context.method] == DELETE)

    def release(self, give_up: GiveUp | None = None) -> None:
        """Lets another process serve the events that come from now on; see `Handover.release`."""
        self._first_start.count_all()
        self.handover.release(give_up)

    def on_runtime_gone(self) -> None:
        """Drops the creates that wait, because nobody knows whether their containers will be started.

        Deletes that are owed come all the same.
        """
        self.updates.on_runtime_gone()
        for job in self.deletes.queue.waiting():
            if job.state != DELETE:
                job.chain.begin(())

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
            "owed": len(self.ledger),
            "programs": {**accounts, **self.runner.accounts},
            "faults": list(filter(None, [self._plugins.conf_json.fault])),
            "notes": list(filter(None, [self._plugins.sandboxes.describe()])),
            "state_fault": self.handover.fault,
        }

    @property
    def unfit(self) -> str:
        """Why creates would fail here whatever their pods are: no conf.json, or a missing program. Empty if none."""
        entries = self._plugins.entries()
        if entries is None:
            return self._plugins.conf_json.fault if self._plugins.settings.fail_create else ""
        for entry in entries:
            if self._plugins.settings.of(entry.type, "fail_create"):
                try:
                    self._plugins.programs.find(entry.type)
                except PluginError as error:
                    return str(error)
        return ""

    def owed(self) -> list[str]:
        """Returns the names of the pods and containers that are owed a delete."""
        return [str(self.ledger.target(id_)) for id_ in self.ledger.ids()]
