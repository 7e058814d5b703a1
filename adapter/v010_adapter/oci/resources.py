"""NRI's resources as the OCI runtime specification writes them. Each event's request needs this small module."""

from __future__ import annotations

from nri.proto import nri_pb2 as api
from v010_adapter.oci.shapes import shape, write

RULE = shape(api.LinuxDeviceCgroup, always=("allow",))
MEMORY = shape(api.LinuxMemory)
CPU = shape(api.LinuxCPU)
PIDS = shape(api.LinuxPids, always=("limit",))
HUGEPAGE = shape(api.HugepageLimit, "pageSize", always=("limit",))


def resources_from(resources: api.LinuxResources) -> dict[str, object]:
    """Returns NRI's resources as the OCI runtime specification writes them, in the order of its Go type.

    Unlike upstream's ToOCI (pkg/api/resources.go), it omits the parts that the runtime did not fill. Classes of block
    I/O and RDT have no place in a specification.
    """
    oci: dict[str, object] = {}
    if resources.devices:
        oci["devices"] = [write(RULE, rule) for rule in resources.devices]
    if resources.HasField("memory"):
        oci["memory"] = write(MEMORY, resources.memory)
    if resources.HasField("cpu"):
        oci["cpu"] = write(CPU, resources.cpu)
    if resources.HasField("pids"):
        # ToOCI omits an unlimited number.
        oci["pids"] = write(PIDS, resources.pids) if resources.pids.limit >= 0 else {}
    if resources.hugepage_limits:
        oci["hugepageLimits"] = [write(HUGEPAGE, limit) for limit in resources.hugepage_limits]
    if resources.unified:
        oci["unified"] = dict(sorted(resources.unified.items()))
    return oci
