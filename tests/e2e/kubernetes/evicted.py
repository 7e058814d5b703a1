"""The kubelet evicts the adapter's pod, several times: the DaemonSet controller removes each failed pod."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from . import node as k8s

TIMES = 3
FULL: dict[str, Any] = {
    "extraVolumes": [{"name": "small", "emptyDir": {"sizeLimit": "1Mi"}}],
    "extraVolumeMounts": [{"name": "small", "mountPath": "/small"}],
}


def play() -> Iterator[str]:
    k8s.chart("install", **FULL)
    for _ in range(TIMES):
        (evicted,) = k8s.adapters()
        at = time.monotonic()
        k8s.kubectl("-n", "kube-system", "exec", evicted, "--", "sh", "-c", "head -c 8000000 /dev/zero >/small/file")
        k8s.until(lambda: evicted not in k8s.adapters(), "the failed pod to go")  # noqa: B023 - is called now
        gone = time.monotonic() - at
        k8s.until(k8s.adapters, "the next pod")
        k8s.wait("condition=Ready", "--namespace=kube-system", *k8s.adapters())
        k8s.say(f"evicted: the failed pod has gone after {gone:.0f} s, ready after {time.monotonic() - at:.0f} s")
    told = k8s.kubectl("-n", "kube-system", "get", "events", "-o", "jsonpath={.items[*].reason}").split()
    k8s.say(f"events: { ({reason: told.count(reason) for reason in ('Evicted', 'FailedDaemonPod')}) }")
    if told.count("Evicted") < TIMES:
        yield "the pods have ended, and not by an eviction"
    if len(pods := k8s.adapters()) != 1:
        yield f"failed pods stay: {pods}"
    k8s.uninstall()
