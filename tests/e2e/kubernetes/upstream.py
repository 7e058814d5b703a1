"""Upstream's two plugins on the node, made of what upstream's are made of: their own modules are not published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.peers.build import MODULE, find_go, peer
from tests.peers.hook_cases import PACKAGE as PODMANS_HOOKS

from .node import CONF, EVIDENCE, hook_file, install, kubectl, node, run, shell, until

HOOKS = "/etc/containers/oci/hooks.d"
URL = "https://github.com/containerd/nri"
PLUGINS = {"00-v010-adapter": ("reference",), "10-hook-injector": ("hookplugin", PODMANS_HOOKS)}
"""What peers they are, by their names in the plugin directory."""


def configure(*plugins: str) -> None:
    listed = {**CONF, "plugins": [{"type": name} for name in plugins]}
    install("/etc/nri/conf.json", json.dumps(listed), "644")
    install(f"{HOOKS}/moved.json", json.dumps(hook_file("moved", "/usr/libexec/oci/hooks.d/mark")), "644")
    shell("mkdir -p /usr/share/containers/oci/hooks.d /usr/libexec/oci/hooks.d")  # without the first, the injector ends
    shell("cp /opt/nri/bin/mark /usr/libexec/oci/hooks.d")


def forget() -> None:
    shell("rm -r /etc/nri/conf.json /etc/containers/oci /usr/share/containers/oci /usr/libexec/oci")
    shell("systemctl restart containerd")


def running() -> Iterator[str]:
    exes = shell("readlink /proc/[0-9]*/exe || true").splitlines()
    yield from (
        exe for exe in exes if exe == "/entrypoint" or Path(exe) in {peer(*names) for names in PLUGINS.values()}
    )


# ---- launched by containerd


def launch(*names: str) -> None:
    for name in names:
        shell(f"ln -s {peer(*PLUGINS[name])} /opt/nri/plugins/{name}")
    shell("systemctl restart containerd")
    launched(*names)


def launched(*names: str) -> None:
    until(lambda: len(list(running())) == len(names), f"{' and '.join(names)} to run")


def remove(*names: str) -> None:
    shell(f"cd /opt/nri/plugins; rm {' '.join(names)}; systemctl restart containerd")


# ---- as DaemonSets


def module() -> str:
    """Returns the directory of NRI's Go module, which has upstream's kustomizations."""
    return run(find_go(), "-C", MODULE, "list", "-m", "-f", "{{.Dir}}", "github.com/containerd/nri").strip()


def deploy() -> None:
    """Applies upstream's kustomizations. Here, plugins find a shell in the image, and the directory for evidence."""
    for name, names in PLUGINS.items():
        daemonset = yaml.safe_load(kubectl("kustomize", f"{module()}/contrib/kustomize/{name[3:]}"))
        pod = daemonset["spec"]["template"]["spec"]
        pod["containers"][0]["volumeMounts"].append({"name": "evidence", "mountPath": str(EVIDENCE)})
        pod["volumes"].append({"name": "evidence", "hostPath": {"path": str(EVIDENCE)}})
        node("image", pod["containers"][0]["image"], f"/entrypoint={peer(*names)}")
        kubectl("apply", "-f", "-", given=json.dumps(daemonset))
        kubectl("-n", "kube-system", "rollout", "status", f"daemonset/{daemonset['metadata']['name']}")
