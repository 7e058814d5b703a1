"""Upstream's two plugins on the node are replaced as the guide says, while pods run, and others wait for the node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from tests.e2e.guides import GUIDES, ROOT, steps
from tests.e2e.pod import HarnessError
from tests.e2e.runtimes import PATH

from . import upstream
from .node import (
    PLUGINS,
    apply,
    calls,
    chart,
    containers,
    delete,
    does_well,
    footprint,
    install,
    kubectl,
    marks,
    not_once,
    ready,
    say,
    shell,
    uninstall,
    until,
)

INSTALLED = "/opt/v010-adapter"
GUIDE = GUIDES["from-adapter"].read_text()
PODS = 5
OF_A_POD = 3
"""Containers."""


def play() -> Iterator[str]:
    """Yields what is wrong."""
    before = footprint()
    yield from _links()
    yield from _daemonsets()
    shell("rm -rf /run/nri-v010-adapter")
    yield from (f"left: {thing}" for thing in footprint() - before)


def _links() -> Iterator[str]:
    """containerd launches upstream's plugins, then this adapter, then upstream's again, while no pods start."""
    upstream.configure(*PLUGINS)
    install(f"{INSTALLED}/bin/v010-adapter", (ROOT / ".venv/bin/v010-adapter").read_text())
    upstream.launch(*upstream.PLUGINS)
    apply("link-before", PODS)
    ready("link-before")
    say("pods run with upstream's plugins")
    kubectl("cordon", "node1")
    apply("link-during", PODS)
    _follow("If hook-injector runs there, too", "If it is a link in the plugin directory")
    kubectl("uncordon", "node1")
    say("the links are exchanged")
    yield from _judge("link", PLUGINS)
    _follow("Roll back")
    upstream.launched(*upstream.PLUGINS)
    upstream.remove(*upstream.PLUGINS)
    shell(f"rm -r {INSTALLED}")
    upstream.forget()


def _daemonsets() -> Iterator[str]:
    """Upstream's DaemonSets are deleted, and the chart is installed, while no pods start."""
    plugins = ("shell", "slow")  # upstream's pod has no Python
    upstream.configure(*plugins)
    shell("systemctl restart containerd")
    upstream.deploy()
    apply("set-before", PODS)
    ready("set-before")
    say("pods run with upstream's DaemonSets")
    kubectl("cordon", "node1")
    apply("set-during", PODS)
    for step in re.findall(r"^# (kubectl delete -k \S+)$", GUIDE, re.MULTILINE):
        kubectl(*step.replace(upstream.URL, upstream.module()).split()[1:], "--wait")
    until(lambda: not list(upstream.running()), "the end of upstream's pods")
    chart("install", nri={"plugin": {"index": 10}}, legacy={})
    kubectl("uncordon", "node1")
    say("the DaemonSets are exchanged")
    yield from _judge("set", plugins)
    uninstall()
    upstream.forget()


def _judge(form: str, plugins: Sequence[str]) -> Iterator[str]:
    """Starts pods, then ends all; yields what has not run once.

    A pod itself counts from the end of the steps: before, containerd runs the plugins for it, and upstream's does, too.
    """
    yield from (f"still runs: {program}" for program in upstream.running())
    names = [f"{form}-{time}" for time in ("before", "during", "after")]
    apply(names[-1], PODS)
    for name in names:
        ready(name)
    ids = containers(*names)
    pods = {id_ for _, _, id_ in calls("shell", names[-1])} - ids
    delete(*names)
    if (len(ids), len(pods)) != (PODS * OF_A_POD * len(names), PODS):
        yield f"{len(ids)} containers, {len(pods)} pods"
    with suppress(HarnessError):
        until(lambda: not list(not_once(ids | pods, *names, plugins=plugins)), "the deletes")
    yield from not_once(ids | pods, *names, plugins=plugins)
    hooks = marks("moved")
    yield from (f"{id_}: {hooks[id_]} hooks" for id_ in ids if hooks[id_] != 1)
    say("all pods have ended")


def _follow(*sections: str) -> None:
    """Runs commands of the guide. The node has no journal of logs."""
    for step in steps(GUIDE, *sections):
        command = f"export PATH={PATH}; {step}"
        if step.endswith(" status"):  # containerd is there before the plugins that it launches
            until(partial(does_well, shell, command), step)
        elif not step.startswith("journalctl"):
            shell(command)
