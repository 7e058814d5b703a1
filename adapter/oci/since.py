"""Fields of an adjustment that not every runtime knows: what it does not know, it drops without a word. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from adapter.errors import NotAdjustable
from adapter.proto import nri_pb2 as api


class Since(NamedTuple):
    """The version of NRI that brought a field, and what it is in an OCI specification."""

    version: tuple[int, ...]
    place: str


SINCE: Mapping[str, Since] = MappingProxyType(
    {
        "args": Since((0, 10, 0), "process.args"),
        "io_priority": Since((0, 10, 0), "process.ioPriority"),
        "seccomp_policy": Since((0, 10, 0), "linux.seccomp"),
        "namespaces": Since((0, 10, 0), "linux.namespaces"),
        "sysctl": Since((0, 11, 0), "linux.sysctl"),
        "net_devices": Since((0, 11, 0), "linux.netDevices"),
        "scheduler": Since((0, 11, 0), "process.scheduler"),
        "rdt": Since((0, 11, 0), "linux.intelRdt"),
        "memory_policy": Since((0, 12, 0), "linux.memoryPolicy"),
    }
)
"""By the field's name in ContainerAdjustment or in its `linux`; all others are known to NRI 0.8. Source: api.proto."""


SYSCTL_REMOVED = (0, 12, 5)
"""Before, the removal of a sysctl is taken for that of an annotation: pkg/adaptation/result.go, adjustSysctl."""


def refuse_unknown(adjustment: api.ContainerAdjustment, nri: tuple[int, ...]) -> None:
    """Raises NotAdjustable for what a runtime with this version of NRI does not know."""
    for field, _ in (*adjustment.ListFields(), *adjustment.linux.ListFields()):
        since = SINCE.get(field.name)
        if since is not None:
            _need(since.version, nri, since.place)
    for name in adjustment.linux.sysctl:
        if name.startswith("-"):
            _need(SYSCTL_REMOVED, nri, f"linux.sysctl[{name[1:]}]")


def _need(version: tuple[int, ...], nri: tuple[int, ...], place: str) -> None:
    if version > nri:
        has, needs = (".".join(map(str, numbers)) for numbers in (nri, version))
        raise NotAdjustable(place, f"the runtime has NRI {has}, which does not know it; {needs} does")
