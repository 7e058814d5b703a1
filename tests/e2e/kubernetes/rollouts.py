"""Pods start and end while everything around them changes: hooks, the adapter, the runtime."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from tests.e2e.pod import HarnessError

from . import node as k8s

PODS = 30
OF_A_POD = 4  # what a pod has for a legacy plugin: itself, its init container, two more


def play() -> Iterator[str]:
    before = k8s.footprint()
    k8s.chart("install", **_values("first", 1))
    k8s.say("the chart is installed")
    k8s.apply("load", PODS)
    k8s.until(lambda: k8s.count("create", "load") > PODS, "the first creates")
    k8s.chart("upgrade", **_values("first", 2))
    k8s.say(f"the DaemonSet is rolled; {k8s.count('create', 'load')} creates so far")
    k8s.ready("load")
    k8s.say("all pods are ready")
    yield from k8s.failures()
    seen = k8s.containers("load")
    yield from _change_hooks()
    seen |= k8s.containers("load")
    yield from k8s.failures()
    yield from _kill_adapter_with_a_late_chain()
    for signal in ("TERM", "KILL"):
        _restart_runtime(signal)
    k8s.helm("rollback", k8s.RELEASE, "1", "--namespace", "kube-system", "--wait", "--timeout", f"{k8s.LIMIT:g}s")
    k8s.say("rolled back")
    k8s.kubectl("drain", "node1", "--ignore-daemonsets", "--timeout", f"{k8s.LIMIT:g}s")
    k8s.say("the node is drained")
    yield from _judge(seen)
    creates, deletes = (k8s.count(state, "load", "late", "storm") for state in ("create", "delete"))
    k8s.say(f"{creates} creates, {deletes} deletes")
    k8s.uninstall()
    k8s.kubectl("delete", "deployment", "load", "storm-term", "storm-kill")
    k8s.kubectl("uncordon", "node1")
    yield from (f"left: {thing}" for thing in k8s.footprint() - before if not thing.startswith(f"/run/{k8s.RELEASE}"))


def _values(hook: str, revision: int) -> dict[str, Any]:
    files = {f"{hook}.json": k8s.hook_file(hook)}
    return {"hooks": {"files": files}, "podAnnotations": {"example.com/revision": str(revision)}}


def _change_hooks() -> Iterator[str]:
    """All pods are replaced; in the middle of it the hook file changes, and the adapter stays the same one."""
    adapter = k8s.adapters()
    k8s.kubectl("rollout", "restart", "deployment/load")
    k8s.chart("upgrade", **_values("second", 2))
    k8s.until(lambda: bool(k8s.marks("second")), "a container with the other hook")
    k8s.ready("load")
    k8s.say(f"other hooks came into force in the middle of a rollout, for {len(k8s.marks('second'))} containers")
    if k8s.adapters() != adapter:
        yield "a change of hooks has replaced the adapter"


def _kill_adapter_with_a_late_chain() -> Iterator[str]:
    """A delete goes on behind its event, and ends with the adapter's pod: the next adapter makes up for it."""
    k8s.apply("late", 1)
    k8s.ready("late")
    ids = k8s.containers("late")
    if {id_: k8s.marks("second")[id_] for id_ in ids} != dict.fromkeys(ids, 1) or len(ids) != OF_A_POD - 1:
        yield f"the late pod's containers do not have the hook: {ids}"
    k8s.HANG.touch()
    k8s.kubectl("delete", "deployment", "late", "--wait=false")
    k8s.until(k8s.HUNG.exists, "a delete that does not end")
    k8s.until(_is_late, "the event to be answered without it")
    k8s.kubectl("-n", "kube-system", "delete", *k8s.adapters(), "--grace-period=0", "--force")
    k8s.HANG.unlink()
    k8s.kubectl("-n", "kube-system", "rollout", "status", f"daemonset/{k8s.RELEASE}")
    k8s.say("the adapter's pod was killed, and a late chain of deletes with it")


def _restart_runtime(signal: str) -> None:
    """containerd restarts in the middle of a rollout. The kubelet may have to start containers again."""
    name = f"storm-{signal.lower()}"
    k8s.apply(name, PODS // 3)
    k8s.until(lambda: k8s.count("create", name) > PODS // 3, "the first creates")
    k8s.node("restart", "containerd", signal)
    k8s.until(partial(k8s.does_well, k8s.in_adapter, "v010-adapter", "status"), "the adapter to join again")
    k8s.ready(name)
    k8s.say(f"containerd was restarted by {signal} in the middle of a rollout")


def _judge(seen: set[str]) -> Iterator[str]:
    names = ("load", "late", "storm")
    with suppress(HarnessError):
        k8s.until(lambda: k8s.count("delete", *names) >= k8s.count("create", *names), "the deletes")
    for plugin in k8s.PLUGINS:
        ids = {id_ for _, _, id_ in k8s.calls(plugin, "load", "late")}
        if len(ids) != (2 * PODS + 1) * OF_A_POD:
            yield f"{plugin} ran for {len(ids)} pods and containers"
        yield from (f"{plugin} did not run for {id_}" for id_ in seen - ids)
        yield from k8s.not_once({id_ for _, _, id_ in k8s.calls(plugin, *names)}, *names)


def _is_late() -> bool:
    told = json.loads(k8s.in_adapter("v010-adapter", "status", "-o", "json"))
    return bool(told["adapters"][0]["programs"]["slow"]["late"])
