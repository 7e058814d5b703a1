"""Resources that plugins ask for, put on top of those that a container has or is to get.

Source: containerd/nri pkg/adaptation/result.go: adjustMemoryResource, adjustCPUResource, adjustResources and
updateResources.
"""

from __future__ import annotations

from typing import Any

from adapter.nri import api
from adapter.runtime.merge.owners import Owners

MEMORY = {
    "limit": api.MemLimit,
    "reservation": api.MemReservation,
    "swap": api.MemSwapLimit,
    "kernel": api.MemKernelLimit,
    "kernel_tcp": api.MemTCPLimit,
    "swappiness": api.MemSwappiness,
    "disable_oom_killer": api.MemDisableOomKiller,
    "use_hierarchy": api.MemUseHierarchy,
}
CPU = {
    "shares": api.CPUShares,
    "quota": api.CPUQuota,
    "period": api.CPUPeriod,
    "realtime_runtime": api.CPURealtimeRuntime,
    "realtime_period": api.CPURealtimePeriod,
    "cpus": api.CPUSetCPUs,
    "mems": api.CPUSetMems,
}
CLASSES = {"blockio_class": api.BlockioClass, "rdt_class": api.RdtClass}


def claim(owners: Owners, id_: str, plugin: str, wanted: api.LinuxResources) -> None:
    """Claims all that adjustments and updates both can set of a container. Raises Conflict."""
    for fields, message in ((MEMORY, wanted.memory), (CPU, wanted.cpu)):
        for field, _ in message.ListFields():
            owners.claim(id_, fields[field.name], plugin)
    for limit in wanted.hugepage_limits:
        owners.claim(id_, api.HugepageLimits, plugin, limit.page_size)
    for key in sorted(wanted.unified):
        owners.claim(id_, api.CgroupsUnified, plugin, key)
    for name, number in CLASSES.items():
        if wanted.HasField(name):  # type: ignore[arg-type]  # the names of two of its fields
            owners.claim(id_, number, plugin)


def add(target: api.LinuxResources, wanted: api.LinuxResources) -> None:
    """Puts what `claim` has claimed on top of the target; limits of huge pages are appended."""
    for into, message in ((target.memory, wanted.memory), (target.cpu, wanted.cpu)):
        for field, value in message.ListFields():
            put(into, field.name, value)
    target.hugepage_limits.extend(wanted.hugepage_limits)
    target.unified.update(wanted.unified)
    for field, value in wanted.ListFields():
        if field.name in CLASSES:
            put(target, field.name, value)


def put(target: Any, name: str, value: Any) -> None:
    """Sets a field, replacing what is there and not merging with it: an optional 0 overrides a 1."""
    if isinstance(value, str):
        setattr(target, name, value)
    else:
        getattr(target, name).CopyFrom(value)
