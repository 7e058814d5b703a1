"""Runs one delete for each create of a plugin: at the stop event, or without an event.

A delete runs without an event when Synchronize shows that the pod or container has gone, when a pod's process ends
unannounced, when the creation was refused or the pod removed, when another adapter has got the stop event and has not
run the delete, and when the plugin could not be started for its delete before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from copy import copy
from functools import partial
from typing import Any

from adapter.base.loop import Loop, Timer
from adapter.host import cgroup
from adapter.host.lock import Lock
from adapter.legacy.job import PluginJob, Plugins
from adapter.legacy.plan import CREATE, DELETE, UPDATE, PluginStep
from adapter.legacy.queue import Queue
from adapter.legacy.request import Target
from adapter.owed import reconcile
from adapter.owed.ledger import Ledger
from adapter.owed.pods import PodProcesses
from adapter.owed.reconcile import Node
from adapter.programs.driver import Observer

log = logging.getLogger(__name__)

SECOND_LOOK = 5.0
"""An id that a Synchronize does not list, and that no event names within these seconds after it, counts as gone."""
FIRST_RETRY, LAST_RETRY = 10.0, 600.0
"""Seconds until a delete that could not be started is tried again: each wait is twice the one before."""
MOST_MISSED = 10_000
"""The ids that an adapter keeps for the case that their owner ends and has not run their deletes."""
TELLING = 3600.0
"""Seconds between two log lines of a plugin that cannot be started for deletes that no event asks for."""


class Deletes(Observer[PluginJob, PluginStep]):
    """Observes the runs of plugins, notes who is owed a delete, and sees to it that each delete runs."""

    def __init__(self, loop: Loop, plugins: Plugins, lock: Lock | None) -> None:
        """Takes the loop, the node's plugins, and the lock of the state directory: its owner runs unasked deletes."""
        self.ledger = Ledger()
        self.queue = Queue()
        self._loop = loop
        self._plugins = plugins
        self._lock = lock
        self._pods = PodProcesses(loop, self._on_pod_end)
        self._retries: dict[str, tuple[float, Timer]] = {}
        """The ids whose deletes are tried again: the wait after that, and the timer, which may have been cancelled."""
        self._missed: dict[str, None] = {}
        """The ids of pods and containers that have ended while another adapter was the owner, the last ones last."""
        self._absent: set[str] = set()
        """The ids that are owed a delete, and that the last Synchronize has not listed."""
        self._ended_pods: set[str] = set()
        """The ids of pods whose process has ended, and that have containers among the absent."""
        self._removed: set[str] = set()
        """The ids to be forgotten as soon as they have no jobs and are owed no delete."""
        self._told: dict[str, float] = {}
        """When the log had the last line of a plugin whose delete was tried again."""

    # At an event

    def note_named(self, target: Target) -> None:
        """Notes that an event names a pod or container: it is not absent."""
        self._absent -= {target.id, target.sandbox_id}

    def of_event(
        self, event: str, message: Any, target: Target, *, is_left: bool, is_awaited: bool
    ) -> PluginJob | None:
        """Returns the job of a delete, None if no plugin runs at it. The plugins are named when the job's turn comes.

        `is_left` is whether the runtime runs the plugins of the event itself: then only what is owed runs here.
        `is_awaited` is whether the runtime waits for the answer.
        """
        entries = () if is_left else self._plugins.entries() or ()
        is_for_owed_only = self._plugins.plans.is_for_owed_only(event, entries, is_sandbox=target.is_sandbox)
        if is_for_owed_only and not self._will_be_owed(target.id):
            return None
        return PluginJob(
            self._plugins, self, event, target, None, message=message, entries=entries, is_awaited=is_awaited
        )

    def submit(self, job: PluginJob) -> None:
        """Runs a job when its turn comes."""
        if job.state != UPDATE and (retry := self._retries.get(job.target.id)):
            retry[1].cancel()  # the id lives, or its deletes are tried now
        self.queue.submit(job)

    def _will_be_owed(self, id_: str) -> bool:
        """Whether plugins may be owed a delete when the turn of a delete that is made now has come."""
        pending = [job for job in self.queue.of(id_) if job.state != UPDATE]
        if pending and (pending[-1].state != DELETE or pending[-1].after):
            return pending[-1].state != DELETE  # a delete that waits takes what is owed by then
        return id_ in self.ledger

    def remove(self, id_: str) -> None:
        """Forgets a pod or container that the runtime has removed, when it has no job and is owed no delete."""
        self._removed.add(id_)
        self._forget_if_removed(id_)

    def note_left(self, id_: str, *, has_ended: bool) -> None:
        """Another adapter serves an event. `has_ended` is whether the pod or container has stopped or was removed."""
        self._missed.pop(id_, None)
        if has_ended:
            self._note_missed(id_)

    def _note_missed(self, id_: str) -> None:
        self._missed[id_] = None
        if len(self._missed) > MOST_MISSED:
            del self._missed[next(iter(self._missed))]

    # Without an event

    def run_owed(self, id_: str) -> None:
        """Runs the deletes that an id is owed, if any, without an event."""
        if self._lock is not None and not self._lock.is_held:
            self._note_missed(id_)  # the owner runs them; this adapter may be it again
            return
        target = self.ledger.target(id_)
        if target is None or not self._will_be_owed(id_):
            return
        target = copy(target)
        target.pid = 0  # `at_turn` takes the create's pid, unless that process has ended
        if id_ not in self._retries:
            log.info("%s has gone without an event: its delete comes now", target)
        event = "StopPodSandbox" if target.is_sandbox else "StopContainer"
        self.submit(PluginJob(self._plugins, self, event, target, None, is_awaited=False))

    def run_for_gone(self, id_: str) -> None:
        """Runs the deletes of a container that has gone without a stop event, and forgets it."""
        self.run_owed(id_)
        self.remove(id_)

    def run_missed(self) -> None:
        """Runs the deletes of what has ended while another adapter was the owner, unless that owner has run them.

        Call it after the events that the other owner has not served: a create among them runs before its delete.
        """
        missed, self._missed = self._missed, {}
        self._run_all(missed)

    def watch_pods(self) -> None:
        """Watches the processes of the pods that are owed a delete, as their creates knew them.

        `reconcile` does that, too: this is for a take-over without a Synchronize.
        """
        if self._plugins.runtime.habits.hides_earlier_pods and self._plugins.sees_pods:
            for id_ in filter(self._is_sandbox, self._ids()):
                self._watch(id_, 0)

    def reconcile(self, node: Node, ours: Sequence[Target]) -> None:
        """Runs the deletes of what has ended without a connection. Creates are not made up for.

        `node` is what the runtime has. `ours` are the live pods and containers whose plugins this adapter runs.
        """
        self._tell_without_create(ours)
        if self._plugins.runtime.habits.hides_earlier_pods:
            pids = dict.fromkeys(node.unclear, 0)
            if self._plugins.sees_pods:
                pids |= {target.id: target.pid for target in ours if target.is_sandbox}
            for id_ in filter(pids.__contains__, self._ids()):
                self._watch(id_, pids[id_])
        stopped, absent = reconcile.due(self._ids(), node)
        self._run_all(stopped)
        self._absent = set(absent)
        if self._absent:
            self._loop.call_at(self._loop.time() + SECOND_LOOK, self._look_for_absent)

    def _ids(self) -> list[str]:
        """Returns the ids that are owed a delete, and those that jobs under way may owe one."""
        return [*dict.fromkeys([*self.ledger.ids(), *sorted(self.queue.ids())])]

    def _tell_without_create(self, ours: Sequence[Target]) -> None:
        """Logs how many containers have started while there was no connection."""
        missed = [target for target in ours if not target.is_sandbox and self.ledger.target(target.id) is None]
        entries = self._plugins.entries() or () if missed else ()
        if not any(self._plugins.plans.owes_delete(entry, is_sandbox=False) for entry in entries):
            return
        text = "containers that have started without the adapter: %d; no plugin has run for their creates: %.1000s"
        log.warning(text, len(missed), ", ".join(map(str, missed)))
        for target in missed:
            target.let_go_of_messages()
            self.ledger.remember(target)

    def _watch(self, id_: str, pid: int) -> None:
        """Watches a pod's process; if the runtime lists none any more, that of its create, unless the pid is reused."""
        known = self.ledger.target(id_)
        if known is None or not (pid or known.pid):
            return
        started = cgroup.start_time(pid or known.pid)
        if pid or not known.started:
            known.started = started or -1
        is_there = started == known.started and self._plugins.sees_pods
        self._pods.watch(id_, (pid or known.pid) if is_there else 0)

    def _look_for_absent(self) -> None:
        """Ids that were absent from Synchronize, and from each event since, are gone."""
        due = self._absent | self._ended_pods
        self._absent, self._ended_pods = set(), set()
        self._run_all(due)

    def _on_pod_end(self, id_: str) -> None:
        """The process of a pod has ended: its delete comes now, but not before those of its containers."""
        if self._absent.isdisjoint(self.ledger.containers_of(id_)):
            self.run_owed(id_)
        else:
            self._ended_pods.add(id_)

    def _run_all(self, ids: Iterable[str]) -> None:
        for id_ in sorted(ids, key=self._is_sandbox):  # a pod's delete comes after its containers'
            self.run_owed(id_)

    def _is_sandbox(self, id_: str) -> bool:
        target = self.ledger.target(id_)
        return target is not None and target.is_sandbox

    # As the observer of jobs

    def at_turn(self, job: PluginJob) -> None:
        """Names the plugins of a delete, or of a repeated create: which are owed a delete is known only now."""
        if job.may_be_repeated:
            run = set(self.ledger.keys())
            steps = [step for step in job.chain.steps if step.may_adjust or (job.target.id, step.entry.key) not in run]
            job.chain.begin(steps)
        if job.state != DELETE:
            return
        target, earlier = job.target, self.ledger.target(job.target.id)
        if earlier is not None:
            has_pid = bool(target.pid)
            target.remember(earlier)
            if not has_pid and earlier.started and earlier.started != cgroup.start_time(earlier.pid):
                target.pid = 0  # perhaps it is another process by now
        owed = self.ledger.begin_deletes(target.id)
        job.chain.begin(self._plugins.plans.of_delete(job.event, owed, job.entries, target))

    def before_feed(self, job: PluginJob, step: PluginStep) -> None:
        """Notes a create before its plugin knows of it."""
        if job.state == CREATE:
            self.ledger.remember(job.target)
            if step.owes_delete:
                self.ledger.add(job.target, step.entry)

    def on_not_started(self, job: PluginJob, step: PluginStep) -> bool:
        """Puts the delete of a plugin that could not be started back; returns whether the log says so."""
        is_owed = job.state == DELETE and self.ledger.put_back(job.target.id, step.entry)
        if not is_owed or job.is_awaited:
            return True
        now = self._loop.time()
        is_news = now - self._told.get(step.name, -TELLING) >= TELLING
        if is_news:
            self._told[step.name] = now
        return is_news

    def on_done(self, job: PluginJob, step: PluginStep) -> None:
        """Notes that the delete of a plugin has ended, or is not waited for any longer."""
        if job.state == DELETE:
            self.ledger.end_delete(job.target.id, step.entry)

    def on_end(self, job: PluginJob) -> None:
        """Notes what becomes of the id, and starts the jobs that have waited for this one."""
        self.queue.remove(job)
        try:
            self._free_id(job)
        finally:
            self.queue.start_after(job)

    def _free_id(self, job: PluginJob) -> None:
        """Frees the id, tries deletes again later that could not be started, and forgets what has been removed."""
        id_ = job.target.id
        if self._lock is not None and not self.queue.of(id_):
            self._lock.free(id_)
        if job.state == DELETE:
            self._pods.forget(id_)
            if id_ in self.ledger and all(other.state == UPDATE for other in self.queue.of(id_)):
                self._try_later(id_)
        plans = self._plugins.plans
        if (job.state == DELETE and not plans.runs_at_removals) or not plans.end_is_told:
            self._removed.add(id_)
        self._forget_if_removed(id_)

    def _try_later(self, id_: str) -> None:
        """Sets the timer after which all deletes that an id is owed are tried again."""
        wait, _ = self._retries.get(id_, (FIRST_RETRY, None))
        timer = self._loop.call_at(self._loop.time() + wait, partial(self.run_owed, id_))
        self._retries[id_] = min(2 * wait, LAST_RETRY), timer

    def _forget_if_removed(self, id_: str) -> None:
        if id_ in self._removed and not self.queue.of(id_) and id_ not in self.ledger:
            self._removed.discard(id_)
            self.ledger.forget(id_)
            if retry := self._retries.pop(id_, None):
                retry[1].cancel()
