"""Edits that are refused, each with its place and the row of the table that says why."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.errors import NotAdjustable
from adapter.oci import limits
from adapter.oci.limits import LIMITS, Limit
from adapter.oci.spec import adjustment

from .cases import ABSENT, FULL, Path, covers, edited

RESOURCES = ("linux", "resources")
MOUNT = {"destination": "/new", "type": "bind", "source": "/srv", "options": ["ro"]}
HOOK = {"path": "/bin/b", "args": ["b"], "timeout": 3}

# fmt: off
REFUSED: dict[str, tuple[Path, Any, str, Limit]] = {"a user": (("process", "user", "uid"), 0, "process.user",
    limits.NOWHERE), "root as user": (("process", "user"), {"uid": 0, "gid": 0}, "process.user", limits.NOWHERE),
    "capabilities": (("process", "capabilities"), {"bounding": ["CAP_A"]}, "process.capabilities", limits.NOWHERE),
    "a terminal": (("process", "terminal"), True, "process.terminal", limits.NOWHERE),
    "a root file system": (("root", "readonly"), False, "root.readonly", limits.NOWHERE),
    "a host name": (("hostname",), "a", "hostname", limits.NOWHERE),
    "block I/O": ((*RESOURCES, "blockIO"), {"weight": 0}, "linux.resources.blockIO", limits.NOWHERE),
    "CPU burst": ((*RESOURCES, "cpu", "burst"), 1, "linux.resources.cpu.burst", limits.NOWHERE),
    "an RDT schema of old": (("linux", "intelRdt", "memBwSchema"), "MB", "linux.intelRdt.memBwSchema", limits.NOWHERE),
    "mapped users of a new mount": (("mounts", 3), MOUNT | {"uidMappings": [{"size": 1}]}, "mounts[/new].uidMappings",
    limits.NOWHERE), "another stage": (("hooks", "precreate"), [HOOK], "hooks.precreate", limits.NOWHERE),
    "a key in other case": (("linux", "Seccomp"), {"defaultAction": "A"}, "linux.Seccomp", limits.NOWHERE),
    "a name that cannot be printed": (("a\n\x1b",), 1, "a\\n\\x1b", limits.NOWHERE),
    "a name inside that cannot be printed": (("linux", "a\n"), 1, "linux.a\\n", limits.NOWHERE),
    "an empty name": (("",), 1, '""', limits.NOWHERE),
    "a marked annotation": (("annotations", "-b"), "", "annotations[-b]", limits.MARKED),
    "a marked variable": (("process", "env", 3), "-A=1", "process.env[-A]", limits.MARKED),
    "a marked mount": (("mounts", 3), {"destination": "-/a"}, "mounts[-/a]", limits.MARKED),
    "a marked device": (("linux", "devices", 1), {"path": "-a"}, "linux.devices[-a]", limits.MARKED),
    "a marked network device": (("linux", "netDevices", "-a"), {}, "linux.netDevices[-a]", limits.MARKED),
    "a variable twice": (("process", "env", 3), "PATH=/a", "process.env[PATH]", limits.REPEATED),
    "a mount twice": (("mounts", 3), {"destination": "/data"}, "mounts[/data]", limits.REPEATED),
    "a hugepage limit twice": ((*RESOURCES, "hugepageLimits", 1), {"pageSize": "2MB", "limit": 1},
    "linux.resources.hugepageLimits[2MB]", limits.REPEATED),
    "a variable gone": (("process", "env", 1), ABSENT, "process.env[HOME]", limits.ENV_REMOVED),
    "a bare variable": (("process", "env", 3), "A", "process.env[A]", limits.ENV_BARE),
    "a variable without a name": (("process", "env", 3), "=a", "process.env[]", limits.ENV_BARE),
    "no arguments": (("process", "args"), [], "process.args", limits.ARGS_EMPTIED),
    "a mount behind one inside it": (("mounts",), FULL["mounts"][::-1], "mounts[/data]", limits.MOUNT_ORDER),
    "a hook changed": (("hooks", "createRuntime", 0, "path"), "/a", "hooks.createRuntime", limits.HOOKS_KEPT),
    "no hooks": (("hooks",), None, "hooks.createRuntime", limits.HOOKS_KEPT),
    "an rlimit gone": (("process", "rlimits"), [], "process.rlimits[RLIMIT_NOFILE]", limits.RLIMIT_KEPT),
    "a device gone": (("linux", "devices"), None, "linux.devices[/dev/a]", limits.DEVICE_KEPT),
    "a time namespace": (("linux", "namespaces", 2), {"type": "time"}, "linux.namespaces[time]", limits.NAMESPACE),
    "an error number": (("linux", "seccomp", "defaultErrnoRet"), 2, "linux.seccomp.defaultErrnoRet",
    limits.SECCOMP_ERRNO), "swap": ((*RESOURCES, "memory", "swap"), 0, "linux.resources.memory.swap", limits.MEMORY),
    "swap other than the limit": ((*RESOURCES, "memory"), {"limit": 5, "swap": 6, "disableOOMKiller": False},
    "linux.resources.memory.swap", limits.MEMORY),
    "swappiness": ((*RESOURCES, "memory", "swappiness"), 0, "linux.resources.memory.swappiness", limits.MEMORY),
    "a limit of 0": ((*RESOURCES, "memory", "limit"), 0, "linux.resources.memory.limit", limits.ZERO),
    "pids below 0": ((*RESOURCES, "pids", "limit"), -1, "linux.resources.pids.limit", limits.PIDS),
    "a rule changed": ((*RESOURCES, "devices", 0, "allow"), True, "linux.resources.devices", limits.RULES_KEPT),
    "an OOM score gone": (("process", "oomScoreAdj"), None, "process.oomScoreAdj", limits.KEPT),
    "a cgroup gone": (("linux", "cgroupsPath"), "", "linux.cgroupsPath", limits.KEPT),
    "seccomp gone": (("linux", "seccomp"), {}, "linux.seccomp", limits.KEPT),
    "a memory limit gone": ((*RESOURCES, "memory", "limit"), None, "linux.resources.memory.limit", limits.KEPT),
    "CPUs gone": ((*RESOURCES, "cpu", "cpus"), "", "linux.resources.cpu.cpus", limits.KEPT),
    "a CPU quota gone": ((*RESOURCES, "cpu", "quota"), ABSENT, "linux.resources.cpu.quota", limits.KEPT),
    "pids gone": ((*RESOURCES, "pids"), None, "linux.resources.pids.limit", limits.KEPT),
    "huge pages gone": ((*RESOURCES, "hugepageLimits"), [], "linux.resources.hugepageLimits[2MB]", limits.KEPT),
    "a unified resource gone": ((*RESOURCES, "unified"), {}, "linux.resources.unified[memory.high]", limits.KEPT)}
ILL_TYPED: dict[str, tuple[Path, Any, str, str]] = {"a text for an object": (("process",), "a", "process",
    "a string instead of an object"),
    "a list for an object": (("linux", "resources", "cpu"), [1], "linux.resources.cpu",
    "an array instead of an object"),
    "an object for a list": (("mounts",), {}, "mounts", "an object instead of an array"),
    "a text for a list": (("process", "env"), "A=1", "process.env", "a string instead of an array"),
    "a number in the environment": (("process", "env", 3), 1, "process.env[3]", "a number instead of a string"),
    "null among the mounts": (("mounts", 3), None, "mounts[3]", "null instead of an object"),
    "a mount whose name is a number": (("mounts", 3), {"destination": 1}, "mounts[3].destination",
    "a number instead of a string"),
    "a mount without a name": (("mounts", 3), {}, "mounts[3].destination", "null instead of a string"),
    "a hook without a path": (("hooks", "poststop"), [{"args": ["a"]}], "hooks.poststop[0].path",
    "null instead of a string"), "huge pages without a size": ((*RESOURCES, "hugepageLimits", 1), {"limit": 1},
    "linux.resources.hugepageLimits[1].pageSize", "null instead of a string"),
    "a list for a cgroup": (("linux", "cgroupsPath"), [], "linux.cgroupsPath", "an array instead of a string"),
    "a text for seccomp": (("linux", "seccomp"), "", "linux.seccomp", "a string instead of an object"),
    "a list for a scheduler": (("process", "scheduler"), [], "process.scheduler", "an array instead of an object"),
    "a list for CPUs": ((*RESOURCES, "cpu", "mems"), [], "linux.resources.cpu.mems", "an array instead of a string"),
    "an empty text for a number": ((*RESOURCES, "cpu", "period"), "", "linux.resources.cpu.period",
    "a string instead of a number"),
    "options that are a text": (("mounts", 1, "options"), "ro", "mounts[/data].options",
    "a string instead of an array"),
    "an option that is a number": (("mounts", 1, "options"), [1], "mounts[/data].options[0]",
    "a number instead of a string"),
    "a number as an annotation": (("annotations", "c"), 1, "annotations[c]", "a number instead of a string"),
    "null as an annotation": (("annotations", "a"), None, "annotations[a]", "null instead of a string"),
    "a text as a limit": ((*RESOURCES, "memory", "limit"), "5M", "linux.resources.memory.limit",
    "a string instead of a number"),
    "a boolean as a number": (("process", "oomScoreAdj"), True, "process.oomScoreAdj", "a boolean instead of a number"),
    "a number as a boolean": ((*RESOURCES, "devices", 2), {"allow": 1}, "linux.resources.devices[2].allow",
    "a number instead of a boolean"),
    "a fraction": ((*RESOURCES, "cpu", "shares"), 5.0, "linux.resources.cpu.shares", "not an integer"),
    "not a number": ((*RESOURCES, "cpu", "shares"), float("nan"), "linux.resources.cpu.shares", "not an integer"),
    "below 0": ((*RESOURCES, "cpu", "shares"), -1, "linux.resources.cpu.shares",
    "out of the range 0 to 18446744073709551615"),
    "beyond 64 bits": ((*RESOURCES, "memory", "limit"), 1 << 63, "linux.resources.memory.limit",
    "out of the range -9223372036854775808 to 9223372036854775807"),
    "a number of thousands of digits": (("process", "oomScoreAdj"), 10**5000, "process.oomScoreAdj",
    "out of the range -9223372036854775808 to 9223372036854775807"),
    "beyond 32 bits": (("process", "scheduler", "nice"), 1 << 31, "process.scheduler.nice",
    "out of the range -2147483648 to 2147483647"),
    "an unknown policy": (("process", "scheduler", "policy"), "SCHED_X", "process.scheduler.policy", "an unknown word"),
    "NRI's word for no policy": (("process", "scheduler", "policy"), "SCHED_NONE", "process.scheduler.policy",
    "an unknown word"), "a scheduler without a policy": (("process", "scheduler"), {"nice": 1},
    "process.scheduler.policy", "null instead of a string"),
    "a flag that is none": (("process", "scheduler", "flags"), ["A"], "process.scheduler.flags[0]", "an unknown word"),
    "a memory policy without a mode": (("linux", "memoryPolicy"), {"nodes": "0"}, "linux.memoryPolicy.mode",
    "null instead of a string"), "NUL in the environment": (("process", "env", 3), "A=\0", "process.env[A]",
    "a NUL character"), "NUL in an argument": (("process", "args", 1), "\0", "process.args[1]", "a NUL character"),
    "a lone surrogate": (("annotations", "c"), "\ud800", "annotations[c]", "a lone surrogate"),
    "a name of a lone surrogate": (("annotations", "\udfff"), "a", "annotations[\\udfff]", "a lone surrogate"),
    "a system call's names": (("linux", "seccomp", "syscalls", 0, "names"), "read", "linux.seccomp.syscalls[0].names",
    "a string instead of an array")}
# fmt: on


def refusal(after: Any) -> NotAdjustable:
    with pytest.raises(NotAdjustable) as refused:
        adjustment(FULL, after)
    return refused.value


def test_what_cannot_be_expressed_is_refused_by_name_and_every_row_of_the_table_is_shown() -> None:
    shown = set()
    for what, (path, value, place, limit) in REFUSED.items():
        refused = refusal(edited(path, value))
        assert (refused.place, refused.reason) == (place, limit.why), what
        shown |= {limit for limit in LIMITS if covers(limit, refused)}
    for what, (path, value, place, text) in ILL_TYPED.items():
        refused = refusal(edited(path, value))
        assert (refused.place, refused.reason) == (place, f"not what belongs there: {text}"), what
        shown |= {limit for limit in LIMITS if covers(limit, refused)}
    nothing: list[Any] = [None, [], "a", 1]
    for one in nothing:
        assert str(refusal(one)).startswith("spec: not what belongs there")
    only_in_updates = {limit for limit in LIMITS if limit.what.startswith("in updates: ")}
    assert (len(only_in_updates), shown) == (1, set(LIMITS) - only_in_updates)
