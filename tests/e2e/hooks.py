"""Hooks under a real runtime: what stands in hooks.d when a container is created runs for it, and nothing else does."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.e2e.pod import STATE, Cri, command

HOOKS = Path("/etc/containers/oci/hooks.d")
DEFAULTS = Path("/usr/share/containers/oci/hooks.d")
FILE = HOOKS / "record.json"
RECORD = Path(__file__).resolve().parents[2] / "hooks.d/record"
STAGES = ["createRuntime", "poststop"]


def prepare() -> None:
    """Takes away the node's own hooks, directory and all: the adapter has to see it come into being."""
    shutil.rmtree(HOOKS.parent, ignore_errors=True)
    if DEFAULTS.exists():
        command("mount", "-t", "tmpfs", "tmpfs", str(DEFAULTS))


def play(cri: Cri) -> Iterator[str]:
    """Changes the hooks between containers of one pod; yields, in sentences, where a container got others."""
    pod = cri.run_pod()
    steps: list[tuple[str, Callable[[], object], str]] = [
        ("before there were hooks", lambda: None, ""),
        ("with a hook file just written", lambda: write("first"), "first"),
        ("with another file renamed to its name", lambda: os.replace(write("second", HOOKS / ".new"), FILE), "second"),
        ("with one for other containers", lambda: write("third", annotations={"^x$": ""}), ""),
        ("with one in the place of that", lambda: write("fourth", annotations={"pod-note": "^hello$"}), "fourth"),
        ("with the file just removed", FILE.unlink, ""),
    ]
    for number, (when, change, expected) in enumerate(steps):
        change()
        container = cri.create(pod, f"c{number}")
        cri("start", container)
        pid = cri.pid("inspect", container)
        cri("stop", "--timeout", "0", container)
        cri("rm", container)
        yield from _differences(f"the container created {when}", container, pid, expected)
    cri.end_pod(pod.id)


def write(label: str, file: Path = FILE, **when: Any) -> Path:
    """Writes a hook that keeps the container's states in a file named by the label."""
    hook = {"path": str(RECORD), "args": ["record", str(states(label))], "timeout": 30}
    return write_hook(file, hook, STAGES, **when)


def write_hook(file: Path, hook: dict[str, Any], stages: list[str], **when: Any) -> Path:
    text = json.dumps({"version": "1.0.0", "hook": hook, "when": when or {"always": True}, "stages": stages})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def states(label: str) -> Path:
    return STATE / f"states-{label}"


def _differences(what: str, container: str, pid: int, expected: str) -> Iterator[str]:
    """Yields how the hooks that ran for a container differ from the one expected, none if the label is empty."""
    ran = {file.name: list(map(json.loads, file.read_text().splitlines())) for file in STATE.glob("states-*")}
    ours = {name: [state for state in found if state["id"] == container] for name, found in ran.items()}
    ours = {name: found for name, found in ours.items() if found}
    wanted = {states(expected).name} if expected else set()
    if set(ours) != wanted:
        yield f"{what} got {', '.join(ours) or 'no hook'} instead of {', '.join(wanted) or 'none'}"
        return
    for found in ours.values():
        if [state["status"] for state in found] not in (["creating", "stopped"], ["created", "stopped"]):
            yield f"{what}: its hooks ran at {', '.join(state['status'] for state in found)}"
        if found[0]["pid"] != pid:
            yield f"{what}: its hook was told pid {found[0]['pid']} at its creation, the runtime says {pid}"
