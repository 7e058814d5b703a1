"""The changes that a runtime does not make: older ones need a newer NRI, Docker takes variables and plain mounts only.

Older runtimes drop such a change silently, or crash; tests/peers/test_oci_oracle.py runs each row against the versions
of NRI. Docker fails the container, or loses the change. Source: moby, daemon/internal/nri/nri.go of Docker 29,
checkForUnsupportedAdjustments and applyMounts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from adapter.errors import NotAdjustable
from adapter.oci.limits import element
from adapter.proto import nri_pb2 as api

Places = Callable[[api.ContainerAdjustment], Iterator[str]]


class Need(NamedTuple):
    """A change, the version of NRI that the change needs, and what older runtimes do."""

    place: str
    change: str
    version: tuple[int, ...]
    before: str
    places: Places
    """Yields the places at which an adjustment has the change."""


_DROPPED = "older runtimes drop it"


def _any(place: str, version: tuple[int, ...], name: str, before: str = _DROPPED) -> Need:
    """Returns the row for any change of one field of the adjustment, or of its `linux`."""

    def places(adjustment: api.ContainerAdjustment) -> Iterator[str]:
        for field, _ in (*adjustment.ListFields(), *adjustment.linux.ListFields()):
            if field.name == name:
                yield place

    return Need(place, "any", version, before, places)


def _rules(adjustment: api.ContainerAdjustment) -> Iterator[str]:
    if adjustment.linux.resources.devices:
        yield "linux.resources.devices"


def _error_numbers(adjustment: api.ContainerAdjustment) -> Iterator[str]:
    for number, syscall in enumerate(adjustment.linux.seccomp_policy.syscalls):
        if syscall.HasField("errno_ret"):
            yield f"linux.seccomp.syscalls[{number}].errnoRet"


def _removed_sysctls(adjustment: api.ContainerAdjustment) -> Iterator[str]:
    for name in adjustment.linux.sysctl:
        if name.startswith("-"):
            yield element("linux.sysctl", name[1:])


NEEDS = (
    _any("process.args", (0, 10, 0), "args"),
    _any("process.ioPriority", (0, 10, 0), "io_priority"),
    _any("process.scheduler", (0, 11, 0), "scheduler"),
    _any("linux.namespaces", (0, 10, 0), "namespaces"),
    _any("linux.netDevices", (0, 11, 0), "net_devices"),
    _any("linux.intelRdt", (0, 11, 0), "rdt"),
    _any("linux.memoryPolicy", (0, 12, 0), "memory_policy"),
    Need("linux.resources.devices", "any", (0, 10, 0), _DROPPED, _rules),
    Need(
        "linux.seccomp",
        "a policy with an `errnoRet`",
        (0, 12, 0),
        "NRI 0.10 and 0.11 crash, older runtimes drop it",
        _error_numbers,
    ),
    _any("linux.seccomp", (0, 10, 0), "seccomp_policy"),
    Need(
        "linux.sysctl",
        "removing a sysctl",
        (0, 12, 3),
        "older runtimes drop it, or remove an annotation of that name",
        _removed_sysctls,
    ),
    _any("linux.sysctl", (0, 12, 0), "sysctl", "NRI 0.11 crashes, older runtimes drop it"),
)
"""Of rows with the same place, the newest version comes first. NRI 0.8 knows all other parts.

Source: api.proto, pkg/adaptation/result.go and pkg/api/seccomp.go there.
"""


_ONLY = "Docker takes no changes but variables and mounts"
_TAKEN = {"env", "mounts", "linux"}
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


def refuse_unknown(adjustment: api.ContainerAdjustment, nri: tuple[int, ...], runtime: str = "") -> None:
    """Raises NotAdjustable for a change that a runtime with this version of NRI drops, or that crashes it.

    `runtime` is the runtime's name in lower case.
    """
    if runtime == "docker":
        _refuse_for_docker(adjustment)
    for need in NEEDS:
        if need.version > nri:
            for place in need.places(adjustment):
                versions = f"needs NRI {_text(need.version)}, the runtime has {_text(nri)}"
                raise NotAdjustable(place, f"{versions}: {need.before}")


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _refuse_for_docker(adjustment: api.ContainerAdjustment) -> None:
    """Raises NotAdjustable for a change that Docker does not make."""
    for field, _ in adjustment.ListFields():
        if field.name not in _TAKEN:
            raise NotAdjustable(_PLACES.get(field.name, field.name), _ONLY)
    for field, _ in adjustment.linux.ListFields():
        raise NotAdjustable(_PLACES.get(field.name, f"linux.{field.json_name}"), _ONLY)
    for mount in adjustment.mounts:
        place = element("mounts", mount.destination.removeprefix("-"))
        if mount.destination.startswith("-"):
            raise NotAdjustable(place, "Docker takes the removal of a mount as a new mount")
        for option in mount.options:
            if option not in _MOUNT_OPTIONS:
                raise NotAdjustable(f"{place}.options", f"Docker takes no options but ro and readonly: {option}")
