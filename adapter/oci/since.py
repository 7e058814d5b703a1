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


def refuse_unknown(adjustment: api.ContainerAdjustment, nri: tuple[int, ...]) -> None:
    """Raises NotAdjustable for a field that a runtime with this version of NRI does not know."""
    for field, _ in (*adjustment.ListFields(), *adjustment.linux.ListFields()):
        since = SINCE.get(field.name)
        if since is not None and since.version > nri:
            has, needs = (".".join(map(str, version)) for version in (nri, since.version))
            raise NotAdjustable(since.place, f"the runtime has NRI {has}, which does not know it; {needs} does")
