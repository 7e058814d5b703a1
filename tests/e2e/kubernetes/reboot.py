"""The node boots, and starts its pods again: what the legacy plugins miss until the adapter's own pod has joined."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from . import faults
from . import node as k8s

PODS = 30
ALLOWED = {"no create", "delete late"}  # late: all of the pods end at once


def play() -> Iterator[str]:
    k8s.chart("install")
    yield from _boot("as installed", "boota")
    with faults.required():
        yield from _boot("required_plugins", "bootb")
    k8s.uninstall()


def _boot(what: str, load: str) -> Iterator[str]:
    k8s.apply(load, PODS)
    k8s.ready(load)
    at = time.time()
    k8s.node("reboot")
    k8s.until(lambda: len(_started(load, at)) >= 4 * PODS, "the pods to start again")
    k8s.kubectl("-n", "kube-system", "rollout", "status", f"daemonset/{k8s.RELEASE}")
    k8s.ready(load)
    started = _started(load, at)
    k8s.delete(load)
    kinds = Counter(kind for kind, _ in k8s.judge(load, since=at))
    told = ", ".join(f"{many} {kind}" for kind, many in sorted(kinds.items())) or "nothing"
    k8s.say(f"| the node boots, {what} | {len(k8s.PLUGINS) * len(started)} pairs | {told} |")
    yield from (f"the node boots, {what}: {kind}" for kind in kinds.keys() - ALLOWED)


def _started(load: str, since: float) -> set[str]:
    return {line.id for line in k8s.lines("runc", load, since=since) if line.word == "start"}
