"""Edits of a specification one by one: the adjustment each becomes, or why it cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from adapter.errors import NotAdjustable
from adapter.oci.spec import adjustment, apply
from adapter.oci.values import Spec
from adapter.proto import nri_pb2 as api

from .cases import ABSENT, FULL, Path, edited, normal

LINUX = ("linux",)
RESOURCES = ("linux", "resources")
MOUNT = {"destination": "/new", "type": "bind", "source": "/srv", "options": ["ro"]}
HOOK = {"path": "/bin/b", "args": ["b"], "timeout": 3}
SYSCALL = {"names": ["read"], "action": "SCMP_ACT_LOG", "errnoRet": 0}

# fmt: off
EXPRESSED: dict[str, tuple[Path, Any, dict[str, Any]]] = {"an annotation added": (("annotations", "c"), "x",
    {"annotations": {"c": "x"}}), "an annotation changed": (("annotations", "a"), "2", {"annotations": {"a": "2"}}),
    "an annotation removed": (("annotations", "a"), ABSENT, {"annotations": {"-a": ""}}),
    "an annotation removed whose name has a mark": (("annotations", "-marked"), ABSENT,
    {"annotations": {"--marked": ""}}),
    "all annotations removed": (("annotations",), None,
    {"annotations": {"-a": "", "-example.com/b": "", "--marked": ""}}),
    "arguments": (("process", "args"), ["a", ""], {"args": ["", "a", ""]}),
    "a first argument that is empty": (("process", "args"), ["", "a"], {"args": ["", "", "a"]}),
    "a variable added": (("process", "env", 3), "NEW=a=b", {"env": [{"key": "NEW", "value": "a=b"}]}),
    "a variable changed": (("process", "env", 0), "PATH=", {"env": [{"key": "-PATH"}, {"key": "PATH"}]}),
    "an rlimit changed": (("process", "rlimits", 0, "soft"), 1,
    {"rlimits": [{"type": "RLIMIT_NOFILE", "hard": "1024", "soft": "1"}]}),
    "an OOM score": (("process", "oomScoreAdj"), -5, {"linux": {"oomScoreAdj": {"value": "-5"}}}),
    "an OOM score of 0": (("process", "oomScoreAdj"), 0, {"linux": {"oomScoreAdj": {}}}),
    "a scheduler": (("process", "scheduler"), {"policy": "SCHED_FIFO", "priority": 1, "flags": ["SCHED_FLAG_RECLAIM"]},
    {"linux": {"scheduler": {"policy": "SCHED_FIFO", "priority": 1, "flags": ["SCHED_FLAG_RECLAIM"]}}}),
    "no scheduler": (("process", "scheduler"), ABSENT, {"linux": {"scheduler": {}}}),
    "an I/O priority": (("process", "ioPriority", "priority"), 0,
    {"linux": {"ioPriority": {"class": "IOPRIO_CLASS_BE"}}}),
    "no I/O priority": (("process", "ioPriority"), {}, {"linux": {"ioPriority": {}}}),
    "a mount added": (("mounts", 3), MOUNT, {"mounts": [MOUNT]}),
    "a mount that hides others where it stands": (("mounts", 3), {"destination": "/"},
    {"mounts": [{"destination": "/"}]}),
    "a mount changed": (("mounts", 1, "options"), [],
    {"mounts": [{"destination": "-/data"}, {"destination": "/data", "type": "bind", "source": "/srv"}]}),
    "a mount removed": (("mounts", 0), ABSENT, {"mounts": [{"destination": "-/proc"}]}),
    "a hook appended": (("hooks", "createRuntime", 1), HOOK,
    {"hooks": {"createRuntime": [{"path": "/bin/b", "args": ["b"], "timeout": {"value": "3"}}]}}),
    "a hook of another stage": (("hooks", "poststop"), [{"path": "/b", "env": ["A=1"]}],
    {"hooks": {"poststop": [{"path": "/b", "env": ["A=1"]}]}}),
    "a sysctl changed": (("linux", "sysctl", "net.core.somaxconn"), "1",
    {"linux": {"sysctl": {"net.core.somaxconn": "1"}}}),
    "a sysctl removed": (("linux", "sysctl"), None, {"linux": {"sysctl": {"-net.core.somaxconn": ""}}}),
    "a network device changed": (("linux", "netDevices", "eth0"), {"name": "a"},
    {"linux": {"netDevices": {"eth0": {"name": "a"}}}}),
    "a network device removed": (("linux", "netDevices", "eth2"), ABSENT, {"linux": {"netDevices": {"-eth2": {}}}}),
    "a cgroup": (("linux", "cgroupsPath"), "/b", {"linux": {"cgroupsPath": "/b"}}),
    "a namespace's path": (("linux", "namespaces", 0, "path"), "/a",
    {"linux": {"namespaces": [{"type": "pid", "path": "/a"}]}}),
    "a namespace removed": (("linux", "namespaces", 1), ABSENT, {"linux": {"namespaces": [{"type": "-network"}]}}),
    "a device added": (("linux", "devices", 1), {"path": "/dev/b", "type": "b", "major": 8, "minor": 0, "fileMode": 0},
    {"linux": {"devices": [{"path": "/dev/b", "type": "b", "major": "8", "fileMode": {}}]}}),
    "a device changed": (("linux", "devices", 0), {"path": "/dev/a", "type": "c", "minor": 4, "uid": 1},
    {"linux": {"devices": [{"path": "-/dev/a"}, {"path": "/dev/a", "type": "c", "minor": "4", "uid": {"value": 1}}]}}),
    "a seccomp policy": (("linux", "seccomp"),
    {"defaultAction": "SCMP_ACT_ALLOW", "defaultErrnoRet": 1, "syscalls": [SYSCALL]},
    {"linux": {"seccompPolicy": {"defaultAction": "SCMP_ACT_ALLOW", "defaultErrno": {"value": 1},
    "syscalls": [{"names": ["read"], "action": "SCMP_ACT_LOG", "errnoRet": {}}]}}}),
    "RDT changed": (("linux", "intelRdt"), {"closID": "gold", "l3CacheSchema": ""},
    {"linux": {"rdt": {"remove": True, "closId": {"value": "gold"}, "schemata": {}, "enableMonitoring": {}}}}),
    "RDT removed": (("linux", "intelRdt"), ABSENT, {"linux": {"rdt": {"remove": True}}}),
    "a memory policy": (("linux", "memoryPolicy"),
    {"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_RELATIVE_NODES"]},
    {"linux": {"memoryPolicy": {"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_RELATIVE_NODES"]}}}),
    "a memory limit": ((*RESOURCES, "memory", "limit"), 5,
    {"linux": {"resources": {"memory": {"limit": {"value": "5"}}}}}),
    "no memory limit": ((*RESOURCES, "memory", "limit"), -1,
    {"linux": {"resources": {"memory": {"limit": {"value": "-1"}}}}}),
    "a memory limit with the swap it brings": ((*RESOURCES, "memory"),
    {"limit": 5, "swap": 5, "disableOOMKiller": False},
    {"linux": {"resources": {"memory": {"limit": {"value": "5"}, "swap": {"value": "5"}}}}}),
    "CPU shares": ((*RESOURCES, "cpu", "shares"), 0, {"linux": {"resources": {"cpu": {"shares": {}}}}}),
    "CPU numbers": ((*RESOURCES, "cpu"),
    {"shares": 512, "quota": -1, "period": 1, "realtimeRuntime": 2, "realtimePeriod": 3, "cpus": "2", "mems": "0"},
    {"linux": {"resources": {"cpu": {"quota": {"value": "-1"}, "period": {"value": "1"},
    "realtimeRuntime": {"value": "2"}, "realtimePeriod": {"value": "3"}, "cpus": "2", "mems": "0"}}}}),
    "pids": ((*RESOURCES, "pids", "limit"), 0, {"linux": {"resources": {"pids": {}}}}),
    "huge pages": ((*RESOURCES, "hugepageLimits", 1), {"pageSize": "1GB", "limit": 1},
    {"linux": {"resources": {"hugepageLimits": [{"pageSize": "1GB", "limit": "1"}]}}}),
    "a unified resource": ((*RESOURCES, "unified", "memory.high"), "",
    {"linux": {"resources": {"unified": {"memory.high": ""}}}}),
    "a device rule": ((*RESOURCES, "devices", 2), {"allow": True, "minor": 0},
    {"linux": {"resources": {"devices": [{"allow": True, "minor": {}}]}}})}
SILENT: dict[str, tuple[Path, Any]] = {"variables in another order": (("process", "env"),
    ["EMPTY=", "HOME=/", "PATH=/bin"]),
    "mounts in another order": (("mounts",), [FULL["mounts"][1], FULL["mounts"][0], FULL["mounts"][2]]),
    "namespaces in another order": (("linux", "namespaces"), FULL["linux"]["namespaces"][::-1]),
    "empty lists": (("mounts", 2, "options"), []), "null": (("linux", "memoryPolicy"), None),
    "what Go writes unasked": (("ociVersion",), ""), "Go's empty working directory": (("process", "cwd"), ""),
    "a zero that says the same": (("process", "scheduler", "priority"), 0),
    "nulls in a list that nobody knows": (("process", "capabilities"), {"ambient": [None]}),
    "a null of a user": (("process", "user", "umask"), None),
    "an unknown key without a value": (("linux", "seccomp", "unknown"), [])}
# fmt: on


def test_an_edit_becomes_an_adjustment_that_gives_it() -> None:
    for what, (path, value, expected) in EXPRESSED.items():
        wanted = edited(path, value)
        difference = adjustment(FULL, wanted)
        assert difference == ParseDict(expected, api.ContainerAdjustment()), what
        assert normal(apply(FULL, difference)) == normal(wanted), what


def test_what_says_the_same_is_no_difference() -> None:
    for what, (path, value) in SILENT.items():
        assert edited(path, value) != FULL, what
        assert adjustment(FULL, edited(path, value)) == api.ContainerAdjustment(), what


def test_what_is_empty_adds_nothing_where_nothing_was() -> None:
    hollow: Spec = {
        "process": {
            "args": [],
            "env": [],
            "rlimits": [],
            "scheduler": {"policy": ""},
            "ioPriority": {},
            "oomScoreAdj": None,
        },
        "mounts": [],
        "hooks": {"prestart": None, "poststop": []},
        "annotations": {},
        "root": {"path": ""},
        "linux": {
            "cgroupsPath": "",
            "seccomp": {"defaultAction": ""},
            "memoryPolicy": {"mode": "", "nodes": ""},
            "intelRdt": {"closID": "", "schemata": [], "enableMonitoring": False, "memBwSchema": ""},
            "netDevices": {},
            "resources": {"memory": {}, "cpu": {"cpus": "", "burst": None}, "pids": {}, "devices": None, "blockIO": {}},
        },
    }
    assert adjustment({}, hollow) == adjustment(hollow, {}) == api.ContainerAdjustment()


def test_go_programs_may_write_a_user_of_zeros_where_the_runtime_tells_none() -> None:
    before: Spec = {"process": {"args": ["a"]}}
    for more in ({}, {"additionalGids": None}):
        assert not adjustment(before, {"process": {"args": ["a"], "user": {"uid": 0, "gid": 0, **more}}}).ByteSize()
    with pytest.raises(NotAdjustable, match=r"^process\.user: "):
        adjustment(before, {"process": {"args": ["a"], "user": {"uid": 0, "gid": 1}}})


@pytest.mark.parametrize(
    ("before", "wanted"),
    [(["PATH=/a", "B=1", "PATH=/b"], ["PATH=/a", "B=2", "PATH=/b"]), (["A"], ["A=1"])],
    ids=["one that stands there twice does not hinder others", "a bare one may get a value"],
)
def test_a_variable_is_changed(before: list[str], wanted: list[str]) -> None:
    specs: tuple[Spec, Spec] = {"process": {"env": before}}, {"process": {"env": wanted}}
    assert apply(specs[0], adjustment(*specs)) == specs[1]


def test_a_mount_that_hides_another_may_go_but_not_move() -> None:
    before: Spec = {"mounts": [{"destination": "/a/b"}, {"destination": "/a"}]}
    wanted: Spec = {"mounts": [{"destination": "/a/b"}]}
    assert apply(before, adjustment(before, wanted)) == wanted
    with pytest.raises(NotAdjustable, match=r"^mounts\[/a\]: "):
        adjustment(before, {"mounts": before["mounts"][::-1]})


def test_what_is_kept_may_stand_where_nothing_can_be_added() -> None:
    before: Spec = {"mounts": [{"destination": "-a"}], "process": {"env": ["-A=1"]}, "hostname": "a"}
    wanted = before | {"annotations": {"a": "1"}}
    assert adjustment(before, wanted) == api.ContainerAdjustment(annotations={"a": "1"})


def test_no_limit_is_no_limit_though_a_tool_with_floats_has_had_the_spec() -> None:
    """jq up to 1.6 prints 2^64-1 like this."""
    unlimited = {"process": {"rlimits": [{"type": "RLIMIT_CORE", "hard": 2**64 - 1, "soft": 2**64 - 1}]}}
    through_jq = {"process": {"rlimits": [{"type": "RLIMIT_CORE", "hard": 18446744073709552000, "soft": 2**64 - 1}]}}
    assert not adjustment(unlimited, through_jq).ByteSize()
    through_jq["process"]["rlimits"][0]["soft"] = 5
    [limit] = adjustment(unlimited, through_jq).rlimits
    assert (limit.hard, limit.soft) == (2**64 - 1, 5)
    for beyond in (2**65, 10**400):
        through_jq["process"]["rlimits"][0]["hard"] = beyond
        with pytest.raises(NotAdjustable, match="out of the range"):
            adjustment(unlimited, through_jq)
