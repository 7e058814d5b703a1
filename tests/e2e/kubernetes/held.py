"""Containers wait for their slow legacy plugins: those of an adapter in a pod, with the node's processes.

A plugin of 10 s, one that fails after 5 s; then many pods at once with a plugin of a second, on each side in turn.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial

from . import node as k8s
from . import rollout

TOLD = k8s.EVIDENCE / "held"
SLOW = """#!/bin/sh
PATH=/usr/bin:/bin  # upstream's adapter gives plugins none of these
request=$(cat)
field() { echo "$request" | grep -o "\\"$1\\":\\"[^\\"]*\\"" | head -1 | cut -d '"' -f 4; }
pod=$(field io.kubernetes.pod.name)
[ "$(field state)" = create -a "$(field id)" != "$(field sandboxID)" ] && case $pod in
waits*) sleep 10; touch TOLD/done-$pod;;
timed*) sleep 1; touch TOLD/done-$pod;;
fails*)
  [ -e TOLD/done-$pod ] || { touch TOLD/done-$pod; sleep 5; echo '{"version": "0.1", "error": "refused"}'; exit; };;
esac
echo '{"version": "0.1"}'
""".replace("TOLD", str(TOLD))
PROGRAM = f"""pod=$(hostname); echo started >>{TOLD}/ran-$pod
[ -e {TOLD}/done-$pod ] || touch {TOLD}/early-$pod
{k8s.UNTIL_TERM}"""
CONF = {"version": "0.1", "plugins": [{"type": "held"}]}
PODS, ROUNDS = 30, 1
EACH: dict[str, str | int] = {"without holds": "never", "held at once": 0, "held": "auto"}


def play() -> Iterator[str]:
    k8s.shell("cat > /opt/nri/bin/held; chmod 755 /opt/nri/bin/held", given=SLOW)
    k8s.shell(f"cat > {rollout.CONF_FILE}", given=json.dumps(CONF))
    _install("auto")
    TOLD.mkdir()
    yield from _waits()
    yield from _fails()
    k8s.uninstall()
    sides: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {"none": (lambda: None, lambda: None)}
    sides["upstream's"] = rollout.launch, rollout.remove
    sides |= {name: (partial(_install, after), k8s.uninstall) for name, after in EACH.items()}
    for _ in range(ROUNDS):
        for side, (begin, end) in sides.items():
            begin()
            yield from _at_once(side)
            end()


def _install(after: str | int) -> None:
    k8s.chart("install", legacy={"conf": CONF}, config={"legacy": {"holdAfter": after}})


def _waits() -> Iterator[str]:
    began = time.monotonic()
    _start("waits", 4)
    k8s.ready("waits")
    k8s.say(f"a plugin of 10 s: 4 pods are ready after {time.monotonic() - began:.1f} s")
    yield from _early("waits", 4)
    k8s.delete("waits")


def _fails() -> Iterator[str]:
    """The container whose plugin fails has not been executed; the kubelet starts another one."""
    _start("fails", 1)
    k8s.ready("fails")
    restarts = "jsonpath={.items[*].status.containerStatuses[*].restartCount}"
    told = k8s.kubectl("get", "pods", "-l", "app=fails", "-o", restarts)
    (ran,) = TOLD.glob("ran-fails*")
    k8s.say(
        f"a plugin that fails after 5 s: restarts {told}, the program was executed {len(ran.read_text().split())} x"
    )
    if told == "0" or len(ran.read_text().split()) != 1:
        yield f"restarts {told}, executed: {ran.read_text().split()}"
    k8s.delete("fails")


def _at_once(side: str) -> Iterator[str]:
    for file in TOLD.iterdir():
        file.unlink()
    load, began = os.getloadavg()[0], time.monotonic()
    _start("timed", PODS)
    k8s.ready("timed")
    seconds = time.monotonic() - began
    events = {}
    if side in EACH:
        told = json.loads(k8s.kubectl("-n", "kube-system", "exec", k8s.adapters()[0], "--", *STATUS))
        events = {name: event["times"] for name, event in told["adapters"][0]["events"].items()}
    k8s.say(f"{PODS} pods, a plugin of 1 s, {side}: ready after {seconds:.1f} s; load before {load:.1f}; {events}")
    if side not in ("none", "upstream's", "without holds"):
        yield from _early("timed", PODS)
    k8s.delete("timed")


STATUS = "v010-adapter", "status", "-o", "json"


def _early(name: str, pods: int) -> Iterator[str]:
    if ran := pods - len([*TOLD.glob(f"ran-{name}*")]):
        yield f"{name}: {ran} of {pods} have not run"
    if early := [*TOLD.glob(f"early-{name}*")]:
        yield f"{name}: {len(early)} of {pods} started before their plugin was done"


def _start(name: str, replicas: int) -> None:
    mount = {"name": "told", "mountPath": str(TOLD)}
    volume = {"name": "told", "hostPath": {"path": str(TOLD)}}
    containers = [k8s.container("one", PROGRAM, volumeMounts=[mount])]
    k8s.apply(name, replicas, {"containers": containers, "volumes": [volume], "terminationGracePeriodSeconds": 5})
