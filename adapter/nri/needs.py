"""What becomes of adjustments that NRI does not carry, or not in each version. Each fact stands here once.

Some adjustments need a newer NRI than 0.8: older runtimes drop such a change silently, or crash.

Source: api.proto, pkg/adaptation/result.go and pkg/api/seccomp.go of NRI 0.8.0 to 0.12.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nri.proto import nri_pb2 as api
from nri.runtimes import Version

NOT_REMOVABLE = "NRI can change it but not remove it"
NOT_FORWARDED = "NRI does not forward its removal"
"""Of variables and devices. Another value replaces one that is there."""
ONLY_THE_LIMIT = "runtimes change only the limit of memory"
"""They set `swap` to the same number."""


class Need(NamedTuple):
    """A change, the version of NRI that the change needs, and what older runtimes do."""

    change: str
    """A name that `changes` yields."""
    version: Version
    before: str = "older runtimes drop it"
    crashing: tuple[Version, ...] = ()
    """The minor versions of NRI that crash."""

    def crashes(self, nri: Version) -> bool:
        """Whether a runtime with this version of NRI crashes over the change."""
        return nri[:2] in self.crashing


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
    Need(_ERROR_NUMBER, (0, 12, 0), "NRI 0.10 and 0.11 crash, older runtimes drop it", ((0, 10), (0, 11))),
    Need("seccomp_policy", (0, 10, 0)),
    Need(_REMOVED_SYSCTL, (0, 12, 3), "older runtimes drop it, or remove an annotation of that name"),
    Need("sysctl", (0, 12, 0), "NRI 0.11 crashes, older runtimes drop it", ((0, 11),)),
)
"""Of rows for the same field, the newest version comes first. NRI 0.8 knows all other parts."""
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


class Change(NamedTuple):
    """A changed field, or a special change: its name, its place in the specification, and the key in that place."""

    name: str
    place: str
    key: str = ""


def changes(adjustment: api.ContainerAdjustment) -> Iterator[Change]:
    """Yields the changes of an adjustment."""
    for field, _ in adjustment.ListFields():
        if field.name != "linux":
            yield Change(field.name, _PLACES.get(field.name, field.name))
    linux = adjustment.linux
    for field, _ in linux.ListFields():
        yield Change(field.name, _PLACES.get(field.name, f"linux.{field.json_name}"))
    if linux.resources.devices:
        yield Change(_RULE, "linux.resources.devices")
    for number, syscall in enumerate(linux.seccomp_policy.syscalls):
        if syscall.HasField("errno_ret"):
            yield Change(_ERROR_NUMBER, f"linux.seccomp.syscalls[{number}].errnoRet")
    for name in sorted(linux.sysctl):  # a map of protobuf has no order
        if name.startswith("-"):
            yield Change(_REMOVED_SYSCTL, "linux.sysctl", name[1:])


def unmet(adjustment: api.ContainerAdjustment, nri: Version) -> Iterator[tuple[Change, Need]]:
    """Yields the changes that need a newer NRI than this version, in the order of the needs."""
    for need in NEEDS:
        for change in changes(adjustment) if need.version > nri else ():
            if change.name == need.change:
                yield change, need
