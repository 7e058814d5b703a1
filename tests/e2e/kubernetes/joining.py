"""Adapters that do not join: a second release on the node, another directory of the socket, NRI switched off.

Each is told by the rollout, by `helm test`, by `status` and by the probe.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from . import node as k8s

OTHER = "other"
SECONDS = 40.0  # after which an installation has failed: a joining adapter takes few


def play() -> Iterator[str]:
    hook = {"files": {"first.json": k8s.hook_file("first")}}
    k8s.chart("install", profile="hooks", hooks=hook)
    yield from _second("the profile `legacy` beside `hooks`", OTHER, "kube-system")
    if k8s.count("create", f"of-{OTHER}"):
        yield "plugins of a release run that does not serve"
    if {*k8s.marks("first").values()} != {1}:
        yield f"hooks: {k8s.marks('first')}"
    k8s.uninstall()
    k8s.kubectl("-n", "kube-system", "rollout", "status", f"daemonset/{OTHER}")
    if wrong := k8s.check(OTHER):
        yield f"when the first release has gone: {wrong}"
    k8s.say("the second release serves when the first one has gone")
    k8s.kubectl("create", "namespace", "second")
    yield from _second("the same profile in another namespace", k8s.RELEASE, "second")
    yield from k8s.wrong(f"of-{k8s.RELEASE}")
    k8s.uninstall(k8s.RELEASE, "second")
    k8s.uninstall(OTHER)
    yield from _elsewhere()
    yield from _off()


def _second(what: str, release: str, namespace: str) -> Iterator[str]:
    """Installs a release beside another one; pods live and die with that one."""
    if k8s.does_well(partial(k8s.chart, "install", SECONDS, release=release, namespace=namespace)):
        yield f"{what} is installed without an error"
    (pod,) = k8s.adapters(release, namespace)
    for line in ("probe readyz", "v010-adapter status"):
        told = k8s.kubectl("-n", namespace, "exec", pod, "--", "sh", "-c", f"! {line} 2>&1")
        if "state.owner: an adapter of " not in told:
            yield f"{what}: {line} tells: {told}"
    if "state.owner: an adapter of " not in (told := k8s.check(release, namespace)):
        yield f"{what}: `helm test` tells: {told}"
    k8s.say(f"{what}: told")
    k8s.apply(f"of-{release}", 4)
    k8s.ready(f"of-{release}")
    k8s.delete(f"of-{release}")


def _elsewhere() -> Iterator[str]:
    """A socketDirectory that does not exist is not made, and keeps the pods from starting."""
    given: dict[str, Any] = {"nri": {"socketDirectory": "/run/nosuch"}}
    yield from _fails("a directory that does not exist", given)
    if k8s.does_well(k8s.shell, "ls -d /run/nosuch"):
        yield "a directory that does not exist is made"


def _off() -> Iterator[str]:
    k8s.shell("cd /etc/containerd; cp config.toml before; sed -i 's/disable = false/disable = true/' config.toml")
    k8s.node("restart", "containerd")
    yield from _fails("NRI is off", {})
    k8s.shell("cd /etc/containerd; mv before config.toml")
    k8s.node("restart", "containerd")


def _fails(what: str, values: dict[str, Any]) -> Iterator[str]:
    if k8s.does_well(partial(k8s.chart, "install", SECONDS, **values)):
        yield f"{what}: the installation succeeds"
    told = k8s.check()
    if not told:
        yield f"{what}: `helm test` succeeds"
    k8s.say(f"{what}: `helm test` tells: {told.strip().splitlines()[-1:]}")
    k8s.uninstall()
