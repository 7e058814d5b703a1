"""A plugin takes more memory than the adapter's container may have: the kernel kills it, and not the adapter."""

from __future__ import annotations

from collections.abc import Iterator

from . import node as k8s

EATER = """#!/usr/bin/python3
import json, sys

request = json.load(sys.stdin)
if request["state"] == "create" and request["id"] != request["sandboxID"]:
    eaten = bytearray(b"x" * (400 << 20))
sys.stdout.write('{"version": "0.1"}')
"""
CONF = {"version": "0.1", "plugins": [{"type": "eater"}]}
RESOURCES = {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}


def play() -> Iterator[str]:
    k8s.shell("cat >/opt/nri/bin/eater; chmod 755 /opt/nri/bin/eater", given=EATER)
    k8s.chart("install", legacy={"conf": CONF}, resources=RESOURCES)
    (pod,) = k8s.adapters()
    k8s.apply("fed", 1, {"containers": [k8s.container("one")], "terminationGracePeriodSeconds": 5})
    logs = "-n", "kube-system", "logs", pod
    told = "eater: no result (no output), killed by signal 9"
    k8s.until(lambda: told in k8s.kubectl(*logs) or _restarts(pod) != "0", "the end of what eats")
    k8s.say(f"a plugin of 400 MB at a limit of 128 MiB: the adapter has restarted {_restarts(pod)} x")
    if _restarts(pod) != "0":
        yield "a plugin has eaten the memory, and the adapter was killed"
    k8s.delete("fed")
    k8s.uninstall()


def _restarts(pod: str) -> str:
    restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
    return k8s.kubectl("-n", "kube-system", "get", pod, "-o", restarts)
