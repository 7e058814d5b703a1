"""Adjustments under a real runtime: what a legacy plugin and a precreate hook answer is what the container is like."""

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
hooks: {{enabled: true, precreate: true}}
"""


def prepare() -> None:
    hooks.prepare()
    plugins.install(CONF, PROGRAM, first=str(STATE / "first"))
    hook = {"path": sys.executable, "args": ["python3", "-IS", str(PROGRAM), "edit"]}
    hooks.write_precreate("edit.json", hook, {"annotations": {"pod-note": ""}})


REFUSED = "needs NRI 0.12.0, the runtime has "
"""What the adapter says where it does not send what would end the runtime."""


def play(cri: Cri, takes_all: bool) -> Iterator[str]:
    """Makes containers; yields, in sentences, what they lack. `takes_all`: the runtime lives through every change."""
    pod = cri.run_pod()
    first = _start(cri, FIRST, pod)
    info = json.loads(cri("inspect", "-o", "json", first))["info"]
    pid = int(info["pid"])
    yield from _created(info["runtimeSpec"], pid)
    cri("update", "--cpu-share", "300", first)
    yield from shares(pid, 444, "an update that the plugin changed")
    second = _start(cri, SECOND, pod)
    cri("stop", "--timeout", "0", second)  # older runtimes are told with the answer to this
    yield from shares(pid, 333, "the plugin's wish at another container's start")
    cri("stop", "--timeout", "0", first)
    for container in (first, second):
        cri("rm", container)
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
    environment = variables(pid)
    for variable in ("LEGACY=plugin", "FOO=changed", "HOOK=precreate"):
        if variable not in environment:
            yield f"the container lacks the variable {variable}: {environment}"
    if "FOO=bar" in environment:
        yield "the variable that was changed is there twice"
    for annotation in ("e2e/plugin", "e2e/hook"):
        if spec["annotations"].get(annotation) != "yes":
            yield f"the container lacks the annotation {annotation}"
    if "FOO=bar" not in spec["annotations"].get("e2e.meta/adjuster.saw", ""):
        yield "the plugin's metadata is no annotation"
    if "Max open files            1234" not in process.joinpath("limits").read_text():
        yield "the limit of open files is not the plugin's"
    if " /e2e-mount ro" not in process.joinpath("mountinfo").read_text():
        yield "the hook's mount is not there"
    if not process.joinpath("root/dev/e2e-null").is_char_device():
        yield "the hook's device is not there"
    yield from shares(pid, 222, "what the plugin asked for at the creation")


def shares(pid: int, expected: int, what: str) -> Iterator[str]:
    try:
        until(lambda: _read_shares(pid) == _as_kernel(expected), "", 60)
    except HarnessError:
        yield f"{what} did not reach the cgroup: {_read_shares(pid)} instead of {_as_kernel(expected)}"


def _read_shares(pid: int) -> int:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return int(Path(f"/sys/fs/cgroup/cpu{path}/cpu.shares").read_text())
    return int(Path(f"/sys/fs/cgroup{path}/cpu.weight").read_text())


def _as_kernel(shares: int) -> int:
    """What the kernel's file says: a weight with cgroup v2, as runc converts shares."""
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return 1 + (shares - 2) * 9999 // 262142
    return shares
