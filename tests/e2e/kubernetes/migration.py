"""Upstream's two plugins on the node are replaced as the guide says, while pods run, and others wait for the node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from tests.e2e.guides import GUIDES, ROOT, steps
from tests.e2e.pod import HarnessError
from tests.e2e.runtimes import PATH

from . import node as k8s
from . import upstream

INSTALLED = "/opt/v010-adapter"
GUIDE = GUIDES["from-adapter"].read_text()
PODS = 5
OF_A_POD = 3  # containers


def play() -> Iterator[str]:
    before = k8s.footprint()
    yield from _links()
    yield from _daemonsets()
    k8s.shell("rm -rf /run/nri-v010-adapter")
    yield from (f"left: {thing}" for thing in k8s.footprint() - before)


def _links() -> Iterator[str]:
    """containerd launches upstream's plugins, then this adapter, then upstream's again, while no pods start."""
    upstream.configure(*k8s.PLUGINS)
    k8s.install(f"{INSTALLED}/bin/v010-adapter", (ROOT / ".venv/bin/v010-adapter").read_text())
    upstream.launch(*upstream.PLUGINS)
    k8s.apply("link-before", PODS)
    k8s.ready("link-before")
    k8s.say("pods run with upstream's plugins")
    k8s.kubectl("cordon", "node1")
    k8s.apply("link-during", PODS)
    _follow("If hook-injector runs there, too", "If it is a link in the plugin directory")
    k8s.kubectl("uncordon", "node1")
    k8s.say("the links are exchanged")
    yield from _judge("link", k8s.PLUGINS)
    _follow("Roll back")
    upstream.launched(*upstream.PLUGINS)
    upstream.remove(*upstream.PLUGINS)
    k8s.shell(f"rm -r {INSTALLED}")
    upstream.forget()


def _daemonsets() -> Iterator[str]:
    """Upstream's DaemonSets are deleted, and the chart is installed, while no pods start."""
    plugins = ("shell", "slow")  # upstream's pod has no Python
    upstream.configure(*plugins)
    k8s.shell("systemctl restart containerd")
    upstream.deploy()
    k8s.apply("set-before", PODS)
    k8s.ready("set-before")
    k8s.say("pods run with upstream's DaemonSets")
    k8s.kubectl("cordon", "node1")
    k8s.apply("set-during", PODS)
    for step in re.findall(r"^# (kubectl delete -k \S+)$", GUIDE, re.MULTILINE):
        k8s.kubectl(*step.replace(upstream.URL, upstream.module()).split()[1:], "--wait")
    k8s.until(lambda: not list(upstream.running()), "the end of upstream's pods")
    k8s.chart("install", nri={"plugin": {"index": 10}}, legacy={})
    k8s.kubectl("uncordon", "node1")
    k8s.say("the DaemonSets are exchanged")
    yield from _judge("set", plugins)
    k8s.uninstall()
    upstream.forget()


def _judge(form: str, plugins: Sequence[str]) -> Iterator[str]:
    """Starts pods, then ends all; yields what has not run once.

    A pod itself counts from the end of the steps: before, containerd runs the plugins for it, and upstream's does, too.
    """
    yield from (f"still runs: {program}" for program in upstream.running())
    names = [f"{form}-{time}" for time in ("before", "during", "after")]
    k8s.apply(names[-1], PODS)
    for name in names:
        k8s.ready(name)
    ids = k8s.containers(*names)
    pods = {id_ for _, _, id_ in k8s.calls("shell", names[-1])} - ids
    k8s.delete(*names)
    if (len(ids), len(pods)) != (PODS * OF_A_POD * len(names), PODS):
        yield f"{len(ids)} containers, {len(pods)} pods"
    with suppress(HarnessError):
        k8s.until(lambda: not list(k8s.not_once(ids | pods, *names, plugins=plugins)), "the deletes")
    yield from k8s.not_once(ids | pods, *names, plugins=plugins)
    hooks = k8s.marks("moved")
    yield from (f"{id_}: {hooks[id_]} hooks" for id_ in ids if hooks[id_] != 1)
    k8s.say("all pods have ended")


def _follow(*sections: str) -> None:
    """Runs commands of the guide. The node has no journal of logs."""
    for step in steps(GUIDE, *sections):
        command = f"export PATH={PATH}; {step}"
        if step.endswith(" status"):  # containerd is there before the plugins that it launches
            k8s.until(partial(k8s.does_well, k8s.shell, command), step)
        elif not step.startswith("journalctl"):
            k8s.shell(command)
