"""Where the container that a runtime makes of an adjustment differs from the specification that `apply` returns.

Each row has a place, and what runtimes do there.
"""

from __future__ import annotations

DEVIATIONS = (
    ("annotations",
        "one both removed and set is gone at times, so are sysctls and network devices: their order is random"),
    ("annotations", "NRI before 0.12.3 takes the removal of a sysctl for that of an annotation"),
    ("linux.sysctl", "NRI before 0.12.3 does not forward the removal of a sysctl"),
    ("process.env", "with any change, entries without `=` or without a name are lost"),
    ("process.env", "with any change, a variable that stands there twice has its first place and last value"),
    ("process.env", "of a variable that stands there twice the first is changed, and the last is in force"),
    ("process.env", "NRI does not forward the removal of a variable"),
    ("process.rlimits", "a changed limit is appended and its old one stays; the last is in force"),
    ("mounts", "with any change, all are sorted: by depth, then by destination"),
    ("linux.rootfsPropagation",
        "becomes `rshared` or `rslave` with a mount that has that option; its source has to be shared on the host"),
    ("linux.devices", "NRI does not forward the removal of a device"),
    ("linux.devices", "a changed device moves to the end"),
    ("linux.devices", "of a device that stands there twice, a change replaces both"),
    ("linux.resources.devices", "for each new or changed device a rule is appended that allows it"),
    ("linux.resources.memory.swap", "becomes what `limit` is set to"),
    ("linux.resources.memory", "all but `limit` is ignored without a word"),
    ("linux.seccomp", "`defaultErrnoRet` is dropped from an adjusted policy"),
    ("linux.intelRdt", "`remove` together with other values does not clear what these do not name"),
)  # fmt: skip
"""The documentation shows the table, and the tests against the Go generator know these differences and no others."""
