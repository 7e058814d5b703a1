"""Upstream's two plugins on the node are replaced as the guides say, while pods run and start."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.e2e.guides import GUIDES, ROOT, steps
from tests.e2e.runtimes import PATH

from . import upstream
from .node import (
    CONF,
    apply,
    calls,
    containers,
    delete,
    footprint,
    hook_file,
    install,
    marks,
    not_once,
    ready,
    say,
    shell,
)

INSTALLED = "/opt/v010-adapter/bin/v010-adapter"
SECTIONS = ("If hook-injector runs there, too", "If it is a link in the plugin directory")
PODS = 5


def play() -> Iterator[str]:
    """Yields what is wrong."""
    before = footprint()
    install(INSTALLED, (ROOT / ".venv/bin/v010-adapter").read_text())
    install("/etc/nri/conf.json", json.dumps(CONF), "644")
    install(f"{upstream.HOOKS}/moved.json", json.dumps(hook_file("moved")), "644")
    upstream.launch({"00-v010-adapter": upstream.conf(), "10-hook-injector": {"directories": [upstream.HOOKS]}})
    apply("before", PODS)
    ready("before")
    say("pods run with upstream's plugins")
    apply("during", PODS)  # they start while the steps are done
    _follow(*SECTIONS)
    say("the steps of the guide are done")
    ready("during")
    apply("after", PODS)
    ready("after")
    names = ("before", "during", "after")
    ids = containers(*names)
    delete(*names)
    if len(ids) != 3 * 3 * PODS:
        yield f"{len(ids)} containers"
    pods = {id_ for _, _, id_ in calls("shell", "after")} - ids
    if len(pods) != PODS:
        yield f"{len(pods)} pods after the migration"
    yield from not_once(ids | pods, *names)
    if marks("moved") != dict.fromkeys(ids, 1):
        yield f"not once: the hooks of {[id_ for id_ in ids if marks('moved')[id_] != 1]}"
    say("all pods have ended")
    running = shell("readlink /proc/[0-9]*/exe || true").splitlines()
    yield from (f"still runs: {program}" for program in upstream.programs() if str(program) in running)
    _follow("Roll back")
    running = shell("readlink /proc/[0-9]*/exe || true").splitlines()
    yield from (f"does not run again: {program}" for program in upstream.programs() if str(program) not in running)
    upstream.remove(*upstream.PROGRAMS)
    shell(f"rm -r {upstream.HOOKS}/moved.json /etc/nri/conf.json /opt/v010-adapter /run/nri-v010-adapter")
    yield from (f"left: {thing}" for thing in footprint() - before)


def _follow(*sections: str) -> None:
    """Runs the commands of a guide. The node has no journal."""
    for step in steps(GUIDES["from-adapter"].read_text(), *sections):
        if not step.startswith("journalctl"):
            shell(f"export PATH={PATH}; {step}")
