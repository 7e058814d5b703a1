"""A node without room for a second instance: an update preempts no user's pod, and waits, or takes the old one's place.

The node is full by CPU, or by its number of pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from . import node as k8s

SECONDS = 40.0  # after which an update has stopped
CPU = 250
"""Thousandths of a CPU that an instance requests."""


def play() -> Iterator[str]:
    cpus = int(k8s.kubectl("get", "node", "node1", "-o", "jsonpath={.status.allocatable.cpu}"))
    users = cpus * 1000 // CPU - 1  # less CPU is left than an instance requests
    k8s.limit_pods(users + 2)  # before the rest: a kubelet that has started anew may tell that pods are not ready
    k8s.chart("install")
    _start(users, CPU)
    yield from _update("CPU", "Insufficient cpu")
    _start(users + 1, 1)
    yield from _update("its number of pods", "Too many pods")
    k8s.limit_pods(110)
    k8s.uninstall()


def _update(what: str, lack: str) -> Iterator[str]:
    before = _users()
    if k8s.does_well(partial(k8s.chart, "upgrade", SECONDS, podAnnotations={"example.com/full": what})):
        yield f"full by {what}: an update finds room"
    waiting = k8s.waiting()
    if lack not in waiting:
        yield f"full by {what}: the new instance waits for something else"
    k8s.say(f"full by {what}: {waiting}")
    if _users() != before:
        yield f"full by {what}: an update has ended pods of users: {before - _users()}"
    if not k8s.does_well(k8s.kubectl, "-n", "kube-system", "exec", k8s.serving(), "--", "probe", "readyz"):
        yield f"full by {what}: no instance serves while an update waits"
    k8s.chart("upgrade", updateStrategy={"surge": False, "maxNodes": 1})
    if _users() != before:
        yield f"full by {what}: an update in place has ended pods of users: {before - _users()}"
    k8s.say(f"full by {what}: an update in place, and {len(before)} pods of users as before")
    k8s.chart("upgrade", SECONDS, priorityClassName="system-node-critical")
    k8s.say(f"full by {what}: system-node-critical has ended {len(before - _users())} pods of users")
    k8s.delete("users")
    k8s.chart("upgrade")


def _users() -> set[str]:
    uids = "jsonpath={.items[?(@.spec.nodeName)].metadata.uid}"
    return set(k8s.kubectl("get", "pods", "-l", "app=users", "-o", uids).split())


def _start(replicas: int, cpu: int) -> None:
    """Starts pods of users, where one instance serves."""
    k8s.until(lambda: len(k8s.adapters()) == 1, "the end of the old instance")
    wants = {"requests": {"cpu": f"{cpu}m"}}
    spec = {"containers": [k8s.container("one", resources=wants)], "terminationGracePeriodSeconds": 5}
    k8s.apply("users", replicas, spec)
    k8s.ready("users")
