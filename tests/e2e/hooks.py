"""Hooks under a real runtime: what stands in hooks.d when a container is created runs for it, and nothing else does."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.e2e.pod import STATE, Cri, Sandbox, command

HOOKS = Path("/etc/containers/oci/hooks.d")
DEFAULTS = Path("/usr/share/containers/oci/hooks.d")
FILE = HOOKS / "record.json"
RECORD = Path(__file__).resolve().parents[2] / "hooks.d/record"
AGENT = Path(__file__).resolve().parents[2] / "examples/kubearmor.json"
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
        ("with the file written anew", lambda: write("second"), "second"),
        ("with another file renamed to its name", lambda: replace("third"), "third"),
        ("with one for other containers", lambda: write("fourth", {"annotations": {"^x$": ""}}), ""),
        ("with one in the place of that", lambda: write("fifth", {"annotations": {"pod-note": "^hello$"}}), "fifth"),
        ("with the file just removed", FILE.unlink, ""),
    ]
    for number, (when, change, expected) in enumerate(steps):
        change()
        container, pid = _live_and_die(cri, f"c{number}", pod)
        yield from differences(f"the container created {when}", container, pid, expected)
    install_agent()
    container, _ = _live_and_die(cri, "guarded", pod)
    yield from _agents_differences(container)
    cri.end_pod(pod.id)


def _live_and_die(cri: Cri, name: str, pod: Sandbox) -> tuple[str, int]:
    container = cri.create(pod, name)
    cri("start", container)
    pid = cri.pid("inspect", container)
    cri("stop", "--timeout", "0", container)
    cri("rm", container)
    return container, pid


def install_agent() -> None:
    shutil.copy(AGENT, HOOKS)
    program = Path(json.loads(AGENT.read_text())["hook"]["path"])
    program.parent.mkdir()
    text = f"""#!/bin/sh
echo "{{\\"arguments\\": \\"$*\\", \\"state\\": $(cat)}}" >>{states("agent")}
"""
    program.write_text(text)
    program.chmod(0o755)


def _agents_differences(container: str) -> Iterator[str]:
    hook = json.loads(AGENT.read_text())["hook"]
    ran = [json.loads(line) for line in states("agent").read_text().splitlines()] if states("agent").exists() else []
    phases = [(one["state"]["id"], one["state"]["status"] == "stopped") for one in ran]
    if phases != [(container, False), (container, True)]:
        yield f"the agent's hook has run for {ran}"
    for one in ran:
        if one["arguments"].split() != hook["args"][1:]:
            yield f"the agent's hook has got {one}"


def write(label: str, when: dict[str, Any] | None = None, file: Path = FILE) -> None:
    """Writes a hook that keeps the container's states in a file named by the label."""
    hook = {"path": str(RECORD), "args": ["record", str(states(label))], "timeout": 30}
    text = json.dumps({"version": "1.0.0", "hook": hook, "when": when or {"always": True}, "stages": STAGES})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def write_precreate(name: str, hook: dict[str, Any], when: dict[str, Any] | None = None) -> None:
    text = json.dumps({"version": "1.0.0", "hook": hook, "when": when or {"always": True}, "stages": ["precreate"]})
    HOOKS.mkdir(parents=True, exist_ok=True)
    (HOOKS / name).write_text(text)


def replace(label: str) -> None:
    new = FILE.with_suffix(".new")
    write(label, file=new)
    os.replace(new, FILE)


def states(label: str) -> Path:
    return STATE / f"states-{label}"


def differences(what: str, container: str, pid: int, expected: str) -> Iterator[str]:
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
