"""Merges the resources that plugins set into those of a container.

Source: containerd/nri pkg/adaptation/result.go, adjustMemoryResource, adjustCPUResource, adjustResources,
updateResources.
"""

from __future__ import annotations

from typing import Any

from adapter.nri import api
from adapter.runtime.merge.owners import Claims

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


def claim(claims: Claims, wanted: api.LinuxResources) -> None:
    """Claims the resources that both adjustments and updates can set. Raises Conflict."""
    for fields, message in ((MEMORY, wanted.memory), (CPU, wanted.cpu)):
        for field, _ in message.ListFields():
            claims.claim(fields[field.name])
    for limit in wanted.hugepage_limits:
        claims.claim(api.HugepageLimits, limit.page_size)
    for key in sorted(wanted.unified):
        claims.claim(api.CgroupsUnified, key)
    for field, _ in wanted.ListFields():
        if field.name in CLASSES:
            claims.claim(CLASSES[field.name])


def add(target: api.LinuxResources, wanted: api.LinuxResources) -> None:
    """Sets the claimed resources in the target. Limits of huge pages are appended."""
    for into, message in ((target.memory, wanted.memory), (target.cpu, wanted.cpu), (target, wanted)):
        for field, value in message.ListFields():
            if message is not wanted or field.name in CLASSES:
                put(into, field.name, value)
    target.hugepage_limits.extend(wanted.hugepage_limits)
    target.unified.update(wanted.unified)


def put(target: Any, name: str, value: Any) -> None:
    """Replaces a field. A message is not merged into the old one, so that an optional 0 overrides a 1."""
    if isinstance(value, str):
        setattr(target, name, value)
    else:
        getattr(target, name).CopyFrom(value)
