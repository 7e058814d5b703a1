"""Events of pods and containers become jobs: which plugins run, who is owed a delete, and what waits for what."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import cache, partial
from typing import Any

from adapter.base.loop import Loop
from adapter.daemon.handover import Handover
from adapter.daemon.plugin_job import PluginJob, PluginStep, Services
from adapter.daemon.queue import Queue
from adapter.errors import ConfigError, PluginError
from adapter.host import cgroup
from adapter.host.owner import Owner
from adapter.legacy import request
from adapter.legacy.answer import AnswerBuilder, with_updates
from adapter.legacy.config import Config, ConfigFile, Entry
from adapter.legacy.pending_updates import PendingUpdates
from adapter.legacy.request import Target
from adapter.legacy.sandboxes import Sandboxes
from adapter.legacy.subscriptions import DELETE, ORIGINAL, STATES, UPDATE, Subscriptions, policy_of
from adapter.nri import Context, api
from adapter.nri.runtimes import OLDEST, Runtime, Version
from adapter.owed import reconcile
from adapter.owed.first_start import Uncounted
from adapter.owed.ledger import Ledger
from adapter.owed.pods import PodProcesses
from adapter.owed.reconcile import Node
from adapter.owed.retries import Retries
from adapter.programs.find import Programs
from adapter.programs.process import Program
from adapter.programs.runner import Runner
from adapter.settings import LegacySettings

log = logging.getLogger(__name__)

SECOND_LOOK = 5.0
"""Seconds after a Synchronize at which what it did not list, and no event has named since, counts as gone."""
_REMOVALS = frozenset(("RemoveContainer", "RemovePodSandbox"))


class Bridge:
    """The legacy plugins of this node."""

    def __init__(self, loop: Loop, settings: LegacySettings, host_root: str = "/", owner: Owner | None = None) -> None:
        """Takes the loop that everything runs on, what is configured, where the node's files are, and the owner's lock.

        Without a lock there is no journal: what is owed is forgotten with this process.
        """
        self.ledger = Ledger()
        self.runner = Runner(loop)
        self._loop = loop
        self._settings = settings
        self._conf_json = ConfigFile(settings.config, trust=settings.trust)
        self._host_root = host_root
        self._runtime = Runtime()
        self._sandboxes = Sandboxes(settings, host_root, self._runtime)
        programs = Programs(settings.path, settings.environment, settings.trust)
        self._services = Services(self.runner, programs, self.ledger, settings.late_limit, set(), {})
        self.updates = PendingUpdates(loop)
        self._subscriptions = Subscriptions(settings.plugins)
        self._policy = cache(partial(policy_of, settings))
        self._queue = Queue(self._prepare, self._ended)
        self._handover = Handover(loop, owner, self.ledger, self._queue, self._empty_job)
        self._removed: set[str] = set()
        """The ids that have been removed and still have jobs."""
        self._runs_at_removals = any(map(self._subscriptions.may_be_at, _REMOVALS))
        """Whether what a create knew may be wanted after the delete."""
        self._pods = PodProcesses(loop, self._delete_unasked)
        self._retries = Retries(loop, self._delete_unasked)
        self._is_first_start = True
        self._inherited: set[tuple[str, tuple[str, int]]] = set()
        """The ids and plugins whose creates the first event must not repeat: the owner before may have served it."""
        self._uncounted = Uncounted(loop, self.ledger, self._subscriptions, self._look)
        self._absent: set[str] = set()
        """The ids that are owed a delete, and that the last Synchronize has not listed."""

    def runtime_is(self, name: str, version: str, nri: Version = OLDEST, *, pid: int = 0) -> None:
        """Learns which runtime this is, and its pid, 0 if that is not known."""
        self._runtime = Runtime(name, version, nri)
        self._sandboxes = Sandboxes(self._settings, self._host_root, self._runtime, pid)
        self._loop.call_soon(self._sandboxes.tell)  # the runtime waits for the answer
        self._subscriptions.end_is_told = not self._runtime.habits.no_ends
        self.updates.refusal = self._runtime.habits.no_updates

    @property
    def faults(self) -> list[str]:
        """What is wrong with conf.json."""
        return [self._conf_json.fault] if self._conf_json.error is not None else []

    @property
    def sandboxes(self) -> str:
        """Who runs the plugins for pods and why, empty without a conf.json."""
        return self._sandboxes.describe()

    @property
    def state_fault(self) -> str:
        """Why what is owed would be forgotten with this process, empty if it would not."""
        return self._handover.fault

    def keep_state(self) -> None:
        """Checks and repairs the lock and the journal. Call it at each event."""
        self._handover.keep()

    def take_over(
        self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container], *, may_be_repeated: bool = False
    ) -> None:
        """Resumes from the previous owner's journal and the runtime's current state.

        To be called when this process has become the owner: after an answer to Synchronize, or before an event.
        `may_be_repeated` is whether the owner before may have served that event.
        """
        existed = self._handover.take_over([*(pod.id for pod in pods), *(container.id for container in containers)])
        self._is_first_start = self._is_first_start and not existed
        if may_be_repeated and self._subscriptions.end_is_told:  # else it may be another start
            self._inherited = set(self.ledger.keys())
        self.synchronize(pods, containers)

    def _empty_job(self, target: Target) -> PluginJob:
        builder = self._builder("", None, target)
        return PluginJob(self._services, "StartContainer", target, builder, (), is_awaited=False)

    def release(self) -> None:
        """Lets another process serve the events that come from now on; see `Handover.release`."""
        self._uncounted.count_all()
        self._handover.release()

    def synchronize(self, pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]) -> None:
        """Holds the ledger against what the runtime has. To be called after each answer to Synchronize."""
        containers = list(containers)
        self.updates.known = {container.id for container in containers}
        self.updates.flush_soon()
        node = reconcile.node_of(pods, containers)
        ours = [target for target in node.running if not (target.is_sandbox and self._sandboxes.are_left)]
        if not self._is_first_start:
            self._settle(node, ours)
        elif self._subscriptions.end_is_told:
            self._uncounted.begin(ours)
        self._is_first_start = False
        self._handover.stay()

    def _settle(self, node: Node, ours: Sequence[Target]) -> None:
        """Runs the deletes of what has gone while there was no connection."""
        self._tell_missed(ours)
        if self._runtime.habits.hides_earlier_pods:
            pids = dict.fromkeys(node.unclear, 0) | {target.id: target.pid for target in ours if target.is_sandbox}
            for id_ in self.ledger.ids():
                if id_ in pids:
                    self._watch(id_, pids[id_])
        due = reconcile.due(self.ledger.ids(), node)
        for id_ in due.now:
            self._delete_unasked(id_)
        self._absent = set(due.absent)
        if self._absent:
            self._loop.call_at(self._loop.time() + SECOND_LOOK, self._look_for_absent)

    def _watch(self, id_: str, pid: int) -> None:
        """Watches a pod's process; if the runtime lists none any more, that of its create, unless the pid is reused."""
        known = self.ledger.target(id_)
        if known is None or not (pid or known.pid):
            return
        started = cgroup.start_time(pid or known.pid)
        if pid or not known.started:
            known.started = started or -1
        self._pods.watch(id_, (pid or known.pid) if started == known.started else 0)

    def _tell_missed(self, ours: Sequence[Target]) -> None:
        """Logs how many containers have started while there was no connection. No create is made up for them."""
        missed = [target for target in ours if not target.is_sandbox and self.ledger.target(target.id) is None]
        config = self._look()
        entries = config.entries if missed and config else ()
        if not any(self._subscriptions.owes_delete(entry, is_sandbox=False) for entry in entries):
            return
        text = "containers that have started without the adapter: %d; no plugin has run for their creates: %.1000s"
        log.warning(text, len(missed), ", ".join(map(str, missed)))
        for target in missed:
            target.let_go_of_messages()
            self.ledger.remember(target)

    def _look_for_absent(self) -> None:
        """What no event has named since the Synchronize that did not list it has gone."""
        absent, self._absent = self._absent, set()
        for id_ in sorted(absent, key=self._is_sandbox):  # a pod's delete comes behind its containers'
            self._delete_unasked(id_)

    def has_gone(self, id_: str) -> None:
        """Runs the deletes of a container that has gone, and of which the runtime tells no end."""
        self._delete_unasked(id_)
        self.updates.known.discard(id_)
        self._is_removed(id_)

    def _is_removed(self, id_: str) -> None:
        self._removed.add(id_)
        self._forget_if_removed(id_)

    def _is_sandbox(self, id_: str) -> bool:
        target = self.ledger.target(id_)
        return target is not None and target.is_sandbox

    def _delete_unasked(self, id_: str) -> None:
        """Runs the deletes that an id is owed, if any, and that no event will ask for."""
        target = self.ledger.target(id_)
        if target is None or not self._will_be_owed(id_) or not self._handover.is_owner:
            return
        target = copy(target)
        target.pid = 0  # it is taken from the create, if it is that process still
        event = "StopPodSandbox" if target.is_sandbox else "StopContainer"
        if id_ not in self._retries:
            log.info("%s has gone without an event: its delete comes now", target)
        job = PluginJob(self._services, event, target, self._builder(event, None, target), None, is_awaited=False)
        self._submit(job)

    def handle(self, message: Any, context: Context) -> Any:
        """Runs the plugins whose turn an event is, given NRI's request; returns the answer, perhaps a Deferred.

        It fails with the PluginError of the plugin that must not fail. Raises ConfigError when conf.json cannot be read
        and a create must not go without its plugins.
        """
        event = context.method
        target = self._target(event, message)
        self._uncounted.count((target.id, target.sandbox_id))
        self._absent -= {target.id, target.sandbox_id}
        job: PluginJob | None
        if STATES[event] == DELETE:
            self._uncounted.forget(target.id)
            job = self._delete(event, message, target)
        else:
            job = self._create(event, message, target)
        if job is not None:
            self._submit(job)
            job.answer_by(context.due)
        if event in _REMOVALS:
            self._is_removed(target.id)
            for id_ in self.ledger.containers_of(target.id):
                self.has_gone(id_)
        self._inherited.clear()
        return with_updates(event, None, self.updates, target) if job is None else job.answer

    def was_served(self, message: Any, context: Context) -> None:
        """Notes an event that the owner before has served: what the event names has not gone unseen.

        That owner may have been killed before its delete: what is owed then comes behind the chains it has under way.
        """
        target = self._target(context.method, message)
        self._absent -= {target.id, target.sandbox_id}
        self._inherited.clear()
        if STATES[context.method] == DELETE:
            self._delete_unasked(target.id)

    def _target(self, event: str, message: Any) -> Target:
        if event.endswith("PodSandbox"):
            return request.of_pod(message.pod)
        target = request.of_container(message.container, message.pod)
        if STATES[event] == DELETE:
            self.updates.known.discard(target.id)
        elif self._subscriptions.end_is_told:
            self.updates.known.add(target.id)
        return target

    def _look(self) -> Config | None:
        """Looks at conf.json, at every event at which a plugin may run; None if no version of it can be used."""
        try:
            return self._conf_json.current()
        except ConfigError:
            return None  # it has been logged, and `_conf_json.error` has it

    def _create(self, event: str, message: Any, target: Target) -> PluginJob | None:
        """Returns the job of an event that is no delete; None when no plugin has a turn."""
        if not self._subscriptions.may_be_at(event) or self._sandboxes.is_left(event, target):
            return None
        config = self._look()
        if config is None:
            self._refuse_create(event, target)
            return None
        entries = self._subscriptions.at(event, config.entries)
        if self._inherited:
            entries = [entry for entry in entries if not self._is_repeated(target, entry)]
        if not entries:
            return None
        if not target.pid and target.cgroups_path and event != "CreateContainer":
            target.pid = cgroup.find_pid(target.cgroups_path)
            target.started = cgroup.start_time(target.pid) or -1
        is_extended = event not in ORIGINAL
        steps = [self._step(event, target, entry, is_extended=is_extended) for entry in entries]
        return PluginJob(self._services, event, target, self._builder(event, message, target), steps)

    def _is_repeated(self, target: Target, entry: Entry) -> bool:
        """Whether the owner before has run the plugin for this event, the first since this process is the owner."""
        return (target.id, entry.key) in self._inherited and not self._subscriptions.has_list(entry.type)

    def _refuse_create(self, event: str, target: Target) -> None:
        error = self._conf_json.error
        if self._settings.fail_create and error is not None:
            refusal = ConfigError(error.place, f"{error.reason} (no plugin can run)")
            log.error("%s of %s: %s", STATES[event], target, refusal)
            raise refusal

    def _delete(self, event: str, message: Any, target: Target) -> PluginJob | None:
        """Returns the job of a delete, whose plugins are named when its turn comes; None when no plugin has one."""
        config = self._look()
        entries = config.entries if config else ()
        is_owed = self._will_be_owed(target.id)
        if not is_owed and not any(self._runs_without_create(event, target, entry) for entry in entries):
            return None
        job = PluginJob(self._services, event, target, self._builder(event, message, target), None)
        job.entries = entries
        return job

    def _will_be_owed(self, id_: str) -> bool:
        """Whether a delete that comes now may find plugins that are owed one when its turn comes."""
        pending = [job for job in self._queue.of(id_) if job.state != UPDATE]
        if pending and (pending[-1].state != DELETE or pending[-1].after):
            return pending[-1].state != DELETE  # a delete that waits takes what is owed by then
        return id_ in self.ledger

    def _submit(self, job: PluginJob) -> None:
        if job.state != UPDATE:
            self._retries.cancel(job.target.id)
        self._queue.submit(job)

    def _prepare(self, job: PluginJob) -> None:
        """Names the plugins of a job whose turn has come; who is owed a delete is known only now."""
        if job.state == DELETE:
            earlier = self.ledger.target(job.target.id)
            if earlier is not None:
                told = job.target.pid
                job.target.remember(earlier)
                if not told and earlier.started and earlier.started != cgroup.start_time(earlier.pid):
                    job.target.pid = 0  # perhaps it is another process by now
            job.begin(self._delete_steps(job.event, job.target, job.entries))

    def _delete_steps(self, event: str, target: Target, entries: Sequence[Entry]) -> list[PluginStep]:
        """Returns the plugins of a delete in the order of conf.json, before them those that it names no longer.

        A plugin that is owed its delete gets it once, as configured at its create.
        """
        owed = {entry.key: entry for entry in self.ledger.take(target.id)}
        named = {entry.key for entry in entries}
        steps = [self._step(event, target, entry, is_extended=False) for key, entry in owed.items() if key not in named]
        for entry in entries:
            if entry.key in owed:
                steps.append(self._step(event, target, owed[entry.key], is_extended=False))
            elif self._runs_without_create(event, target, entry):
                steps.append(self._step(event, target, entry, is_extended=event not in ORIGINAL))
        return steps

    def _runs_without_create(self, event: str, target: Target, entry: Entry) -> bool:
        if self._sandboxes.is_left(event, target):
            return False
        return self._subscriptions.runs_without_create(event, entry, is_sandbox=target.is_sandbox)

    def _builder(self, event: str, message: Any, target: Target) -> AnswerBuilder:
        if event == "CreateContainer":
            from adapter.legacy.create_answer import CreateAnswerBuilder  # noqa: PLC0415 - only where plugins may change something

            prefix = self._settings.metadata_prefix
            return CreateAnswerBuilder(event, message, target, self.updates, self._runtime, prefix)
        if event == "UpdateContainer":
            from adapter.legacy.update_answer import UpdateAnswerBuilder  # noqa: PLC0415 - likewise

            return UpdateAnswerBuilder(event, message, target, self.updates)
        return AnswerBuilder(event, message, target, self.updates)

    def standing_by(self) -> Iterable[tuple[Program | PluginError, int]]:
        """Returns the programs of conf.json that should stand by now, each with the number of its processes."""
        config = self._look()
        entries = config.entries if config else ()
        numbers = {entry.type: self._settings.of(entry.type, "standby") for entry in entries}
        return self._services.programs.standing_by(numbers)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Calls back, perhaps at once, when no chain is under way any more."""
        self._queue.when_idle(callback)

    def runtime_is_gone(self) -> None:
        """The runtime has gone: creates that wait are not started, for nobody knows whether their containers will be.

        Deletes that are owed come all the same.
        """
        self.updates.runtime_is_gone()
        for job in self._queue.waiting():
            if job.state != DELETE:
                job.drop()

    def owed(self) -> list[str]:
        """Returns the names of the pods and containers that are owed a delete."""
        return [str(self.ledger.target(id_)) for id_ in self.ledger.ids()]

    def _ended(self, job: PluginJob) -> None:
        self._handover.ended(job.target.id)
        if job.state == DELETE:
            self._pods.forget(job.target.id)
            if job.target.id in self.ledger and all(other.state == UPDATE for other in self._queue.of(job.target.id)):
                self._retries.begin(job.target.id)
        if (job.state == DELETE and not self._runs_at_removals) or not self._subscriptions.end_is_told:
            self._removed.add(job.target.id)
        self._forget_if_removed(job.target.id)

    def _forget_if_removed(self, id_: str) -> None:
        """Forgets a pod or container that has been removed, when its last job has ended."""
        if id_ in self._removed and not self._queue.of(id_) and id_ not in self.ledger:
            self._removed.discard(id_)
            self._retries.forget(id_)
            self.ledger.forget(id_)

    def _step(self, event: str, target: Target, entry: Entry, *, is_extended: bool) -> PluginStep:
        return PluginStep(
            entry,
            self._policy(entry.type, is_delete=STATES[event] == DELETE),
            is_extended,
            owes_delete=self._subscriptions.owes_delete(entry, is_sandbox=target.is_sandbox),
            may_adjust=self._subscriptions.has_list(entry.type),
        )
