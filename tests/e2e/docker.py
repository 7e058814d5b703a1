"""Docker Engine, which asks plugins at the creation of containers only: one-shots adjust them, hooks do no harm."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.e2e import build, hooks, plugins
from tests.e2e.pod import IMAGE, STATE, HarnessError, variables
from tests.e2e.runtimes import IMAGES, NEWEST, PATH, Runtime

API = STATE / "docker.sock"
PROGRAM = Path(__file__).with_name("docker_adjuster.py")
SETTINGS = "legacy: {plugins: {docker_adjuster: {events: [CreateContainer]}}}\n"
REFUSED = "linux.devices: Docker takes no changes but variables and mounts"
SILENT = "legacy plugins run at CreateContainer or not at all"


class Docker(Runtime):
    """Docker Engine, which starts a containerd of its own."""

    more_recipes = (build.containerd(NEWEST.removeprefix("containerd-")),)

    def can(self, setup: str) -> bool:
        """There is no CRI: it has a setup of its own."""
        return setup == "docker"

    def command(self) -> list[str]:
        """The command line. Debian's runc knows no time namespaces."""
        options = {
            "data-root": STATE / "root",
            "exec-root": STATE / "exec",
            "pidfile": STATE / "docker.pid",
            "host": f"unix://{API}",
            "cgroup-parent": "/e2e/p1",
            "bridge": "none",
            "feature": "time-namespaces=false",
            "nri-opts": "enable=true,plugin-path=/opt/nri/plugins,plugin-config-path=/etc/nri/conf.d",
            **dict.fromkeys(("iptables", "ip6tables", "userland-proxy"), "false"),
        }
        return [str(self.binaries / "dockerd"), *(f"--{name}={value}" for name, value in options.items())]

    def path(self) -> str:
        return ":".join([str(self.more_recipes[0].cached_at()), PATH])

    def start_without_cri(self) -> None:
        self.write_images()
        self.spawn_until(_answers)
        request("POST", "/images/load", IMAGES[IMAGE].read_bytes(), "application/x-tar")


def prepare() -> None:
    hooks.prepare()
    hooks.record()
    plugins.install(Path("/etc/nri/conf.json"), PROGRAM)


def play() -> Iterator[str]:
    id_ = _create("adjusted")
    request("POST", f"/containers/{id_}/start")
    pid = json.loads(request("GET", f"/containers/{id_}/json"))["State"]["Pid"]
    environment = variables(pid)
    if not {"LEGACY=plugin", "FOO=changed"} <= {*environment} or "FOO=bar" in environment:
        yield f"the container's variables are {environment}"
    if " /e2e-mount ro" not in Path(f"/proc/{pid}/mountinfo").read_text():
        yield "the plugin's mount is not there"
    request("DELETE", f"/containers/{id_}?force=true")
    try:
        _create("device")
        yield "a container with a device was created"
    except HarnessError as error:
        if f"plugin: docker_adjuster: {REFUSED}" not in str(error):
            yield f"the container with a device fails: {error}"
    if hooks.STATES.exists():
        yield "a hook has run"


def request(method: str, path: str, body: bytes = b"", kind: str = "application/json") -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(90)
        try:
            connection.connect(str(API))
            http = HTTPConnection("docker")
            http.sock = connection
            http.request(method, path, body, {"Content-Type": kind})
            answer = http.getresponse()
            text = answer.read().decode()
        except OSError as error:
            raise HarnessError(f"{method} {path}: {error}") from error
    if answer.status >= 300:
        raise HarnessError(f"{method} {path}: {answer.status} {text}")
    return text


def _create(name: str) -> str:
    container: dict[str, Any] = {"Image": IMAGE, "Env": ["FOO=bar"], "HostConfig": {"NetworkMode": "host"}}
    return str(json.loads(request("POST", f"/containers/create?name={name}", json.dumps(container).encode()))["Id"])


def _answers() -> bool:
    try:
        return request("GET", "/_ping") == "OK"
    except HarnessError:
        return False
