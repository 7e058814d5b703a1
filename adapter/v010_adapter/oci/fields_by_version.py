"""Refuses changes that a runtime would not make: some need a newer NRI; Docker takes only variables and plain mounts.

Older runtimes drop such a change silently, or crash; tests/peers/test_oci_oracle.py runs each row against the versions
of NRI. Docker fails the container, or loses the change. Source: moby, daemon/internal/nri/nri.go of Docker 29,
checkForUnsupportedAdjustments and applyMounts.
"""

from __future__ import annotations

from nri.needs import Change, changes, unmet
from nri.proto import nri_pb2 as api
from v010_adapter.errors import NotAdjustable
from v010_adapter.oci.limits import element

_TAKEN_BY_DOCKER = {"env", "mounts"}
_MOUNT_OPTIONS = {"ro", "readonly"}


def refuse_unknown(adjustment: api.ContainerAdjustment, nri: tuple[int, ...], runtime: str = "") -> None:
    """Raises NotAdjustable for a change that a runtime with this version of NRI drops, or that crashes it.

    `runtime` is the runtime's name in lower case.
    """
    if runtime == "docker":
        _refuse_for_docker(adjustment)
    for change, need in unmet(adjustment, nri):
        versions = f"needs NRI {_text(need.version)}, the runtime has {_text(nri)}"
        raise NotAdjustable(_place(change), f"{versions}: {need.before}")


def _place(change: Change) -> str:
    return element(change.place, change.key) if change.key else change.place


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _refuse_for_docker(adjustment: api.ContainerAdjustment) -> None:
    for change in changes(adjustment):
        if change.name not in _TAKEN_BY_DOCKER:
            raise NotAdjustable(_place(change), "Docker takes no changes but variables and mounts")
    for mount in adjustment.mounts:
        place = element("mounts", mount.destination.removeprefix("-"))
        if mount.destination.startswith("-"):
            raise NotAdjustable(place, "Docker takes the removal of a mount as a new mount")
        for option in mount.options:
            if option not in _MOUNT_OPTIONS:
                raise NotAdjustable(f"{place}.options", f"Docker takes no options but ro and readonly: {option}")
