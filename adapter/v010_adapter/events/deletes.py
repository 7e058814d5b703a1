"""Runs one delete for each create of a plugin: at the stop event, or without an event.

A delete runs without an event when Synchronize shows that the pod or container has gone, when a pod's process ends
unannounced, when the creation was refused or the pod removed, and when the plugin could not be started before.
`FirstStart` says what is owed a delete without a create here. `listed_by` and `due` compare a Synchronize with what is
owed; they are pure.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple

from nri import cgroup
from nri.proto import nri_pb2 as api
from v010_adapter.base.loop import NO_TIMER, Loop, Timer
from v010_adapter.errors import ConfigError
from v010_adapter.events.turns import PAST, Turn, Turns
from v010_adapter.events.work import PluginWork, Queue, WorkTools
from v010_adapter.legacy import request
from v010_adapter.legacy.plan import DELETE, UPDATE
from v010_adapter.legacy.plugins import LegacyPlugins
from v010_adapter.legacy.request import Labels, Target
from v010_adapter.monitoring.trace import Trace
from v010_adapter.state.ledger import Ledger
from v010_adapter.state.runtime_directory import RuntimeDirectory

log = logging.getLogger(__name__)

SECOND_LOOK = 5.0
"""An id that a Synchronize does not list, and that no event names within these seconds after it, counts as gone."""
FIRST_RETRY, LAST_RETRY = 10.0, 600.0
"""Seconds until a delete that could not be started is tried again: each wait is twice the one before."""
LOOK_AGAIN = 10.0
"""Seconds until a pod is looked at again if the kernel could not tell whether its process is there."""
_NO_PROCESS = {errno.ESRCH, errno.EINVAL, errno.ENOENT}
"""The errors of pidfd_open if there is no such process. The last two tell it of 0, and of a thread's id."""


class Deletes:
    """Sees to it that each delete that is owed runs."""

    def __init__(self, loop: Loop, tools: WorkTools, turns: Turns) -> None:
        self._tools, self._plugins, self.ledger = tools, tools.plugins, tools.ledger
        self.queue = Queue(loop, turns, self._on_over)
        self._loop, self._turns = loop, turns
        self._pods = PodProcesses(loop, self._on_pod_end)
        self._retries: dict[str, tuple[float, Timer]] = {}
        """The ids whose deletes are tried again: the wait after that, and the timer, which may have been cancelled."""
        self._absent: set[str] = set()
        """The ids that are owed a delete, and that the last Synchronize has not listed."""
        self._second_look = NO_TIMER
        self._named: set[str] | None = None
        """The ids that events have named since Synchronize, until it has been compared with the records."""
        self._ended_pods: set[str] = set()
        """The ids of pods whose process has ended, and that have containers among the absent."""
        self._removed: set[str] = set()
        """The ids to be forgotten as soon as they have no works and are owed no delete."""

    # At an event

    def note_named(self, target: Target) -> None:
        """Notes that an event names a pod or container: it is not absent."""
        self._absent -= {target.id, target.sandbox_id}
        if self._named is not None:
            self._named |= {target.id, target.sandbox_id}

    def of_event(
        self, event: str, message: Any, target: Target, turn: Turn, trace: Trace, *, by_runtime: bool
    ) -> PluginWork | None:
        """Returns the work of a delete, None if no plugin runs at it. The plugins are named when its turn comes.

        With `by_runtime`, the runtime runs the plugins of the event itself: only what is owed runs here.
        """
        entries = () if by_runtime else self._plugins.entries() or ()
        self._turns.look()
        self.ledger.refresh(target)
        is_for_owed_only = self._plugins.plans.is_for_owed_only(event, entries, is_sandbox=target.is_sandbox)
        if is_for_owed_only and not self._will_be_owed(target.id):
            return None
        return PluginWork(self._tools, event, target, None, message=message, entries=entries, turn=turn, trace=trace)

    def submit(self, work: PluginWork) -> None:
        """Runs a work when its turn comes."""
        if work.kind != UPDATE and (retry := self._retries.get(work.target.id)):
            retry[1].cancel()  # the id lives, or its deletes are tried now
        self.queue.submit(work)

    def _will_be_owed(self, id_: str) -> bool:
        """Whether plugins may be owed a delete when the turn of a delete that is made now has come."""
        pending = [work for work in self.queue.of(id_) if work.kind != UPDATE]
        if pending and (pending[-1].kind != DELETE or not pending[-1].has_lock):
            return pending[-1].kind != DELETE  # a delete that waits takes what is owed by then
        return id_ in self.ledger

    def remove(self, id_: str) -> None:
        """Forgets a pod or container that the runtime has removed, when it has no work and is owed no delete."""
        self._removed.add(id_)
        self._forget(id_)

    # Without an event

    def run_owed(self, id_: str) -> None:
        """Runs the deletes that an id is owed, if any, without an event."""
        target = self.ledger.target(id_)
        if target is None or not self._will_be_owed(id_):
            return
        target = copy(target)
        target.pid = 0  # `PluginWork` takes the create's pid, unless that process has ended
        if id_ not in self._retries:
            log.info("%s has gone without an event: its delete comes now", target, extra=target.named.extra)
        event = "StopPodSandbox" if target.is_sandbox else "StopContainer"
        self.submit(PluginWork(self._tools, event, target, None))

    def reconcile(self, listed: Listed, ours: Sequence[Target]) -> None:
        """Runs the deletes of what has ended without a connection. Creates are not made up for.

        `listed` is what the runtime has. `ours` are the live pods and containers whose plugins this adapter runs.
        The records are read first, in slices, between which events are served.
        """
        self._named = set()
        is_alone = not self._turns.look()
        self.ledger.read_all(lambda: self._compare(listed, ours, is_alone=is_alone))

    def on_runtime_gone(self) -> None:
        """No event names an id any more: the next Synchronize decides anew what has gone."""
        self._named, self._absent = None, set()
        self._second_look.cancel()

    def _compare(self, listed: Listed, ours: Sequence[Target], *, is_alone: bool) -> None:
        named, is_read = self._named, self.ledger.is_read
        if named is None:
            return  # the connection has ended
        self._named = None if is_read else named  # else it is compared again when the files can be read
        if is_read and is_alone:  # else another adapter has served what started, and the deletes of what has just ended
            self._log_without_create([target for target in ours if target.id not in named])
        if self._plugins.runtime.habits.hides_earlier_pods:
            pids = dict.fromkeys(listed.unclear, 0)
            if self._plugins.sees_pods:
                pids |= {target.id: target.pid for target in ours if target.is_sandbox}
            for id_ in filter(pids.__contains__, self._ids()):
                self._watch(id_, pids[id_])
        stopped, absent = due([id_ for id_ in self._ids() if id_ not in named], listed)
        self._run_all(stopped)
        self._absent = set(absent)
        if self._absent:  # a process that was stopped reads the events before it looks
            look = partial(self._loop.call_soon, self._look_for_absent)
            self._second_look = self._loop.call_at(self._loop.time() + SECOND_LOOK, look)

    def _ids(self) -> list[str]:
        """Returns the ids that are owed a delete, and those that works under way may owe one."""
        return [*dict.fromkeys([*self.ledger.ids(), *sorted(self.queue.ids())])]

    def _log_without_create(self, ours: Sequence[Target]) -> None:
        """Logs how many containers have started while there was no connection."""
        new = [target for target in ours if not target.is_sandbox and self.ledger.target(target.id) is None]
        entries = self._plugins.entries() or () if new else ()
        if not any(self._plugins.plans.owes_delete(entry, is_sandbox=False) for entry in entries):
            return
        text = "containers that have started without the adapter: %d; no plugin has run for their creates: %.1000s"
        log.warning(text, len(new), ", ".join(map(str, new)))
        for target in new:
            self.ledger.keep_later(target)  # it is logged once. Another adapter may be writing its record

    def _watch(self, id_: str, pid: int) -> None:
        """Watches a pod's process; if the runtime lists none any more, that of its create, unless the pid is reused.

        If the kernel cannot tell now which process has the pid, the pod lives, and is looked at again later.
        """
        known = self.ledger.target(id_)
        if known is None or not (pid or known.pid):
            return
        started = cgroup.start_time(pid or known.pid)
        if started is not None and (pid or not known.started):
            known.started = started or -1
        is_there = started == known.started and self._plugins.sees_pods
        process = None if started is None else (pid or known.pid) if is_there else 0
        self._pods.watch(id_, process, partial(self._watch, id_, pid))

    def _look_for_absent(self) -> None:
        """Ids that were absent from Synchronize, and from each event since, are gone."""
        gone = self._absent | self._ended_pods
        self._absent, self._ended_pods = set(), set()
        self._run_all(gone)

    def _on_pod_end(self, id_: str) -> None:
        """The process of a pod has ended: its delete comes now, but not before those of its containers."""
        if self._absent.isdisjoint(self.ledger.containers_of(id_)):
            self.run_owed(id_)
        else:
            self._ended_pods.add(id_)

    def _run_all(self, ids: Iterable[str]) -> None:
        targets = filter(None, map(self.ledger.target, ids))
        for target in sorted(targets, key=lambda target: target.is_sandbox):  # a pod's delete after its containers'
            self.run_owed(target.id)

    # When a work is over

    def _on_over(self, work: PluginWork) -> None:
        """Tries deletes again later that could not be started, and forgets what has been removed."""
        id_ = work.target.id
        if work.kind == DELETE:
            self._pods.forget(id_)
            is_past = work.turn is not None and work.turn.fate is PAST
            if id_ in self.ledger and not is_past and all(other.kind == UPDATE for other in self.queue.of(id_)):
                self._try_later(id_)
        plans = self._plugins.plans
        if (work.kind == DELETE and not plans.runs_at_removals) or not plans.reports_ends:
            self._removed.add(id_)
        if id_ in self._removed:
            self._forget(id_)

    def _try_later(self, id_: str) -> None:
        """Sets the timer after which all deletes that an id is owed are tried again."""
        wait, _ = self._retries.get(id_, (FIRST_RETRY, None))
        timer = self._loop.call_at(self._loop.time() + wait, partial(self.run_owed, id_))
        self._retries[id_] = min(2 * wait, LAST_RETRY), timer

    def _forget(self, id_: str) -> None:
        """Forgets an id that has been removed, unless it has works or is owed a delete."""
        if not self.queue.of(id_) and id_ not in self.ledger:
            self._removed.discard(id_)
            self.ledger.forget(id_)
            if retry := self._retries.pop(id_, None):
                retry[1].cancel()


class FirstStart:
    """What runs at the first start counts as created: until then, the runtime itself ran these plugins.

    The first start is that of the first adapter of a node. At other starts, what runs and has no record has had no
    create: it has started while no adapter was there, as at each boot before the adapter. A mark tells that an adapter
    has been here (`RuntimeDirectory.mark`). It is made when all that counts has a record: while conf.json cannot be
    read, the plugins are not known, and nothing counts yet.
    """

    def __init__(self, ledger: Ledger, plugins: LegacyPlugins, directory: RuntimeDirectory) -> None:
        self._ledger = ledger
        self._plugins = plugins
        self._directory = directory
        self._ids: dict[str, None] = {}
        """The pods and containers that do not count yet."""
        self.is_counting = False
        """Whether some may not count yet."""

    @property
    def is_due(self) -> bool:
        """Whether this is the first adapter on this node, as far as that is known."""
        return not self._directory.is_marked

    def begin(self, targets: Iterable[Target]) -> None:
        """Counts these, and no others."""
        entries = self._plugins.entries()
        for target in targets if entries is None or entries else ():
            self._ledger.keep_later(target)
            self._ids[target.id] = None
        self.is_counting = True
        self.count()

    def forget(self, id_: str) -> None:
        """Does not count an id any more: it has stopped."""
        self._ids.pop(id_, None)

    def count(self) -> None:
        """Counts what does not count yet, if the plugins are known. What has a record had its creates."""
        entries = self._plugins.entries() if self.is_counting else None
        if entries is None:
            return
        ids, self._ids, self.is_counting = self._ids, {}, False
        owes = self._plugins.plans.owes_delete
        for target in filter(None, map(self._ledger.target, ids)):
            self._ledger.refresh(target)
            if target.id not in self._ledger:
                self._ledger.add_later(target.id, [e for e in entries if owes(e, is_sandbox=target.is_sandbox)])
        self._ledger.when_written(partial(self._mark, logging.WARNING if entries else logging.DEBUG))

    def _mark(self, level: int) -> None:
        try:
            self._directory.mark()
        except (ConfigError, OSError) as error:
            log.log(level, "%s: after the next boot, what runs before the adapter counts as created", error)


class PodProcesses:
    """The processes of pods, each watched until it exits or is forgotten.

    After its restart containerd announces no stop of pods that were there before.
    """

    def __init__(self, loop: Loop, on_exit: Callable[[str], object]) -> None:
        """`on_exit` is called with the id of a pod whose process has exited."""
        self._loop = loop
        self._on_exit = on_exit
        self._pidfds: dict[str, int] = {}
        self._looks: dict[str, Timer] = {}
        """When the pods are looked at again of which it is not known whether their processes are there."""

    def watch(self, id_: str, pid: int | None, look: Callable[[], object]) -> None:
        """Watches the process of a pod. If there is no such process any more, it has exited.

        A pid of None is unknown for now. Then, and if the kernel cannot tell whether there is such a process, or cannot
        watch it, for want of descriptors, memory or epoll's watches, the pod has not exited: `look` is called later,
        unless the pod is forgotten.
        """
        self._looks.pop(id_, NO_TIMER).cancel()
        if id_ in self._pidfds:
            return
        try:
            pidfd = None if pid is None else os.pidfd_open(pid)
        except (OSError, OverflowError) as error:  # NRI's pids have 32 bits, the kernel's 31
            if isinstance(error, OverflowError) or error.errno in _NO_PROCESS:
                self._loop.call_soon(partial(self._on_exit, id_))
                return
            pidfd = None
        if pidfd is None or not self._watches(id_, pidfd):
            self._looks[id_] = self._loop.call_at(self._loop.time() + LOOK_AGAIN, partial(self._look_again, id_, look))

    def _watches(self, id_: str, pidfd: int) -> bool:
        try:
            self._loop.watch(pidfd, partial(self._on_process_exit, id_))
        except OSError:
            os.close(pidfd)
            return False
        self._pidfds[id_] = pidfd
        return True

    def _look_again(self, id_: str, look: Callable[[], object]) -> None:
        del self._looks[id_]
        look()

    def forget(self, id_: str) -> None:
        """Ends the watch of a pod, if there is one."""
        self._looks.pop(id_, NO_TIMER).cancel()
        pidfd = self._pidfds.pop(id_, None)
        if pidfd is not None:
            self._loop.unwatch(pidfd)
            os.close(pidfd)

    def _on_process_exit(self, id_: str) -> None:
        self.forget(id_)
        self._on_exit(id_)


# What a runtime has, by its Synchronize. containerd lists created containers, whose StartContainer is yet to come, and
# stopped pods; it leaves out containers that have exited. On CRI-O a creation may slip through between its list and our
# joining, so absence at one moment proves nothing.

_RUNNING = (api.CONTAINER_RUNNING, api.CONTAINER_PAUSED)


class Listed(NamedTuple):
    """The pods and containers that a runtime has."""

    running: list[Target]
    """Pods that live, and containers that are running or paused."""
    created: frozenset[str]
    """Ids of containers that have been created and not started."""
    stopped: frozenset[str]
    """Ids of containers that have ended."""
    unclear: frozenset[str]
    """Ids of pods without a process and without running containers: stopped ones, or pods of CRI-O."""


def listed_by(pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]) -> Listed:
    """Returns what a Synchronize tells."""
    by_id = {pod.id: pod for pod in pods}
    labels = {id_: Labels(pod) for id_, pod in by_id.items()}
    containers = list(containers)
    running = [container for container in containers if container.state in _RUNNING]
    created = frozenset(container.id for container in containers if container.state == api.CONTAINER_CREATED)
    others = {container.id for container in containers} - created - {container.id for container in running}
    used = {container.pod_sandbox_id for container in running}
    alive = [pod for pod in by_id.values() if pod.pid or pod.id in used]
    targets = [*map(request.of_pod, alive), *(_target(container, by_id, labels) for container in running)]
    return Listed(targets, created, frozenset(others), frozenset(by_id.keys() - {pod.id for pod in alive}))


def _target(container: api.Container, pods: Mapping[str, api.PodSandbox], labels: Mapping[str, Labels]) -> Target:
    id_ = container.pod_sandbox_id
    return request.of_container(container, pods.get(id_) or api.PodSandbox(id=id_), labels.get(id_))


def due(owed: Collection[str], listed: Listed) -> tuple[list[str], list[str]]:
    """Returns which of the ids that are owed a delete have stopped, and which the runtime does not list.

    The others live, or the runtime will say when they stop. If no event names one that is not listed soon, it has gone.
    """
    ids = {target.id for target in listed.running} | listed.created | listed.unclear | listed.stopped
    return [id_ for id_ in owed if id_ in listed.stopped], [id_ for id_ in owed if id_ not in ids]
