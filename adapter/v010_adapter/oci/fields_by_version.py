"""The changes that a runtime does not make: older ones need a newer NRI, Docker takes variables and plain mounts only.

Older runtimes drop such a change silently, or crash; tests/peers/test_oci_oracle.py runs each row against the versions
of NRI. Docker fails the container, or loses the change. Source: moby, daemon/internal/nri/nri.go of Docker 29,
checkForUnsupportedAdjustments and applyMounts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nri.proto import nri_pb2 as api
from v010_adapter.errors import NotAdjustable
from v010_adapter.oci.limits import element


class Need(NamedTuple):
    """A change, the version of NRI that the change needs, and what older runtimes do."""

    change: str
    """A name that `changes` yields."""
    version: tuple[int, ...]
    before: str = "older runtimes drop it"


_RULE, _ERROR_NUMBER, _REMOVED_SYSCTL = "a device rule", "an errnoRet", "a removed sysctl"
NEEDS = (
    Need("args", (0, 10, 0)),
    Need("io_priority", (0, 10, 0)),
    Need("scheduler", (0, 11, 0)),
    Need("namespaces", (0, 10, 0)),
    Need("net_devices", (0, 11, 0)),
    Need("rdt", (0, 11, 0)),
    Need("memory_policy", (0, 12, 0)),
    Need(_RULE, (0, 10, 0)),
    Need(_ERROR_NUMBER, (0, 12, 0), "NRI 0.10 and 0.11 crash, older runtimes drop it"),
    Need("seccomp_policy", (0, 10, 0)),
    Need(_REMOVED_SYSCTL, (0, 12, 3), "older runtimes drop it, or remove an annotation of that name"),
    Need("sysctl", (0, 12, 0), "NRI 0.11 crashes, older runtimes drop it"),
)
"""Of rows for the same field, the newest version comes first. NRI 0.8 knows all other parts.

Source: api.proto, pkg/adaptation/result.go and pkg/api/seccomp.go there.
"""
_TAKEN_BY_DOCKER = {"env", "mounts"}
_MOUNT_OPTIONS = {"ro", "readonly"}
_PLACES = {
    "args": "process.args",
    "rlimits": "process.rlimits",
    "CDI_devices": "adjust.CDI_devices",
    "oom_score_adj": "process.oomScoreAdj",
    "io_priority": "process.ioPriority",
    "scheduler": "process.scheduler",
    "seccomp_policy": "linux.seccomp",
    "rdt": "linux.intelRdt",
}
"""The places in the specification of the fields whose names differ there."""


def changes(adjustment: api.ContainerAdjustment) -> Iterator[tuple[str, str]]:
    """Yields the name of each changed field, or of a special change, with its place in the specification."""
    for field, _ in adjustment.ListFields():
        if field.name != "linux":
            yield field.name, _PLACES.get(field.name, field.name)
    linux = adjustment.linux
    for field, _ in linux.ListFields():
        yield field.name, _PLACES.get(field.name, f"linux.{field.json_name}")
    if linux.resources.devices:
        yield _RULE, "linux.resources.devices"
    for number, syscall in enumerate(linux.seccomp_policy.syscalls):
        if syscall.HasField("errno_ret"):
            yield _ERROR_NUMBER, f"linux.seccomp.syscalls[{number}].errnoRet"
    for name in linux.sysctl:
        if name.startswith("-"):
            yield _REMOVED_SYSCTL, element("linux.sysctl", name[1:])


def refuse_unknown(adjustment: api.ContainerAdjustment, nri: tuple[int, ...], runtime: str = "") -> None:
    """Raises NotAdjustable for a change that a runtime with this version of NRI drops, or that crashes it.

    `runtime` is the runtime's name in lower case.
    """
    if runtime == "docker":
        _refuse_for_docker(adjustment)
    for need in NEEDS:
        for change, place in changes(adjustment) if need.version > nri else ():
            if change == need.change:
                versions = f"needs NRI {_text(need.version)}, the runtime has {_text(nri)}"
                raise NotAdjustable(place, f"{versions}: {need.before}")


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _refuse_for_docker(adjustment: api.ContainerAdjustment) -> None:
    for change, place in changes(adjustment):
        if change not in _TAKEN_BY_DOCKER:
            raise NotAdjustable(place, "Docker takes no changes but variables and mounts")
    for mount in adjustment.mounts:
        place = element("mounts", mount.destination.removeprefix("-"))
        if mount.destination.startswith("-"):
            raise NotAdjustable(place, "Docker takes the removal of a mount as a new mount")
        for option in mount.options:
            if option not in _MOUNT_OPTIONS:
                raise NotAdjustable(f"{place}.options", f"Docker takes no options but ro and readonly: {option}")
