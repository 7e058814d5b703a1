"""Hooks under a real runtime: a hook that notes what it is told, for each container and each of its stages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.e2e.pod import STATE, command

HOOKS = Path("/etc/containers/oci/hooks.d")
DEFAULTS = Path("/usr/share/containers/oci/hooks.d")
RECORD = Path(__file__).resolve().parents[2] / "hooks.d/record"
STATES = STATE / "states"
"""Where the hook notes the states of containers that it gets."""


def prepare() -> None:
    """Takes away the node's own hooks, directory and all: the adapter has to see it come into being."""
    shutil.rmtree(HOOKS.parent, ignore_errors=True)
    if DEFAULTS.exists():
        command("mount", "-t", "tmpfs", "tmpfs", str(DEFAULTS))


def record(**when: Any) -> None:
    """Writes the file of the hook, for all containers unless told otherwise."""
    write("record.json", {"path": str(RECORD), "args": ["record", str(STATES)]}, ["createRuntime", "poststop"], **when)


def write(name: str, hook: dict[str, Any], stages: list[str], **when: Any) -> None:
    text = json.dumps({"version": "1.0.0", "hook": hook, "when": when or {"always": True}, "stages": stages})
    HOOKS.mkdir(parents=True, exist_ok=True)
    (HOOKS / name).write_text(text)


def differences(containers: Iterable[str]) -> Iterator[str]:
    """Yields the containers, all of which have ended, for which the hook has not run once at each stage."""
    states = list(map(json.loads, STATES.read_text().splitlines())) if STATES.exists() else []
    for container in containers:
        ran = [state["status"] for state in states if state["id"] == container]
        if ran not in (["creating", "stopped"], ["created", "stopped"]):
            yield f"the hook of the container {container} has run at: {', '.join(ran) or 'nothing'}"
