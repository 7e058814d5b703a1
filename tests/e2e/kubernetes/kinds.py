"""Pods of each kind live and die: what the kubelet starts, starts again, changes, evicts, or ends without grace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from . import node as k8s

STATIC = k8s.K8S / "run/static/static.json"
FILL = f"head -c 8000000 /dev/zero >/scratch/file; {k8s.UNTIL_TERM}"
SCRATCH = {"name": "scratch", "mountPath": "/scratch"}
VOLUME = {"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}
CPU = {"requests": {"cpu": "10m"}, "limits": {"cpu": "50m"}}
KINDS: dict[str, tuple[int, dict[str, Any]]] = {
    "sidecar": (3, {"initContainers": [k8s.container("proxy", restartPolicy="Always")]}),
    "crashing": (4, {"containers": [k8s.container("one", "exit 1")]}),
    "host": (2, {"hostNetwork": True}),
    "debugged": (3, {}),
    "resized": (2, {"containers": [k8s.container("one", resources=CPU)]}),
    "forced": (2, {}),
    "evicted": (2, {"containers": [k8s.container("one", FILL, volumeMounts=[SCRATCH])], "volumes": [VOLUME]}),
    "static": (2, {}),
    "job": (8, {}),
    "tardy": (2, {}),
}
"""By name: how many creates there are at least, the pod's own too, and what is special about the pod.

The creates of `tardy` fail, as they are not done in time: its deletes wait for them.
"""


def pod(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    spec = {"containers": [k8s.container("one")], "terminationGracePeriodSeconds": 10} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def play() -> Iterator[str]:
    k8s.chart("install")
    of_job = {"containers": [k8s.container("one", "true")], "restartPolicy": "Never"}
    job = {"completions": 4, "parallelism": 2, "template": {"spec": of_job}}
    items = [pod(name, spec) for name, (_, spec) in KINDS.items() if name not in ("static", "job")]
    items.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": job})
    STATIC.write_text(json.dumps(pod("static", {})))
    k8s.kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    k8s.wait("condition=Ready", "pod/sidecar", "pod/host", "pod/debugged", "pod/resized", "pod/forced")
    k8s.kubectl("debug", "debugged", "--image=localhost/bb:1", "--container=late", "--", "sleep", "1000000")
    more = {"spec": {"containers": [{"name": "one", "resources": {"limits": {"cpu": "100m"}}}]}}
    k8s.kubectl("patch", "pod", "resized", "--subresource=resize", "-p", json.dumps(more))
    k8s.wait("jsonpath={.status.containerStatuses[0].resources.limits.cpu}=100m", "pod/resized")
    k8s.kubectl("delete", "pod", "forced", "--grace-period=0", "--force")
    k8s.until(_is_evicted, "the eviction of a pod that takes too much")
    k8s.wait("condition=Complete", "job/job")
    for name, (creates, _) in KINDS.items():
        k8s.until(lambda: k8s.count("create", name) >= creates, f"the creates of {name}")  # noqa: B023 - is called now
    STATIC.unlink()
    k8s.kubectl("delete", "--all", "jobs,pods")
    yield from k8s.wrong(*KINDS)
    k8s.say(f"pods of {len(KINDS)} kinds: {k8s.count('create', *KINDS)} creates, {k8s.count('delete', *KINDS)} deletes")
    k8s.uninstall()


def _is_evicted() -> bool:
    """Whether the kubelet has ended the pod: no other one ends by itself, so its phase tells that.

    A kubelet that sees the container's end first calls it Succeeded, and gives no reason.
    """
    return k8s.kubectl("get", "pod", "evicted", "-o", "jsonpath={.status.phase}") in ("Failed", "Succeeded")
