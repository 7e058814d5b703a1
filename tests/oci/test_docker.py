"""What Docker Engine would not make of a container is refused by name."""

from __future__ import annotations

from typing import Any

from google.protobuf.json_format import ParseDict

from adapter.errors import NotAdjustable
from adapter.oci.fields_by_version import refuse_unknown
from adapter.proto import nri_pb2 as api

TAKEN: dict[str, Any] = {
    "env": [{"key": "-A"}, {"key": "A", "value": "1"}],
    "mounts": [{"destination": "/a", "options": ["ro"]}, {"destination": "/b", "options": ["readonly"]}],
}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"mounts": [{"destination": "-/a"}]}, "mounts[/a]"),
    ({"mounts": [{"destination": "/a", "options": ["ro", "rbind"]}]}, "mounts[/a].options"),
    ({"annotations": {"a": "b"}}, "annotations"),
    ({"args": ["", "a"]}, "process.args"),
    ({"hooks": {"prestart": [{"path": "/a"}]}}, "hooks"),
    ({"rlimits": [{"type": "RLIMIT_NOFILE"}]}, "process.rlimits"),
    ({"CDI_devices": [{"name": "a"}]}, "adjust.CDI_devices"),
    ({"linux": {"devices": [{"path": "/dev/a"}]}}, "linux.devices"),
    ({"linux": {"resources": {"pids": {"limit": 3}}}}, "linux.resources"),
    ({"linux": {"resources": {"rdt_class": {"value": "a"}}}}, "linux.resources"),
    ({"linux": {"cgroups_path": "/a"}}, "linux.cgroupsPath"),
    ({"linux": {"oom_score_adj": {"value": 1}}}, "process.oomScoreAdj"),
    ({"linux": {"io_priority": {"priority": 1}}}, "process.ioPriority"),
    ({"linux": {"scheduler": {"nice": 1}}}, "process.scheduler"),
    ({"linux": {"seccomp_policy": {"default_action": "a"}}}, "linux.seccomp"),
    ({"linux": {"namespaces": [{"type": "pid"}]}}, "linux.namespaces"),
    ({"linux": {"sysctl": {"a": "b"}}}, "linux.sysctl"),
    ({"linux": {"net_devices": {"a": {"name": "b"}}}}, "linux.netDevices"),
    ({"linux": {"rdt": {"clos_id": {"value": "a"}}}}, "linux.intelRdt"),
    ({"linux": {"memory_policy": {"flags": []}}}, "linux.memoryPolicy"),
]


def refused(adjusted: dict[str, Any], runtime: str) -> str:
    """The place of what is refused, empty if all is taken."""
    try:
        refuse_unknown(ParseDict(adjusted, api.ContainerAdjustment()), (0, 12, 3), runtime)
    except NotAdjustable as error:
        return error.place
    return ""


def test_variables_and_plain_mounts_are_taken_and_all_else_is_refused_on_docker_alone() -> None:
    assert refused(TAKEN, "docker") == ""
    for adjusted, place in REFUSED:
        assert (refused(TAKEN | adjusted, "containerd"), refused(TAKEN | adjusted, "docker")) == ("", place)


def test_every_field_of_an_adjustment_is_here() -> None:
    messages = (api.ContainerAdjustment, api.LinuxContainerAdjustment)
    there = {field.name for message in messages for field in message.DESCRIPTOR.fields}
    given = set(TAKEN) | {name for adjusted, _ in REFUSED for name in (*adjusted, *adjusted.get("linux", {}))}
    assert given == there
