"""Adjustments under a real runtime: what a legacy plugin and a precreate hook answer is what the container is like.

Other hooks are injected, as files say that come, change and go between two containers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e import hooks, plugins
from tests.e2e.adjuster import FIRST, RISKY, SECOND
from tests.e2e.pod import STATE, Cri, HarnessError, Sandbox, until, variables

PROGRAM = Path(__file__).with_name("adjuster.py")
CONF = Path("/etc/nri/legacy/conf.json")
EVENTS = "[CreateContainer, StartContainer, UpdateContainer, StopContainer]"
SETTINGS = f"""
legacy: {{config: {CONF}, metadataPrefix: e2e.meta/, plugins: {{adjuster: {{events: {EVENTS}}}}}}}
hooks: {{enabled: true, precreate: true, podAnnotations: true}}
"""
REFUSED = "needs NRI 0.12.0, the runtime has "
"""What the adapter says where it does not send what would end the runtime."""


def prepare() -> None:
    hooks.prepare()
    plugins.install(CONF, PROGRAM, first=str(STATE / "first"))
    hook = {"path": sys.executable, "args": ["python3", "-IS", str(PROGRAM), "edit"]}
    hooks.write("edit.json", hook, ["precreate"], annotations={"pod-note": ""})


def play(cri: Cri, takes_all: bool) -> Iterator[str]:
    """Makes containers; yields, in sentences, what they lack. `takes_all`: the runtime lives through every change."""
    pod = cri.run_pod()
    hooks.record(annotations={"pod-note": "^hello$"})
    first = _start(cri, FIRST, pod)
    hooks.record(annotations={"^x$": ""})
    info = json.loads(cri("inspect", "-o", "json", first))["info"]
    pid = int(info["pid"])
    yield from _created(info["runtimeSpec"], pid)
    cri("update", "--cpu-share", "300", first)
    yield from _shares(pid, 444, "an update that the plugin changed")
    second = _start(cri, SECOND, pod)
    cri("stop", "--timeout", "0", second)  # older runtimes are told with the answer to this
    yield from _shares(pid, 333, "the plugin's wish at another container's start")
    cri("stop", "--timeout", "0", first)
    for container in (first, second):
        cri("rm", container)
    yield from hooks.differences([first])
    if '"example.com/pod-note":"hello"' not in hooks.STATES.read_text():
        yield "the hook has not seen the pod's annotation for which it ran"
    if second in hooks.STATES.read_text():
        yield "a hook has run for a container that does not match"
    for name in RISKY:
        yield from _risky(cri, name, pod, takes_all)
    cri.end_pod(pod.id)


def _risky(cri: Cri, name: str, pod: Sandbox, takes: bool) -> Iterator[str]:
    """A change that ends some runtimes: it arrives, or the container fails with the adapter's reason."""
    try:
        container = cri.create(pod, name)
    except HarnessError as error:
        if takes or f"linux.{name}" not in str(error) or REFUSED not in str(error):
            yield f"the container with a {name} fails: {error}"
        if not cri.answers():
            yield f"the runtime does not answer any more after a {name}"
        return
    spec = json.loads(cri("inspect", "-o", "json", container))["info"]["runtimeSpec"]
    arrived = spec["linux"].get(name) or {}
    if not takes or any(arrived.get(key) != value for key, value in RISKY[name].items()):
        yield f"of the {name} has arrived: {arrived}"
    cri("rm", container)


def _start(cri: Cri, name: str, pod: Sandbox) -> str:
    container = cri.create(pod, name)
    cri("start", container)
    return container


def _created(spec: dict[str, Any], pid: int) -> Iterator[str]:
    process = Path(f"/proc/{pid}")
    environment, notes = variables(pid), spec["annotations"]
    if not {"LEGACY=plugin", "FOO=changed", "HOOK=precreate"} <= {*environment} or "FOO=bar" in environment:
        yield f"the container's variables are {environment}"
    for what, is_so in (
        ("the annotation of the plugin", notes.get("e2e/plugin") == "yes"),
        ("the annotation of the hook", notes.get("e2e/hook") == "yes"),
        ("the pod's annotation", notes.get("example.com/pod-note") == "hello"),
        ("the plugin's metadata", "FOO=bar" in notes.get("e2e.meta/adjuster.saw", "")),
        ("the plugin's limit", "Max open files            1234" in process.joinpath("limits").read_text()),
        ("the hook's mount", " /e2e-mount ro" in process.joinpath("mountinfo").read_text()),
        ("the hook's device", process.joinpath("root/dev/e2e-null").is_char_device()),
    ):
        if not is_so:
            yield f"the container lacks {what}"
    yield from _shares(pid, 222, "what the plugin asked for at the creation")


def _shares(pid: int, expected: int, what: str) -> Iterator[str]:
    """What the kernel's file says: a weight with cgroup v2, as runc converts shares."""
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        expected = 1 + (expected - 2) * 9999 // 262142
    try:
        until(lambda: _read_shares(pid) == expected, "", 60)
    except HarnessError:
        yield f"{what} did not reach the cgroup: {_read_shares(pid)} instead of {expected}"


def _read_shares(pid: int) -> int:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return int(Path(f"/sys/fs/cgroup/cpu{path}/cpu.shares").read_text())
    return int(Path(f"/sys/fs/cgroup{path}/cpu.weight").read_text())
