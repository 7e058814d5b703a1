"""Upstream's two DaemonSets are replaced by the chart as the guide says: pods run, and others wait for the node.

Their pods hold what upstream's plugins are made of: their own modules are not published.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import yaml

from tests.e2e.guides import GUIDES
from tests.e2e.pod import HarnessError
from tests.peers.build import MODULE, find_go, peer
from tests.peers.hook_cases import PACKAGE as PODMANS_HOOKS

from . import node as k8s

GUIDE = GUIDES["from-adapter"].read_text()
URL = "https://github.com/containerd/nri"
DAEMONSETS = {"v010-adapter": ("reference",), "hook-injector": ("hookplugin", PODMANS_HOOKS)}
"""What peers they are, by the names of upstream's kustomizations."""
HOOKS, PROGRAMS = "/etc/containers/oci/hooks.d", "/usr/libexec/oci/hooks.d"
PODS = 5
OF_A_POD = 3  # containers
NAMES = "before", "during", "after"


def play() -> Iterator[str]:
    before = k8s.footprint()
    k8s.install("/etc/nri/conf.json", json.dumps(k8s.CONF), "644")
    k8s.install(f"{HOOKS}/moved.json", json.dumps(k8s.hook_file("moved", f"{PROGRAMS}/mark")), "644")
    k8s.shell(f"mkdir -p /usr/share/containers/oci/hooks.d {PROGRAMS}")  # without the first, the injector ends
    k8s.shell(f"cp /opt/nri/bin/mark {PROGRAMS}; systemctl restart containerd")
    module = k8s.run(find_go(), "-C", MODULE, "list", "-m", "-f", "{{.Dir}}", "github.com/containerd/nri").strip()
    for name in DAEMONSETS:
        _deploy(module, name)
    k8s.apply("before", PODS)
    k8s.ready("before")
    k8s.say("pods run with upstream's DaemonSets")
    k8s.kubectl("cordon", "node1")
    k8s.apply("during", PODS)
    for step in re.findall(r"^# (kubectl delete -k \S+)$", GUIDE, re.MULTILINE):
        k8s.kubectl(*step.replace(URL, module).split()[1:], "--wait")
    k8s.until(lambda: not list(_running()), "the end of upstream's pods")
    k8s.chart("install", nri={"plugin": {"index": 10}}, legacy={})
    k8s.kubectl("uncordon", "node1")
    k8s.say("the DaemonSets are exchanged")
    yield from _judge()
    k8s.uninstall()
    k8s.shell(f"rm -r /etc/nri/conf.json /etc/containers/oci /usr/share/containers/oci {Path(PROGRAMS).parent}")
    k8s.shell("systemctl restart containerd; rm -rf /run/nri-v010-adapter")
    yield from (f"left: {thing}" for thing in k8s.footprint() - before)


def _deploy(module: str, name: str) -> None:
    """Applies upstream's kustomization. Here, plugins find a shell in the image, and the directory for evidence."""
    daemonset = yaml.safe_load(k8s.kubectl("kustomize", f"{module}/contrib/kustomize/{name}"))
    pod = daemonset["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"].append({"name": "evidence", "mountPath": str(k8s.EVIDENCE)})
    pod["volumes"].append({"name": "evidence", "hostPath": {"path": str(k8s.EVIDENCE)}})
    k8s.node("image", pod["containers"][0]["image"], f"/entrypoint={peer(*DAEMONSETS[name])}")
    k8s.kubectl("apply", "-f", "-", given=json.dumps(daemonset))
    k8s.kubectl("-n", "kube-system", "rollout", "status", f"daemonset/{daemonset['metadata']['name']}")


def _running() -> Iterator[str]:
    yield from (exe for exe in k8s.shell("readlink /proc/[0-9]*/exe || true").splitlines() if exe == "/entrypoint")


def _judge() -> Iterator[str]:
    """Starts pods, then ends all; yields what has not run once.

    A pod itself counts from the end of the steps: before, containerd runs the plugins for it, and upstream's does, too.
    """
    k8s.apply("after", PODS)
    for name in NAMES:
        k8s.ready(name)
    ids = k8s.containers(*NAMES)
    pods = {id_ for _, _, id_ in k8s.calls("shell", "after")} - ids
    k8s.delete(*NAMES)
    if (len(ids), len(pods)) != (PODS * OF_A_POD * len(NAMES), PODS):
        yield f"{len(ids)} containers, {len(pods)} pods"
    with suppress(HarnessError):
        k8s.until(lambda: not list(k8s.not_once(ids | pods, *NAMES)), "the deletes")
    yield from k8s.not_once(ids | pods, *NAMES)
    hooks = k8s.marks("moved")
    yield from (f"{id_}: {hooks[id_]} hooks" for id_ in ids if hooks[id_] != 1)
    k8s.say("all pods have ended")
