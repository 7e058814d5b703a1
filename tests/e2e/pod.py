"""A pod with one container that lives and dies over CRI, as the golden data's did."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from inotify_simple import INotify, flags  # type: ignore[import-untyped]

STATE = Path("/run/e2e")  # on a tmpfs that a run has for itself: short, for unix sockets, and gone with the run
IMAGE = "localhost/bb:1"
UNHURRIED = "localhost/unhurried:1"
"""The same image, whose containers are asked to end by SIGTERM, and get their grace period."""
NAMESPACES = {"network": 2, "pid": 1}  # the node's network, for there is no CNI; pids of the container's own
POD: dict[str, Any] = {
    "metadata": {"name": "p1", "namespace": "default", "uid": "uid-p1"},
    "labels": {"app": "demo", "io.kubernetes.pod.name": "p1"},
    "annotations": {"example.com/pod-note": "hello"},
    "linux": {
        "cgroup_parent": "/e2e/p1",
        "security_context": {"namespace_options": NAMESPACES},
        "resources": {"cpu_shares": 512, "memory_limit_in_bytes": 128 << 20},
    },
}
CONTAINER: dict[str, Any] = {
    "metadata": {"name": "c1"},
    "image": {"image": IMAGE},
    "command": ["/bin/sh", "-c", "echo started; env; exec sleep 1000000"],
    "envs": [{"key": "FOO", "value": "bar"}],
    "labels": {"io.kubernetes.container.name": "c1", "tier": "x"},
    "annotations": {"example.com/ctr-note": "world"},
    "log_path": "c1.log",
    "linux": {
        "resources": {"cpu_period": 100000, "cpu_quota": 50000, "cpu_shares": 256, "memory_limit_in_bytes": 64 << 20},
        "security_context": {"namespace_options": NAMESPACES},
    },
}


class HarnessError(Exception):
    """The run itself went wrong: a command failed, or what it waited for did not come."""


@dataclass(frozen=True)
class Pod:
    """What the runtime itself says about the pod and its container; a pid of 0: there is no process."""

    id: str
    pid: int
    container_id: str
    container_pid: int


class Sandbox(NamedTuple):
    """A pod that runs, and the file that describes it: crictl wants that for each of its containers."""

    name: str
    id: str
    file: str


class Cri:
    def __init__(self, crictl: Path, socket: Path, folder: Path) -> None:
        self.base = [str(crictl), "--config", str(folder / "crictl.yaml"), "-r", f"unix://{socket}", "-t", "90s"]
        self.folder = folder
        (folder / "crictl.yaml").touch()

    def __call__(self, *arguments: str) -> str:
        return command(*self.base, *arguments)

    def answers(self) -> bool:
        try:
            conditions = json.loads(self("info"))["status"]["conditions"]
        except HarnessError:
            return False
        return any(c["type"] == "RuntimeReady" and c["status"] for c in conditions)

    def live_and_die(self, is_stopped: Callable[[], bool]) -> Pod:
        """A whole life; `is_stopped` tells when the container's end has been announced to NRI plugins."""
        pod = self.run_pod()
        container = self.create(pod)
        self("start", container)
        life = Pod(pod.id, self.pid("inspectp", pod.id), container, self.pid("inspect", container))
        self("update", "--memory", str(32 << 20), "--cpu-share", "300", container)
        self("stop", "--timeout", "0", container)
        until(is_stopped, "the container's StopContainer event")
        self("rm", container)
        self.end_pod(pod.id)
        return life

    def run_pod(self, name: str = "p1", more: Mapping[str, object] = {}) -> Sandbox:
        """Runs a pod; `more` belongs to its `linux`."""
        logs = self.folder / "logs" / name
        logs.mkdir(parents=True, exist_ok=True)
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        own = {"metadata": metadata, "log_directory": str(logs), "linux": POD["linux"] | more}
        file = self.file(name, POD | own)
        return Sandbox(name, self("runp", file).strip(), file)

    def create(self, pod: Sandbox, name: str = "c1", /, **more: object) -> str:
        labels = CONTAINER["labels"] | {"io.kubernetes.container.name": name}  # which is what CRI-O goes by
        own = {"metadata": {"name": name}, "labels": labels, "log_path": f"{name}.log"}
        return self("create", pod.id, self.file(f"{pod.name}-{name}", CONTAINER | own | more), pod.file).strip()

    def end_pod(self, id_: str) -> None:
        self("stopp", id_)
        self("rmp", id_)

    def file(self, name: str, content: dict[str, Any]) -> str:
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(content))
        return str(path)

    def pid(self, inspect: str, name: str) -> int:
        return int(json.loads(self(inspect, "-o", "json", name))["info"].get("pid", 0))


def command(*line: str) -> str:
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=90, check=False)
    except subprocess.TimeoutExpired as error:
        raise HarnessError(f"{' '.join(line)}: not done within {error.timeout} s") from error
    if done.returncode:
        raise HarnessError(f"{' '.join(line)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def until(condition: Callable[[], object], what: str, seconds: float = 120, folder: Path = STATE) -> None:
    """Waits for a condition: looks at it whenever something is written in a folder of the run, logs and records too.

    Not everything that a runtime does is written there, so it is looked at ten times a second in any case.
    """
    deadline = time.monotonic() + seconds
    with INotify() as written:
        written.add_watch(folder, flags.MODIFY | flags.CREATE)
        while not condition():
            if time.monotonic() > deadline:
                raise HarnessError(f"waited {seconds:g} s in vain for {what}")
            written.read(timeout=100)


def variables(pid: int) -> list[str]:
    """Returns the variables of a container's process, once runc has become its program."""
    environment = Path(f"/proc/{pid}/environ")
    until(lambda: "_LIBCONTAINER" not in environment.read_text(), "runc to become the container's program")
    return environment.read_text().split("\0")
