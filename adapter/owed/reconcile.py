"""Compares the ledger with a Synchronize: which pods and containers live, which have ended. Pure.

Facts of runtimes: containerd lists created containers, whose create event is yet to come, and stopped pods; it leaves
out containers that have exited. On CRI-O a creation may slip through between its list and our joining, so absence at
one moment proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from adapter.legacy import request
from adapter.legacy.request import Target
from adapter.proto import nri_pb2 as api

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


class Due(NamedTuple):
    """What becomes of the ids that are owed a delete."""

    now: list[str]
    """The pod or container has stopped."""
    absent: list[str]
    """The runtime does not list the id. If no event names it soon, it has gone."""


def node_of(pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]) -> Node:
    """Returns what a Synchronize tells."""
    pods_by_id = {pod.id: pod for pod in pods}
    by_state: dict[bool, set[str]] = {True: set(), False: set()}
    running: list[Target] = []
    with_containers: set[str] = set()
    for container in containers:
        if container.state in _RUNNING:
            with_containers.add(container.pod_sandbox_id)
            pod = pods_by_id.get(container.pod_sandbox_id) or api.PodSandbox(id=container.pod_sandbox_id)
            running.append(request.of_container(container, pod))
        else:
            by_state[container.state == api.CONTAINER_CREATED].add(container.id)
    alive = [pod for pod in pods_by_id.values() if pod.pid or pod.id in with_containers]
    unclear = pods_by_id.keys() - {pod.id for pod in alive}
    running = [*map(request.of_pod, alive), *running]
    return Node(running, frozenset(by_state[True]), frozenset(by_state[False]), frozenset(unclear))


def due(owed: Iterable[str], node: Node) -> Due:
    """Returns which of the ids that are owed a delete get it now, and which are absent.

    The others live, or the runtime will say when they stop.
    """
    there = {target.id for target in node.running} | node.created | node.unclear
    owed = list(owed)
    now = [id_ for id_ in owed if id_ in node.stopped]
    return Due(now, [id_ for id_ in owed if id_ not in there and id_ not in node.stopped])
