"""What is refused, each with its place and the row of the table that says why."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from nri.needs import NOT_REMOVABLE
from nri.proto import nri_pb2 as api
from v010_adapter.errors import NotAdjustable
from v010_adapter.oci import limits
from v010_adapter.oci.fields_by_version import refuse_unknown
from v010_adapter.oci.spec import adjustment, resources_to

from .cases import ABSENT, CPU, FULL, HOOK, LIMITS, MOUNT, RESOURCES, Path, covers, edited

MEMORY, PAGES = (*RESOURCES, "memory"), (*RESOURCES, "hugepageLimits")
INT64 = "out of the range -9223372036854775808 to 9223372036854775807"
REPEATED = "the name occurs more than once and runtimes change only the first element"
SWAPPED = {"limit": 5, "swap": 6, "disableOOMKiller": False}
# fmt: off
REFUSED: list[tuple[Path, Any, str, str]] = [
    (("process", "user", "uid"), 0, "process.user", limits.NOWHERE),
    ((*CPU, "burst"), 1, "linux.resources.cpu.burst", limits.NOWHERE),
    (("mounts", 3), MOUNT | {"uidMappings": [{"size": 1}]}, "mounts[/new].uidMappings", limits.NOWHERE),
    (("hooks", "precreate"), [HOOK], "hooks.precreate", limits.NOWHERE),
    (("root", "readonly"), True, "root.readonly", limits.NOWHERE),
    (("linux", "Seccomp"), {"defaultAction": "A"}, "linux.Seccomp", limits.NOWHERE),
    (("a\n\x1b",), 1, "a\\n\\x1b", limits.NOWHERE),
    (("",), 1, '""', limits.NOWHERE),
    (("annotations", "-b"), "", "annotations[-b]", "NRI takes a name with a leading - as a removal"),
    (("process", "env", 3), "-A=1", "process.env[-A]", "NRI takes a name with a leading - as a removal"),
    (("mounts", 3), {"destination": "-/a"}, "mounts[-/a]", "NRI takes a name with a leading - as a removal"),
    (("process", "env", 3), "PATH=/a", "process.env[PATH]", REPEATED),
    ((*PAGES, 1), {"pageSize": "2MB", "limit": 1}, "linux.resources.hugepageLimits[2MB]", REPEATED),
    (("process", "env", 1), ABSENT, "process.env[HOME]", "NRI does not forward its removal"),
    (("process", "env", 3), "A", "process.env[A]", "runtimes drop such an entry"),
    (("process", "env", 3), "=a", "process.env[]", "runtimes drop such an entry"),
    (("process", "env", 3), 101 * "A", f"process.env[{100 * 'A'}]", "runtimes drop such an entry"),
    (("process", "args"), [], "process.args", "runtimes take no arguments as no change"),
    (("hooks", "createRuntime", 0, "path"), "/a", "hooks.createRuntime", "NRI can only append hooks"),
    (("process", "rlimits"), [], "process.rlimits[RLIMIT_NOFILE]", "NRI has no removal of rlimits"),
    (("linux", "devices"), None, "linux.devices[/dev/a]", "NRI does not forward its removal"),
    (("linux", "namespaces", 2), {"type": "time"}, "linux.namespaces[time]",
     "runtimes fail a container with an adjusted namespace of that type"),
    (("linux", "seccomp", "defaultErrnoRet"), 2, "linux.seccomp.defaultErrnoRet",
     "runtimes drop it from an adjusted policy"),
    (MEMORY, SWAPPED, "linux.resources.memory.swap", "runtimes change only the limit of memory"),
    ((*MEMORY, "limit"), 0, "linux.resources.memory.limit", limits.ZERO),
    ((*RESOURCES, "pids", "limit"), -1, "linux.resources.pids.limit", "runtimes take a limit below 0 as no change"),
    ((*RESOURCES, "devices", 0, "allow"), True, "linux.resources.devices", "NRI can only append rules"),
    (("process", "oomScoreAdj"), None, "process.oomScoreAdj", NOT_REMOVABLE),
    ((*CPU, "quota"), ABSENT, "linux.resources.cpu.quota", NOT_REMOVABLE),
    ((*RESOURCES, "pids"), None, "linux.resources.pids.limit", NOT_REMOVABLE),
    ((*RESOURCES, "unified"), {}, "linux.resources.unified[memory.high]", NOT_REMOVABLE),
]
ILL_TYPED: list[tuple[Path, Any, str, str]] = [
    (("process",), "a", "process", "a string instead of an object"),
    (CPU, [1], "linux.resources.cpu", "an array instead of an object"),
    (("mounts",), {}, "mounts", "an object instead of an array"),
    (("hooks", "poststop"), [{"args": ["a"]}], "hooks.poststop[0].path", "null instead of a string"),
    (("mounts", 1, "options"), [1], "mounts[/data].options[0]", "a number instead of a string"),
    (("annotations", "a"), None, "annotations[a]", "null instead of a string"),
    (("process", "oomScoreAdj"), True, "process.oomScoreAdj", "a boolean instead of a number"),
    ((*RESOURCES, "devices", 2), {"allow": 1}, "linux.resources.devices[2].allow", "a number instead of a boolean"),
    ((*CPU, "shares"), float("nan"), "linux.resources.cpu.shares", "not an integer"),
    ((*CPU, "shares"), -1, "linux.resources.cpu.shares", "out of the range 0 to 18446744073709551615"),
    ((*MEMORY, "limit"), 1 << 63, "linux.resources.memory.limit", INT64),
    (("process", "oomScoreAdj"), 10**5000, "process.oomScoreAdj", INT64),
    (("process", "scheduler", "nice"), 1 << 31, "process.scheduler.nice", "out of the range -2147483648 to 2147483647"),
    (("process", "scheduler", "policy"), "SCHED_NONE", "process.scheduler.policy", "an unknown word"),  # NRI's word
    (("process", "env", 3), "A=\0", "process.env[A]", "a NUL character"),
    (("process", "env", 3), 1, "process.env[3]", "a number instead of a string"),
    (("annotations", "c"), "\ud800", "annotations[c]", "a lone surrogate"),
    (("annotations", "\0"), "x", "annotations[\\x00]", "a NUL character"),
    (("mounts", 3), {"destination": "/\ud800"}, "mounts[/\\ud800].destination", "a lone surrogate"),
    (("linux", "seccomp", "syscalls", 0, "names"), "read", "linux.seccomp.syscalls[0].names",
     "a string instead of an array"),
]
# fmt: on


def refusal(after: Any) -> NotAdjustable:
    with pytest.raises(NotAdjustable) as refused:
        adjustment(FULL, after)
    return refused.value


def test_what_cannot_be_expressed_is_refused_by_name_and_every_row_of_the_table_is_shown() -> None:
    rows = REFUSED + [(path, value, place, f"a wrong value: {text}") for path, value, place, text in ILL_TYPED]
    shown = set()
    for path, value, place, reason in rows:
        refused = refusal(edited(path, value))
        assert (refused.place, refused.reason) == (place, reason), path
        shown |= {limit for limit in LIMITS if covers(limit, refused)}
    nothing: list[Any] = [None, [], "a", 1]
    for one in nothing:
        assert str(refusal(one)).startswith("spec: a wrong value")
    only_in_updates = {limit for limit in LIMITS if limit[1].startswith("in updates: ")}
    assert (len(only_in_updates), shown) == (1, set(LIMITS) - only_in_updates)


UPDATES: list[tuple[dict[str, Any], str, str]] = [
    ({"pids": {"limit": 5}}, "pids", limits.UPDATE),
    ({"devices": [{"allow": True}]}, "devices", limits.UPDATE),
    ({"cpu": {"realtimeRuntime": 5}}, "cpu.realtimeRuntime", limits.UPDATE),
    ({"cpu": {"realtimePeriod": 5}}, "cpu.realtimePeriod", limits.UPDATE),
    ({"memory": {"limit": 5, "swap": 5}}, "memory.swap", limits.UPDATE),
    ({"memory": {"swap": 5}}, "memory.swap", "runtimes change only the limit of memory"),
    *(({part: {name: 0}}, f"{part}.{name}", limits.ZERO) for part, name in (("cpu", "quota"), ("memory", "limit"))),
    ({"blockIO": {"weight": 5}}, "blockIO", limits.NOWHERE),
]


def test_what_updates_lose_is_refused_by_name() -> None:
    for after, place, why in UPDATES:
        with pytest.raises(NotAdjustable) as refused:
            resources_to({}, after)
        assert (refused.value.place, refused.value.reason) == (f"linux.resources.{place}", why)
    with pytest.raises(NotAdjustable, match=r"^linux\.resources: a wrong value: a string instead"):
        resources_to({}, "a")  # type: ignore[arg-type]


def refused(adjusted: dict[str, Any], version: str, runtime: str = "containerd") -> str:
    """Why a runtime's version of NRI does not take an adjustment, empty if it does."""
    numbers = tuple(map(int, version.split(".")))
    try:
        refuse_unknown(ParseDict(adjusted, api.ContainerAdjustment()), numbers, runtime)
    except NotAdjustable as error:
        return str(error)
    return ""


ERRNO = {"names": ["read"], "action": "SCMP_ACT_ERRNO", "errnoRet": {"value": 1}}
NEW: list[tuple[dict[str, Any], str, str, str]] = [  # tests/peers/test_oci_oracle.py shows that they are true
    ({"args": ["x"]}, "0.9.1", "0.10.0", "process.args"),
    ({"linux": {"seccompPolicy": {"syscalls": [ERRNO]}}}, "0.11.0", "0.12.0", "linux.seccomp.syscalls[0].errnoRet"),
    ({"linux": {"sysctl": {"-net.a": "", "b": "c"}}}, "0.12.2", "0.12.3", "linux.sysctl[net.a]"),
]


def test_a_change_is_refused_where_the_runtime_is_too_old_and_taken_where_it_is_not() -> None:
    for adjusted, older, needed, place in NEW:
        assert [refused(adjusted, version) for version in (needed, "0.13.0")] == ["", ""]
        assert refused(adjusted, older).startswith(f"{place}: needs NRI {needed}, the runtime has {older}: "), place
    said = "linux.sysctl: needs NRI 0.12.0, the runtime has 0.11.0: NRI 0.11 crashes, older runtimes drop it"
    assert refused({"linux": {"sysctl": {"a": "1"}}}, "0.11.0") == said, "the version that it would end"


TAKEN_BY_DOCKER: dict[str, Any] = {
    "env": [{"key": "-A"}, {"key": "A", "value": "1"}],
    "mounts": [{"destination": "/a", "options": ["ro"]}, {"destination": "/b", "options": ["readonly"]}],
}
REFUSED_BY_DOCKER: list[tuple[dict[str, Any], str]] = [
    ({"mounts": [{"destination": "-/a"}]}, "mounts[/a]"),
    ({"mounts": [{"destination": "/a", "options": ["ro", "rbind"]}]}, "mounts[/a].options"),
    ({"annotations": {"a": "b"}}, "annotations"),
    ({"args": ["", "a"]}, "process.args"),
    ({"hooks": {"prestart": [{"path": "/a"}]}}, "hooks"),
    ({"rlimits": [{"type": "RLIMIT_NOFILE"}]}, "process.rlimits"),
    ({"CDI_devices": [{"name": "a"}]}, "adjust.CDI_devices"),
    ({"linux": {"devices": [{"path": "/dev/a"}]}}, "linux.devices"),
    ({"linux": {"resources": {"rdt_class": {"value": "a"}}}}, "linux.resources"),
    ({"linux": {"cgroups_path": "/a"}}, "linux.cgroupsPath"),
    ({"linux": {"oom_score_adj": {"value": 1}}}, "process.oomScoreAdj"),
    ({"linux": {"io_priority": {"priority": 1}}}, "process.ioPriority"),
    ({"linux": {"scheduler": {"nice": 1}}}, "process.scheduler"),
    ({"linux": {"seccomp_policy": {"default_action": "a"}}}, "linux.seccomp"),
    ({"linux": {"namespaces": [{"type": "pid"}]}}, "linux.namespaces"),
    ({"linux": {"sysctl": {"a": "b"}}}, "linux.sysctl"),
    ({"linux": {"net_devices": {"a": {"name": "b"}}}}, "linux.netDevices"),
    ({"linux": {"rdt": {"clos_id": {"value": "a"}}}}, "linux.intelRdt"),
    ({"linux": {"memory_policy": {"flags": []}}}, "linux.memoryPolicy"),
]


def test_variables_and_plain_mounts_are_taken_and_all_else_is_refused_on_docker_alone() -> None:
    assert refused(TAKEN_BY_DOCKER, "0.12.3", "docker") == ""
    for adjusted, place in REFUSED_BY_DOCKER:
        assert refused(TAKEN_BY_DOCKER | adjusted, "0.12.3") == ""
        assert refused(TAKEN_BY_DOCKER | adjusted, "0.12.3", "docker").startswith(f"{place}: ")
    there = {field.name for kind in (api.ContainerAdjustment, api.LinuxContainerAdjustment)
             for field in kind.DESCRIPTOR.fields}  # fmt: skip
    given = {name for adjusted, _ in REFUSED_BY_DOCKER for name in (*adjusted, *adjusted.get("linux", {}))}
    assert given | set(TAKEN_BY_DOCKER) == there


@pytest.mark.parametrize("after", [["A=2", "B=1", "A=1"], ["A=1", "B=1", "A=1", "A=2"], ["B=1", "A=2"]])
def test_values_of_a_variable_that_change_places_are_refused(after: list[str]) -> None:
    with pytest.raises(NotAdjustable) as refused:
        adjustment({"process": {"env": ["A=1", "B=1", "A=2"]}}, {"process": {"env": after}})
    assert str(refused.value) == f"process.env[A]: {REPEATED}"
