"""Where the container that a runtime makes of an adjustment differs from the specification that `apply` returns."""

from __future__ import annotations

from typing import NamedTuple


class Deviation(NamedTuple):
    """A difference between what an adjustment asks for and what a runtime makes of it."""

    place: str
    what: str


DEVIATIONS = (
    Deviation("annotations",
        "one both removed and set is gone at times, so are sysctls and network devices: their order is random"),
    Deviation("annotations", "NRI before 0.12.3 takes the removal of a sysctl for that of an annotation"),
    Deviation("linux.sysctl", "NRI before 0.12.3 does not forward the removal of a sysctl"),
    Deviation("process.env", "with any change, entries without `=` or without a name are lost"),
    Deviation("process.env", "with any change, a variable that stands there twice has its first place and last value"),
    Deviation("process.env", "of a variable that stands there twice the first is changed, and the last is in force"),
    Deviation("process.env", "NRI does not forward the removal of a variable"),
    Deviation("process.rlimits", "a changed limit is appended and its old one stays; the last is in force"),
    Deviation("mounts", "with any change, all are sorted: by depth, then by destination"),
    Deviation("linux.rootfsPropagation",
        "becomes `rshared` or `rslave` with a mount that has that option; its source has to be shared on the host"),
    Deviation("linux.devices", "NRI does not forward the removal of a device"),
    Deviation("linux.devices", "a changed device moves to the end"),
    Deviation("linux.devices", "of a device that stands there twice, a change replaces both"),
    Deviation("linux.resources.devices", "for each new or changed device a rule is appended that allows it"),
    Deviation("linux.resources.memory.swap", "becomes what `limit` is set to"),
    Deviation("linux.resources.memory", "all but `limit` is ignored without a word"),
    Deviation("linux.seccomp", "`defaultErrnoRet` is dropped from an adjusted policy"),
    Deviation("linux.intelRdt", "`remove` together with other values does not clear what these do not name"),
)  # fmt: skip
"""The documentation shows the table, and the tests against the Go generator know these differences and no others."""
