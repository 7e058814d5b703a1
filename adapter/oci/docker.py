"""Docker Engine accepts only variables and plain mounts in an adjustment. Others fail the container or are lost.

Source: moby, daemon/internal/nri/nri.go of Docker 29, checkForUnsupportedAdjustments and applyMounts.
"""

from __future__ import annotations

from adapter.errors import NotAdjustable
from adapter.oci.limits import element
from adapter.proto import nri_pb2 as api

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


def refuse(adjustment: api.ContainerAdjustment) -> None:
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
