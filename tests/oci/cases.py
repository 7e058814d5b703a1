"""A specification to change, and what specifications say whatever their form."""

from __future__ import annotations

import copy
import itertools
import json
import re
from typing import Any, TypeAlias

from adapter.errors import NotAdjustable
from adapter.oci.limits import Limit
from adapter.oci.values import Spec

FULL: Spec = {
    "process": {
        "user": {"uid": 1000, "gid": 1000, "additionalGids": [5]},
        "args": ["/bin/sh", "-c", "true"],
        "env": ["PATH=/bin", "HOME=/", "EMPTY="],
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 512}],
        "oomScoreAdj": 3,
        "scheduler": {"policy": "SCHED_BATCH", "nice": 5},
        "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 4},
    },
    "mounts": [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid"]},
        {"destination": "/data", "type": "bind", "source": "/srv", "options": ["rbind", "ro"]},
        {"destination": "/data/sub", "type": "bind", "source": "/srv/sub"},
    ],
    "hooks": {"createRuntime": [{"path": "/bin/hook", "args": ["hook", "a"], "env": ["A=1"], "timeout": 0}]},
    "annotations": {"a": "1", "example.com/b": "", "-marked": "x"},
    "linux": {
        "sysctl": {"net.core.somaxconn": "128"},
        "resources": {
            "devices": [{"allow": False, "access": "rwm"}, {"allow": True, "type": "c", "major": 1, "minor": 0}],
            "memory": {"limit": 1 << 26, "swap": 1 << 26, "disableOOMKiller": False},
            "cpu": {"shares": 512, "quota": 0, "cpus": "0-1"},
            "pids": {"limit": 100},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 0}],
            "unified": {"memory.high": "1"},
        },
        "cgroupsPath": "/pods/a",
        "namespaces": [{"type": "pid"}, {"type": "network", "path": "/run/netns/a"}],
        "devices": [{"path": "/dev/a", "type": "c", "major": 1, "minor": 3, "fileMode": 438, "uid": 0, "gid": 0}],
        "netDevices": {"eth0": {"name": "eth1"}, "eth2": {}},
        "seccomp": {
            "defaultAction": "SCMP_ACT_ERRNO",
            "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [
                {"names": ["read"], "action": "SCMP_ACT_ALLOW"},
                {
                    "names": ["clone"],
                    "action": "SCMP_ACT_ERRNO",
                    "errnoRet": 0,
                    "args": [{"index": 0, "value": 1, "op": "SCMP_CMP_MASKED_EQ"}],
                },
            ],
        },
        "intelRdt": {"closID": "gold", "schemata": ["L3:0=f"], "enableMonitoring": True},
    },
}
"""Everything that NRI tells of a container, as Go's encoder writes it."""

ABSENT = object()
Path: TypeAlias = tuple[str | int, ...]


def edited(path: Path, value: Any, spec: Spec = FULL) -> Spec:
    """Returns a copy with one place set; ABSENT takes it away, an index behind the end appends."""
    result = copy.deepcopy(spec)
    target: Any = result
    for key, following in itertools.pairwise(path):
        if isinstance(target, dict):
            target.setdefault(key, [] if isinstance(following, int) else {})
        target = target[key]
    last = path[-1]
    if value is ABSENT:
        del target[last]
    elif isinstance(target, list) and last == len(target):
        target.append(value)
    else:
        target[last] = value
    return result


def copied(value: Any) -> Any:
    return copy.deepcopy(value)


def as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


# What absent means where Go has a pointer.
POINTERS = {
    "limit",
    "swap",
    "reservation",
    "kernel",
    "kernelTCP",
    "swappiness",
    "disableOOMKiller",
    "useHierarchy",
    "shares",
    "quota",
    "period",
    "realtimeRuntime",
    "realtimePeriod",
    "oomScoreAdj",
    "timeout",
    "fileMode",
    "uid",
    "gid",
    "major",
    "minor",
    "errnoRet",
    "defaultErrnoRet",
}
"""Members for which 0 is not the same as absence."""
NAMED = {
    "mounts": "destination",
    "rlimits": "type",
    "namespaces": "type",
    "devices": "path",
    "hugepageLimits": "pageSize",
}
MAPS = {("", "annotations"), ("linux", "sysctl"), ("linux", "netDevices"), ("resources", "unified")}
ZERO: dict[str, Spec] = {
    "mounts": {"destination": ""},
    "devices": {"path": "", "major": 0, "minor": 0},
    "namespaces": {"type": ""},
    "rlimits": {"type": ""},
    "hugepageLimits": {"pageSize": "", "limit": 0},
}


def normal(value: Any, key: str = "", parent: str = "") -> Any:
    """Returns what a specification says: without what is empty, with lists whose order means nothing sorted."""
    if isinstance(value, dict):
        members = {name: normal(member, name, key) for name, member in value.items()}
        whatever = (parent, key) in MAPS
        return {name: member for name, member in members.items() if whatever or _says(name, member, key)}
    if isinstance(value, list):
        if all(element is None for element in value):
            return []  # nulls say nothing
        elements = [normal(_filled(key, v) if _by_name(key, parent, v) else v, "[]", key) for v in value]
        if key == "env" or (elements and all(_by_name(key, parent, v) for v in value)):
            return sorted(elements, key=as_text)
        return elements
    return value


def _filled(key: str, element: Spec) -> Spec:
    return ZERO.get(key, {}) | {name: member for name, member in element.items() if member is not None}


def _by_name(key: str, parent: str, value: Any) -> bool:
    return key in NAMED and isinstance(value, dict) and not (key == "devices" and parent == "resources")


def _says(name: str, value: Any, parent: str) -> bool:
    return value not in (None, "", [], {}) and (bool(value) or (name in POINTERS and parent != "scheduler"))


def covers(limit: Limit, error: NotAdjustable) -> bool:
    """Whether a refusal is one of this row's."""
    pattern = re.escape(limit.place).replace(r"\[NAME\]", r"\[.*\]").replace(r"\*", ".*")
    return bool(re.fullmatch(pattern, error.place, re.DOTALL)) and error.reason.split(": ")[0] == limit.why
