"""A specification to change, and what specifications say whatever their form."""

from __future__ import annotations

import copy
import itertools
import json
import pathlib
import re
from typing import Any, TypeAlias

from v010_adapter.errors import NotAdjustable
from v010_adapter.oci.values import Spec

COMPARED_WITH_1 = {"index": 0, "value": 1, "op": "SCMP_CMP_MASKED_EQ"}
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
                {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 0, "args": [COMPARED_WITH_1]},
            ],
        },
        "intelRdt": {"closID": "gold", "schemata": ["L3:0=f"], "enableMonitoring": True},
    },
}
"""Everything that NRI tells of a container, as Go's encoder writes it."""

ABSENT = object()
Path: TypeAlias = tuple[str | int, ...]


def edited(path: Path, value: Any, spec: Spec = FULL) -> Spec:
    """Returns a copy with one place set; see `put`."""
    result = copy.deepcopy(spec)
    put(result, path, value)
    return result


def put(spec: Spec, path: Path, value: Any) -> None:
    """Sets one place; ABSENT takes it away, an index behind the end appends. Raises what `[]` raises."""
    target: Any = spec
    for key, following in itertools.pairwise(path):
        if isinstance(target, dict) and isinstance(key, str):
            target.setdefault(key, [] if isinstance(following, int) else {})
        target = target[key]
    last = path[-1]
    if isinstance(target, dict) and isinstance(last, int):
        raise KeyError(last)
    if value is ABSENT:
        del target[last]
    elif isinstance(target, list) and last == len(target):
        target.append(copied(value))
    else:
        target[last] = copied(value)


def copied(value: Any) -> Any:
    return copy.deepcopy(value)


def as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


POINTERS = {
    *("limit", "swap", "reservation", "kernel", "kernelTCP", "swappiness", "disableOOMKiller", "useHierarchy"),
    *("shares", "quota", "period", "realtimeRuntime", "realtimePeriod", "oomScoreAdj", "timeout", "fileMode", "uid"),
    *("gid", "major", "minor", "errnoRet", "defaultErrnoRet"),
}
"""Members for which 0 is not the same as absence: where Go has a pointer."""
NAMED = {
    **{"mounts": "destination", "rlimits": "type", "namespaces": "type", "devices": "path"},
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


_MOST = (1 << 64) - 1


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
    # "No limit", which a tool has rounded up.
    return _MOST if type(value) is int and _MOST < value < 1 << 65 and float(value) == float(_MOST) else value


def _filled(key: str, element: Spec) -> Spec:
    return ZERO.get(key, {}) | {name: member for name, member in element.items() if member is not None}


def _by_name(key: str, parent: str, value: Any) -> bool:
    return key in NAMED and isinstance(value, dict) and not (key == "devices" and parent == "resources")


def _says(name: str, value: Any, parent: str) -> bool:
    return value not in (None, "", [], {}) and (bool(value) or (name in POINTERS and parent != "scheduler"))


PAGE = (pathlib.Path(__file__).parents[2] / "docs/adjusting-containers.md").read_text()
TABLE = PAGE.partition("| place in the spec | refused | because |")[2].partition("\n\n")[0].splitlines()[2:]
LIMITS = [tuple(map(str.strip, row.strip("|").split("|"))) for row in TABLE]
"""The place, the change and the reason in each row of the page's table of changes that are refused."""


def covers(limit: tuple[str, ...], error: NotAdjustable) -> bool:
    """Whether a refusal is one of this row's."""
    place, _, because = limit
    pattern = re.escape(place.strip("`")).replace(r"\[NAME\]", r"\[.*\]").replace(r"\*", ".*")
    return bool(re.fullmatch(pattern, error.place, re.DOTALL)) and error.reason.split(": ")[0] == because


def must_have_a_row(error: NotAdjustable) -> None:
    """Asserts that a refusal is one of some row of the table."""
    assert any(covers(limit, error) for limit in LIMITS), error


LINUX, RESOURCES, CPU = ("linux",), ("linux", "resources"), ("linux", "resources", "cpu")
MOUNT = {"destination": "/new", "type": "bind", "source": "/srv", "options": ["ro"]}
HOOK = {"path": "/bin/b", "args": ["b"], "env": ["A=1"], "timeout": 3}
POLICY = {"defaultAction": "SCMP_ACT_LOG", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]}
COMPARED = {"index": 1, "value": 2, "valueTwo": 3, "op": "SCMP_CMP_MASKED_EQ"}
WHOLE_POLICY = {
    **{"defaultAction": "SCMP_ACT_NOTIFY", "architectures": ["SCMP_ARCH_X86"], "flags": ["SECCOMP_FILTER_FLAG_LOG"]},
    **{"listenerPath": "/a", "listenerMetadata": "b"},
    "syscalls": [{"names": ["read"], "action": "SCMP_ACT_LOG", "args": [COMPARED]}],
}
SYSCALL = {"names": ["read"], "action": "SCMP_ACT_LOG", "errnoRet": 0}
NODES = {"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_RELATIVE_NODES"]}
BLOCK = {"path": "/dev/b", "type": "b", "major": 8, "minor": 0, "fileMode": 0}
FIFO = {"policy": "SCHED_FIFO", "priority": 1, "flags": ["SCHED_FLAG_RECLAIM"]}
DEADLINE = {"policy": "SCHED_DEADLINE", "nice": 1, "priority": 2, "runtime": 3, "deadline": 4, "period": 5}
REAL_TIME = {"period": 1, "realtimeRuntime": 2, "realtimePeriod": 3}
CHANGES: list[tuple[Path, Any]] = [
    (("annotations", "c"), "x"),
    (("annotations", "a"), "2"),
    (("annotations", "a"), ABSENT),
    (("annotations", "-marked"), ABSENT),
    (("annotations",), None),
    (("process", "args"), ["a", ""]),
    (("process", "args"), ["", "a"]),
    (("process", "env", 3), "NEW=a=b"),
    (("process", "env", 0), "PATH="),
    (("process", "rlimits", 0, "soft"), 1),
    (("process", "oomScoreAdj"), -5),
    (("process", "oomScoreAdj"), 0),
    (("process", "scheduler"), FIFO),
    (("process", "scheduler"), DEADLINE),
    (("process", "scheduler"), ABSENT),
    (("process", "ioPriority"), {"class": "IOPRIO_CLASS_BE", "priority": 0}),
    (("process", "ioPriority"), {"class": "IOPRIO_CLASS_RT", "priority": 1}),
    (("process", "ioPriority"), {}),
    (("mounts", 3), MOUNT),
    (("mounts", 3), {"destination": "/"}),  # it hides others where it stands
    (("mounts", 1, "options"), []),
    (("mounts", 0), ABSENT),
    *((("hooks", "createRuntime", 1), hook) for hook in (HOOK, {"path": "/a", "env": ["A=1"]})),
    *(
        (("hooks", stage), [HOOK])
        for stage in ("prestart", "createContainer", "startContainer", "poststart", "poststop")
    ),
    ((*LINUX, "sysctl", "net.core.somaxconn"), "1"),
    ((*LINUX, "sysctl", "kernel.msgmax"), "1"),
    ((*LINUX, "sysctl"), None),
    ((*LINUX, "netDevices", "eth0"), {"name": "a"}),
    ((*LINUX, "netDevices", "eth2"), ABSENT),
    ((*LINUX, "cgroupsPath"), "/b"),
    ((*LINUX, "namespaces", 0, "path"), "/a"),
    ((*LINUX, "namespaces", 1), ABSENT),
    ((*LINUX, "devices", 1), BLOCK),
    (
        (*LINUX, "devices", 1),
        {"path": "/dev/b", "type": "c", "major": 1, "minor": 2, "fileMode": 3, "uid": 4, "gid": 5},
    ),
    ((*LINUX, "devices", 0), {"path": "/dev/a", "type": "c", "minor": 4, "uid": 1}),
    ((*LINUX, "seccomp"), {"defaultAction": "SCMP_ACT_ALLOW", "defaultErrnoRet": 1, "syscalls": [SYSCALL]}),
    ((*LINUX, "seccomp"), POLICY),
    ((*LINUX, "seccomp"), WHOLE_POLICY),
    ((*LINUX, "intelRdt"), {"closID": "gold", "l3CacheSchema": ""}),
    ((*LINUX, "intelRdt"), {"closID": "b", "schemata": ["L3:0=1"], "enableMonitoring": False}),
    ((*LINUX, "intelRdt"), ABSENT),
    ((*LINUX, "memoryPolicy"), NODES),
    ((*RESOURCES, "memory", "limit"), 5),
    ((*RESOURCES, "memory", "limit"), -1),
    ((*RESOURCES, "memory"), {"limit": 5, "swap": 5, "disableOOMKiller": False}),  # the limit brings swap
    ((*CPU, "shares"), 0),
    (CPU, {"shares": 512, "quota": -1, **REAL_TIME, "cpus": "2", "mems": "0"}),
    ((*RESOURCES, "pids", "limit"), 0),
    ((*RESOURCES, "pids", "limit"), 1),
    ((*RESOURCES, "hugepageLimits", 1), {"pageSize": "1GB", "limit": 1}),
    ((*RESOURCES, "unified", "memory.high"), ""),
    ((*RESOURCES, "devices", 2), {"allow": True, "minor": 0}),
    ((*RESOURCES, "devices", 2), {"allow": True, "type": "c", "major": 1, "minor": 2, "access": "rw"}),
]
"""Changes of FULL that an adjustment can express: each place, with every part that it can have."""
