"""Compares the ledger with a Synchronize: which pods and containers live, which have ended. Pure.

Facts of runtimes: containerd lists created containers, whose StartContainer is yet to come, and stopped pods; it leaves
out containers that have exited. On CRI-O a creation may slip through between its list and our joining, so absence at
one moment proves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from nri.proto import nri_pb2 as api
from v010_adapter.legacy import request
from v010_adapter.legacy.request import Labels, Target

_RUNNING = (api.CONTAINER_RUNNING, api.CONTAINER_PAUSED)


class Node(NamedTuple):
    """The pods and containers that a runtime has."""

    running: list[Target]
    """Pods that live, and containers that are running or paused."""
    created: frozenset[str]
    """Ids of containers that have been created and not started."""
    stopped: frozenset[str]
    """Ids of containers that have ended."""
    unclear: frozenset[str]
    """Ids of pods without a process and without running containers: stopped ones, or pods of CRI-O."""


def node_of(pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]) -> Node:
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
    return Node(targets, created, frozenset(others), frozenset(by_id.keys() - {pod.id for pod in alive}))


def _target(container: api.Container, pods: Mapping[str, api.PodSandbox], labels: Mapping[str, Labels]) -> Target:
    id_ = container.pod_sandbox_id
    return request.of_container(container, pods.get(id_) or api.PodSandbox(id=id_), labels.get(id_))


def due(owed: Collection[str], node: Node) -> tuple[list[str], list[str]]:
    """Returns which of the ids that are owed a delete have stopped, and which the runtime does not list.

    The others live, or the runtime will say when they stop. If no event names one that is not listed soon, it has gone.
    """
    listed = {target.id for target in node.running} | node.created | node.unclear | node.stopped
    return [id_ for id_ in owed if id_ in node.stopped], [id_ for id_ in owed if id_ not in listed]
