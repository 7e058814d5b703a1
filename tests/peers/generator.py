"""The Go collector of plugins' answers and the Go generator, of one version of NRI, in a process of its own."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.message import Message

from adapter.oci.values import Spec
from adapter.proto import nri_pb2 as api

from ..oci.cases import copied
from .harness import Peer

VERSIONS = ("v0.8.0", "v0.10.0", "v0.11.0", "v0.12.0", "v0.12.3", "v0.12.5")
"""Of the runtimes that are in use, and the newest."""


class Generator(Peer):
    """Runtimes' way from plugins' answers to a specification."""

    def __init__(self, version: str) -> None:
        super().__init__("generate", version)
        self.version = tuple(map(int, version.removeprefix("v").split(".")))

    def adjusted(
        self, spec: Spec, *adjustments: api.ContainerAdjustment, container: api.Container | None = None
    ) -> dict[str, Any]:
        case: dict[str, Any] = {"spec": spec, "container": _encoded(container or api.Container())}
        if adjustments:
            case["adjustments"] = [_encoded(each) for each in adjustments]
        return self.ask(case)

    def spec(self, spec: Spec, *adjustments: api.ContainerAdjustment) -> Spec:
        answer = self.adjusted(spec, *adjustments)
        assert not answer.keys() & {"error", "panic"}, answer
        return plain(answer["spec"], spec)

    def known(self, spec: Spec) -> Spec:
        """A specification as far as that of the version's time has it."""
        return plain(self.adjusted(spec)["spec"], spec)


def collected(answer: dict[str, Any]) -> api.ContainerAdjustment:
    return api.ContainerAdjustment.FromString(base64.b64decode(answer["adjustment"]))


def plain(written: Spec, source: Spec) -> Spec:
    """Returns a specification without the members that Go's encoder writes though nobody has set them."""
    result = {key: value for key, value in written.items() if key != "ociVersion" or key in source}
    for key in {"user", "cwd"} - source.get("process", {}).keys():
        result.get("process", {}).pop(key, None)
    return result


def habits(before: Spec, wanted: Spec, adjusted: api.ContainerAdjustment) -> Spec:
    """What runtimes make of an adjustment that should give `wanted`."""
    spec: Spec = copied(wanted)
    linux, resources = adjusted.linux, adjusted.linux.resources
    if adjusted.env:
        last_of_each = dict(entry.split("=", 1) for entry in spec["process"]["env"] if "=" in entry)
        spec["process"]["env"] = [f"{name}={value}" for name, value in last_of_each.items() if name]
    if adjusted.rlimits:
        changed = {rlimit.type for rlimit in adjusted.rlimits}
        old = [rlimit for rlimit in before["process"].get("rlimits", []) if rlimit["type"] in changed]
        spec["process"]["rlimits"] = old + spec["process"]["rlimits"]
    if resources.memory.HasField("limit"):
        spec["linux"]["resources"]["memory"]["swap"] = resources.memory.limit.value
    rules = [_rule(device) for device in linux.devices if not device.path.startswith("-")]
    if rules:
        had = before["linux"].get("resources", {}).get("devices", [])
        now = spec["linux"].setdefault("resources", {}).get("devices", [])
        spec["linux"]["resources"]["devices"] = had + rules + now[len(had) :]
    if linux.HasField("seccomp_policy"):
        spec["linux"]["seccomp"].pop("defaultErrnoRet", None)
    return spec


def _rule(device: api.LinuxDevice) -> Spec:
    access = "rwm" if device.type == "b" else "rw"
    return {"allow": True, "type": device.type, "major": device.major, "minor": device.minor, "access": access}


def _encoded(message: Message) -> str:
    return base64.b64encode(message.SerializeToString()).decode()
