"""NRI's resources as the OCI runtime specification writes them. Small, for every event's request is made with it."""

from __future__ import annotations

from collections.abc import Mapping

from adapter.proto import nri_pb2 as api

_MEMORY = {
    "limit": "limit",
    "reservation": "reservation",
    "swap": "swap",
    "kernel": "kernel",
    "kernel_tcp": "kernelTCP",
    "swappiness": "swappiness",
    "disable_oom_killer": "disableOOMKiller",
    "use_hierarchy": "useHierarchy",
}
_CPU = {
    "shares": "shares",
    "quota": "quota",
    "period": "period",
    "realtime_runtime": "realtimeRuntime",
    "realtime_period": "realtimePeriod",
}


def resources_from(resources: api.LinuxResources) -> dict[str, object]:
    """Returns NRI's resources as the OCI runtime specification writes them, in the order of its Go type.

    Unlike upstream's ToOCI (pkg/api/resources.go), a part the runtime did not fill is not there. Classes of block I/O
    and RDT have no place in a specification.
    """
    oci: dict[str, object] = {}
    if resources.devices:
        oci["devices"] = [_device(device) for device in resources.devices]
    if resources.HasField("memory"):
        oci["memory"] = _optionals(resources.memory, _MEMORY)
    if resources.HasField("cpu"):
        cpu = _optionals(resources.cpu, _CPU)
        cpu |= {key: value for key, value in (("cpus", resources.cpu.cpus), ("mems", resources.cpu.mems)) if value}
        oci["cpu"] = cpu
    if resources.HasField("pids"):
        # ToOCI passes on what is not unlimited.
        oci["pids"] = {"limit": resources.pids.limit} if resources.pids.limit >= 0 else {}
    if resources.hugepage_limits:
        oci["hugepageLimits"] = [
            {"pageSize": limit.page_size, "limit": limit.limit} for limit in resources.hugepage_limits
        ]
    if resources.unified:
        oci["unified"] = dict(sorted(resources.unified.items()))
    return oci


def _optionals(message: api.LinuxMemory | api.LinuxCPU, names: Mapping[str, str]) -> dict[str, object]:
    """Returns the wrapped scalars of a message that are there, under their OCI names.

    Their numbers are in the order in which OCI's Go type has them.
    """
    return {names[field.name]: wrapper.value for field, wrapper in message.ListFields() if field.name in names}


def _device(device: api.LinuxDeviceCgroup) -> dict[str, object]:
    oci: dict[str, object] = {"allow": device.allow}
    if device.type:
        oci["type"] = device.type
    if device.HasField("major"):
        oci["major"] = device.major.value
    if device.HasField("minor"):
        oci["minor"] = device.minor.value
    if device.access:
        oci["access"] = device.access
    return oci
