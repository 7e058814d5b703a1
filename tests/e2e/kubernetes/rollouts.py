"""Pods start and end while everything around them changes: hooks, the adapter, the runtime."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from tests.e2e.pod import HarnessError

from .node import (
    HANG,
    HUNG,
    LIMIT,
    PLUGINS,
    RELEASE,
    adapters,
    apply,
    calls,
    chart,
    containers,
    count,
    does_well,
    failures,
    footprint,
    helm,
    hook_file,
    in_adapter,
    kubectl,
    marks,
    node,
    not_once,
    ready,
    say,
    uninstall,
    until,
)

PODS = 30
OF_A_POD = 4
"""What a pod has for a legacy plugin: itself, its init container, two more."""


def play() -> Iterator[str]:
    """Yields what is wrong."""
    before = footprint()
    chart("install", **_values("first", 1))
    say("the chart is installed")
    apply("load", PODS)
    until(lambda: count("create", "load") > PODS, "the first creates")
    chart("upgrade", **_values("first", 2))
    say(f"the DaemonSet is rolled; {count('create', 'load')} creates so far")
    ready("load")
    say("all pods are ready")
    yield from failures()
    seen = containers("load")
    yield from _change_hooks()
    seen |= containers("load")
    yield from failures()
    yield from _kill_adapter_with_a_late_chain()
    for signal in ("TERM", "KILL"):
        _restart_runtime(signal)
    helm("rollback", RELEASE, "1", "--namespace", "kube-system", "--wait", "--timeout", f"{LIMIT:g}s")
    say("rolled back")
    kubectl("drain", "node1", "--ignore-daemonsets", "--timeout", f"{LIMIT:g}s")
    say("the node is drained")
    yield from _judge(seen)
    say(f"{count('create', 'load', 'late', 'storm')} creates, {count('delete', 'load', 'late', 'storm')} deletes")
    uninstall()
    kubectl("delete", "deployment", "load", "storm-term", "storm-kill")
    kubectl("uncordon", "node1")
    yield from (f"left: {thing}" for thing in footprint() - before if not thing.startswith(f"/run/{RELEASE}"))


def _values(hook: str, revision: int) -> dict[str, Any]:
    files = {f"{hook}.json": hook_file(hook)}
    return {"hooks": {"files": files}, "podAnnotations": {"example.com/revision": str(revision)}}


def _change_hooks() -> Iterator[str]:
    """All pods are replaced; in the middle of it the hook file changes, and the adapter stays the same one."""
    adapter = adapters()
    kubectl("rollout", "restart", "deployment/load")
    chart("upgrade", **_values("second", 2))
    until(lambda: bool(marks("second")), "a container with the other hook")
    ready("load")
    say(f"other hooks came into force in the middle of a rollout, for {len(marks('second'))} containers")
    if adapters() != adapter:
        yield "a change of hooks has replaced the adapter"


def _kill_adapter_with_a_late_chain() -> Iterator[str]:
    """A delete goes on behind its event, and ends with the adapter's pod: the next adapter makes up for it."""
    apply("late", 1)
    ready("late")
    ids = containers("late")
    if {id_: marks("second")[id_] for id_ in ids} != dict.fromkeys(ids, 1) or len(ids) != OF_A_POD - 1:
        yield f"the late pod's containers do not have the hook: {ids}"
    HANG.touch()
    kubectl("delete", "deployment", "late", "--wait=false")
    until(HUNG.exists, "a delete that does not end")
    until(_is_late, "the event to be answered without it")
    kubectl("-n", "kube-system", "delete", *adapters(), "--grace-period=0", "--force")
    HANG.unlink()
    kubectl("-n", "kube-system", "rollout", "status", f"daemonset/{RELEASE}")
    say("the adapter's pod was killed, and a late chain of deletes with it")


def _restart_runtime(signal: str) -> None:
    """containerd restarts in the middle of a rollout. The kubelet may have to start containers again."""
    name = f"storm-{signal.lower()}"
    apply(name, PODS // 3)
    until(lambda: count("create", name) > PODS // 3, "the first creates")
    node("restart", "containerd", signal)
    until(partial(does_well, in_adapter, "v010-adapter", "status"), "the adapter to join again")
    ready(name)
    say(f"containerd was restarted by {signal} in the middle of a rollout")


def _judge(seen: set[str]) -> Iterator[str]:
    """Yields what is wrong with the plugins' runs."""
    names = ("load", "late", "storm")
    with suppress(HarnessError):
        until(lambda: count("delete", *names) >= count("create", *names), "the deletes")
    for plugin in PLUGINS:
        ids = {id_ for _, _, id_ in calls(plugin, "load", "late")}
        if len(ids) != (2 * PODS + 1) * OF_A_POD:
            yield f"{plugin} ran for {len(ids)} pods and containers"
        yield from (f"{plugin} did not run for {id_}" for id_ in seen - ids)
        yield from not_once({id_ for _, _, id_ in calls(plugin, *names)}, *names)


def _is_late() -> bool:
    told = json.loads(in_adapter("v010-adapter", "status", "-o", "json"))
    return bool(told["adapters"][0]["programs"]["slow"]["late"])
