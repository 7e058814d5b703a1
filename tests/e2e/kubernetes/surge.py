"""An update with surge while 100 pods are replaced: exact, also where the state directory has no room."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from . import node as k8s

PODS = 100
STATE = f"/run/{k8s.RELEASE}"
SMALL = 64
"""KiB that the state directory has left."""
POD = {"containers": [k8s.container("one")], "terminationGracePeriodSeconds": 60}


def play() -> Iterator[str]:
    k8s.shell(f"mkdir -p {STATE}; mount -t tmpfs -o size=16M,mode=700 state {STATE}")
    k8s.limit_pods(250)
    k8s.chart("install")
    k8s.apply("surge", PODS, POD)
    k8s.ready("surge")
    yield from _replaced("surge")
    k8s.apply("small", PODS, POD)
    k8s.ready("small")
    k8s.shell(
        f"free=$(df -k --output=avail {STATE} | tail -1); head -c $(((free - {SMALL}) * 1024)) /dev/zero >{STATE}/full"
    )
    yield from _replaced("small")
    k8s.limit_pods(110)
    k8s.uninstall()
    k8s.shell(f"umount {STATE}")


def _replaced(name: str) -> Iterator[str]:
    """All pods are replaced, and end, while the adapter is updated; with too little room, it waits for that."""
    k8s.kubectl("rollout", "restart", f"deployment/{name}")
    k8s.until(lambda: k8s.count("delete", name) > PODS // 8, "the rollout")
    with ThreadPoolExecutor(1) as other:
        updating = other.submit(k8s.chart, "upgrade", podAnnotations={"example.com/update": name})
        k8s.ready(name)
        k8s.say(f"{name}: the pods are replaced; the update is {'done' if updating.done() else 'under way'}")
        k8s.delete(name)
    updating.result()
    kinds = Counter(kind for kind, _ in k8s.judge(name))
    k8s.say(f"{name}: {k8s.count('create', name)} creates, {dict(kinds)}; load {os.getloadavg()[0]:.1f}")
    yield from (f"{name}: {many} {kind}" for kind, many in kinds.items() if kind not in ("delete late", k8s.ABANDONED))
