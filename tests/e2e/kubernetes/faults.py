"""The table of faults: each in the middle of rollouts of 30 pods, and what the plugins and hooks missed by it.

A delete that is late is told, and is no fault: on a busy node deletes queue behind the runtime's events.

`python -m tests.e2e.kubernetes IMAGE faults` plays all, `redundant` those which a second instance is for, with it.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any

from tests.e2e.pod import HarnessError
from v010_adapter import __version__

from . import node as k8s

PODS = 30
STATE = f"/run/{k8s.RELEASE}"
REQUIRED = {"example.com/without-v010-adapter": "true"}
VALIDATOR = f"""
[plugins.'io.containerd.nri.v1.nri'.default_validator]
  enable = true
  required_plugins = ["v010-adapter"]
  tolerate_missing_plugins_annotation = "{next(iter(REQUIRED))}"
"""


def play() -> Iterator[str]:
    yield from _play(FAULTS, redundant=False)


def play_redundant() -> Iterator[str]:
    yield from _play(WITH_REDUNDANT, redundant=True)


def play_killed() -> Iterator[str]:
    """The faults of WITH_REDUNDANT, without it."""
    yield from _play({name: FAULTS[name] for name in WITH_REDUNDANT}, redundant=False)


def _play(faults: dict[str, tuple[Callable[[], object], set[str]]], *, redundant: bool) -> Iterator[str]:
    before = k8s.footprint()
    k8s.shell(f"mkdir -p {STATE}; mount -t tmpfs -o size=16M,mode=700 state {STATE}")
    k8s.node("ctr", "images", "tag", f"{k8s.IMAGE}:{__version__}", f"{k8s.IMAGE}:other")
    k8s.USUAL.update(redundant=redundant, hooks={"files": {"usual.json": k8s.hook_file("usual")}})
    k8s.chart("install")
    for number, (name, (fault, allowed)) in enumerate(faults.items()):
        load = f"load{chr(ord('a') + number)}"
        found = _row(load, fault)
        kinds = Counter(kind for kind, _ in found)
        told = ", ".join(f"{many} {kind}" for kind, many in sorted(kinds.items())) or "nothing"
        memory = ", ".join(filter(None, map(_memory, k8s.adapters())))
        counts = f"{k8s.count('create', load)} creates, load {os.getloadavg()[0]:.0f}; peak and rss: {memory}"
        k8s.say(f"| {name}{' (redundant)' * redundant} | {counts} | {told} |")
        yield from (f"{name}: {kind}" for kind in kinds.keys() - allowed - {"delete late"})
    k8s.USUAL.clear()
    k8s.uninstall()
    k8s.shell(f"umount {STATE}")
    yield from (f"left: {thing}" for thing in k8s.footprint() - before if not thing.startswith(STATE))


def _memory(pod: str) -> str:
    with suppress(HarnessError):  # it may be about to end
        peak, resident = k8s.memory(pod)
        return f"{peak / 1e6:.1f} / {resident / 1e6:.1f} MB"
    return ""


def _row(load: str, fault: Callable[[], object]) -> set[tuple[str, str]]:
    """Pods are replaced until the fault is over; returns what is wrong with their creates and deletes."""
    k8s.apply(load, PODS)
    k8s.ready(load)
    k8s.kubectl("rollout", "restart", f"deployment/{load}")
    k8s.until(lambda: k8s.count("delete", load) > PODS // 4, "the middle of the rollout")
    with ThreadPoolExecutor(1) as other:
        doing = other.submit(fault)
        k8s.ready(load)
        while not doing.done():
            k8s.kubectl("rollout", "restart", f"deployment/{load}")
            k8s.ready(load)
    doing.result()
    k8s.delete(load)
    return k8s.judge(load, with_hooks=True)


KILL = "server=$(pgrep -n -f '[v]010-adapter -idx'); date +%s.%N; kill -9 $server"
"""Kills the server, and tells when."""


# ---- the faults


def _upgrade(tag: str, **values: Any) -> None:
    k8s.chart("upgrade", tag=tag, podAnnotations={"example.com/revision": f"{time.time()}"}, **values)


def _upgrade_in_place() -> None:
    _upgrade("other", updateStrategy={"surge": False, "maxNodes": 1})


def _upgrade_with_metrics() -> None:
    _upgrade("", metrics={"enabled": True})
    _upgrade("other", metrics={"enabled": True})


def _kill() -> None:
    """Kills the server, and twice the one after it; their guard is older."""
    for _ in range(3):
        _joined_since(float(k8s.shell(KILL)), "the kill")


def _kill_required() -> None:
    """As above, where containerd refuses containers without the adapter."""
    with required():
        _kill()


@contextmanager
def required() -> Iterator[None]:
    """containerd refuses containers without the adapter."""
    k8s.shell("cd /etc/containerd; cp config.toml before; cat >>config.toml", given=VALIDATOR)
    k8s.chart("upgrade", podAnnotations=REQUIRED)
    _restart("TERM")
    yield
    k8s.shell("cd /etc/containerd; mv before config.toml")
    _restart("TERM")


def _delete_pod() -> None:
    k8s.kubectl("-n", "kube-system", "delete", *k8s.adapters())
    k8s.kubectl("-n", "kube-system", "rollout", "status", f"daemonset/{k8s.RELEASE}")


def _forced() -> None:
    """Deletes the adapter's pods by force, one after the other has joined: one of two serves."""
    for pod in k8s.adapters():
        at = time.time()
        k8s.kubectl("-n", "kube-system", "delete", pod, "--grace-period=0", "--force")
        _joined_since(at, "a forced delete")
        _all_ready()


def _killed_container() -> None:
    for pod in k8s.adapters():
        at = time.time()
        k8s.kill_container(pod)
        _joined_since(at, "a kill of the container")
        _all_ready()


def _out_of_memory() -> None:
    """The memory of an adapter's container may not grow any more: the kernel kills what takes most in it."""
    for pod in k8s.adapters():
        at = time.time()
        k8s.stop_growth(pod)
        _joined_since(at, "the limit of memory")
        reason = "jsonpath={.status.containerStatuses[0].lastState.terminated.reason}"
        k8s.say(f"  its container has ended: {k8s.kubectl('-n', 'kube-system', 'get', pod, '-o', reason)}")
        _all_ready()


def _all_ready() -> None:
    for name in k8s.sets():
        k8s.kubectl("-n", "kube-system", "rollout", "status", name)


def _kill_pod_of_hung_deletes() -> None:
    """Deletes end with the adapter's pod: the next adapter makes up for them."""
    k8s.HANG.touch()
    k8s.until(k8s.HUNG.exists, "a delete that does not end")
    k8s.kubectl("-n", "kube-system", "delete", *k8s.adapters(), "--grace-period=0", "--force")
    k8s.HANG.unlink()
    k8s.kubectl("-n", "kube-system", "rollout", "status", f"daemonset/{k8s.RELEASE}")


def _change_hooks() -> None:
    k8s.chart("upgrade", hooks={"files": {"changed.json": k8s.hook_file("changed")}})
    k8s.until(lambda: bool(k8s.marks("changed")), "a container with the other hook")


def _change_own_hooks() -> None:
    """In a ConfigMap that is not the chart's, a change is in force without a restart."""
    usual = f"--from-literal=usual.json={json.dumps(k8s.hook_file('usual'))}"
    k8s.kubectl("-n", "kube-system", "create", "configmap", "own", usual)
    k8s.chart("upgrade", hooks={"configMap": "own"})
    adapter = k8s.adapters()
    k8s.edit("configmap/own", own=k8s.hook_file("own"))
    k8s.until(lambda: bool(k8s.marks("own")), "a container with the other hook")
    if k8s.adapters() != adapter:
        raise HarnessError("a change of hooks has replaced the adapter")


def _drain() -> None:
    k8s.kubectl("drain", "node1", "--ignore-daemonsets", "--timeout", f"{k8s.LIMIT:g}s")
    k8s.kubectl("uncordon", "node1")


def _reinstall() -> None:
    k8s.uninstall()
    k8s.chart("install")


def _restart(signal: str) -> None:
    _joined_after(signal, k8s.node, "restart", "containerd", signal)


def _fill() -> None:
    already = k8s.count("create", "load")
    k8s.shell(f"cat /dev/zero >{STATE}/full || true")
    k8s.until(lambda: k8s.count("create", "load") > already + PODS, "creates without a record")
    k8s.shell(f"rm {STATE}/full")


def _joined_after(what: str, command: Callable[..., str], *line: str) -> None:
    at = time.time()
    command(*line)
    _joined_since(at, what)


def _joined_since(at: float, what: str) -> None:
    k8s.until(lambda: _joined() > at, "the adapter to join again")
    k8s.say(f"  joined again {_joined() - at:.1f} s after {what}")


def _joined() -> float:
    """Returns when the adapter has joined its runtime for the last time."""
    options = "--selector", f"app.kubernetes.io/instance={k8s.RELEASE}", "--tail", "-1", "--timestamps"
    logged = k8s.kubectl("-n", "kube-system", "logs", *options, "--ignore-errors").splitlines()
    times = (line.split()[0] for line in logged if "registered with" in line)
    return max(map(datetime.timestamp, map(datetime.fromisoformat, times)), default=0)


MISSED = {"no create", "no hook", k8s.ABANDONED}
REPEATED = {"creates doubled", "deletes doubled", k8s.CUT_OFF}
FAULTS: dict[str, tuple[Callable[[], object], set[str]]] = {
    "hooks changed": (_change_hooks, set()),
    "own hooks changed": (_change_own_hooks, set()),
    "upgrade of values and image": (partial(_upgrade, "other"), set()),
    "upgrades with metrics": (_upgrade_with_metrics, set()),
    "the server killed": (_kill, MISSED | REPEATED),
    "the server killed, required_plugins": (_kill_required, MISSED | REPEATED),
    "the adapter's pod deleted": (_delete_pod, set()),
    "the adapter's pod deleted by force": (_forced, MISSED | REPEATED),
    "the adapter's container killed": (_killed_container, MISSED | REPEATED),
    "the adapter out of memory": (_out_of_memory, MISSED | REPEATED),
    "the adapter's pod killed, deletes hang": (_kill_pod_of_hung_deletes, MISSED | REPEATED),
    "upgrade in place": (_upgrade_in_place, MISSED),
    "uninstalled and installed again": (_reinstall, MISSED),
    "the node drained": (_drain, set()),
    "containerd TERM": (partial(_restart, "TERM"), MISSED),
    "containerd KILL": (partial(_restart, "KILL"), MISSED | REPEATED),
    "kubelet KILL": (partial(k8s.node, "restart", "kubelet", "KILL"), {k8s.ABANDONED}),
    "records removed": (partial(k8s.shell, f"rm -r {STATE}/*"), set()),
    "state directory full": (_fill, set()),
}
"""By name: what happens, and what may be wrong after it."""
_OF_REDUNDANT = "the adapter's pod deleted by force", "the adapter's container killed", "the adapter out of memory"
WITH_REDUNDANT = {name: (FAULTS[name][0], REPEATED) for name in _OF_REDUNDANT}
WITH_REDUNDANT["upgrade of values and image"] = FAULTS["upgrade of values and image"]
