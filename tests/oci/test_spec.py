"""What NRI's data say as an OCI specification, and what becomes of one with adjustments of anybody."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict

from nri.proto import nri_pb2 as api
from v010_adapter.oci import protojson, shapes
from v010_adapter.oci.patch import merged
from v010_adapter.oci.resource_parts import Resources
from v010_adapter.oci.spec import SECCOMP, adjustment, apply, read, spec_from, to_json
from v010_adapter.oci.values import Spec

from ..rig.large import FIELDS, creation
from .cases import FULL, as_text, copied

READ, CLONE = FULL["linux"]["seccomp"]["syscalls"]
CONTAINER: dict[str, Any] = {
    **{"id": "c", "name": "a", "labels": {"a": "1"}},
    **{name: FULL["process"][name] for name in ("args", "env", "user", "rlimits")},
    **{name: FULL[name] for name in ("mounts", "annotations")},
    "hooks": {"createRuntime": [{"path": "/bin/hook", "args": ["hook", "a"], "env": ["A=1"], "timeout": {}}]},
    "CDIDevices": [{"name": "vendor.com/class=a"}],
    "linux": {
        "oomScoreAdj": {"value": 3},
        **{name: FULL["process"][name] for name in ("scheduler", "ioPriority")},
        **{name: FULL["linux"][name] for name in ("sysctl", "cgroupsPath", "namespaces", "netDevices")},
        "devices": [
            {"path": "/dev/a", "type": "c", "major": 1, "minor": 3, "fileMode": {"value": 438}, "uid": {}, "gid": {}}
        ],
        "resources": {
            "devices": [{"access": "rwm"}, {"allow": True, "type": "c", "major": {"value": 1}, "minor": {}}],
            "memory": {"limit": {"value": 1 << 26}, "swap": {"value": 1 << 26}, "disableOomKiller": {}},
            "cpu": {"shares": {"value": 512}, "quota": {}, "cpus": "0-1"},
            **{name: FULL["linux"]["resources"][name] for name in ("pids", "hugepageLimits", "unified")},
            **{"blockioClass": {"value": "slow"}, "rdtClass": {"value": "gold"}},
        },
        "seccompPolicy": FULL["linux"]["seccomp"] | {"syscalls": [READ, CLONE | {"errnoRet": {}}]},
        "rdt": {"closId": {"value": "gold"}, "schemata": {"value": ["L3:0=f"]}, "enableMonitoring": {"value": True}},
    },
}


def told(container: dict[str, Any]) -> Any:
    return spec_from(ParseDict(container, api.Container()))


def test_all_that_nri_tells_is_there_and_nothing_else_with_maps_in_the_order_of_their_names() -> None:
    assert told(CONTAINER) == FULL
    names = [f"key-{number:02}" for number in range(20)]
    container = api.Container(annotations=dict.fromkeys(reversed(names), ""))
    container.linux.sysctl.update(dict.fromkeys(reversed(names), ""))
    spec = spec_from(container)
    assert [*spec["annotations"]] == [*spec["linux"]["sysctl"]] == names


NONE_LIMITED = {"memory": {}, "cpu": {}, "pids": {"limit": 0}}
# Zeros; an empty message; a word of the future; pids without a limit: of these older Go types make a 0.
ODD: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"user": {}, "linux": {"oomScoreAdj": {}, "resources": {"memory": {}, "cpu": {}, "pids": {}}}},
        {"process": {"user": {"uid": 0, "gid": 0}, "oomScoreAdj": 0}, "linux": {"resources": NONE_LIMITED}},
    ),
    ({"linux": {"scheduler": {}, "ioPriority": {}, "rdt": {"enableMonitoring": {}, "schemata": {}, "closId": {}}}}, {}),
    ({"linux": {"scheduler": {"policy": 77}}}, {"process": {"scheduler": {"policy": "77"}}}),
    ({"linux": {"resources": {"cpu": {}, "pids": {"limit": "-1"}}}}, {"linux": {"resources": {"cpu": {}}}}),
]


def test_zeros_are_written_and_what_says_nothing_is_left_out() -> None:
    for container, expected in ODD:
        assert told(container) == expected


def test_every_field_of_a_container_has_its_place_or_none() -> None:
    without = {"id", "pod_sandbox_id", "name", "state", "labels", "pid", "image", "CDI_devices", "exit_code"}
    without |= {"created_at", "started_at", "finished_at", "status_reason", "status_message"}
    given = ParseDict(CONTAINER, api.Container())
    assert {field.name for field, _ in given.ListFields()} | without == set(api.Container.DESCRIPTOR.fields_by_name)
    linux = {field.name for field, _ in given.linux.ListFields()} | {"seccomp_profile"}
    assert linux == set(api.LinuxContainer.DESCRIPTOR.fields_by_name)


MOUNT = {"destination": "/a", "type": "bind"}


def env(*entries: str) -> Spec:
    return {"process": {"env": list(entries)}}


def limits(**resources: Any) -> Spec:
    return {"linux": {"resources": resources}}


# fmt: off
APPLIED: dict[str, tuple[Spec, dict[str, Any], Spec]] = {
    "nothing": (FULL, {}, FULL),
    "an annotation removed and set": ({"annotations": {"a": "1", "b": "2"}},
        {"annotations": {"a": "3", "-a": "", "-b": "", "-c": ""}}, {"annotations": {"a": "3"}}),
    "arguments that nobody has cleared": ({}, {"args": ["a", ""]}, {"process": {"args": ["a", ""]}}),
    "variables in their places": (env("A=1", "B=2", "A=3"),
        {"env": [{"key": "A", "value": "4"}, {"key": "-B"}, {"key": "C"}]}, env("A=4", "C=")),
    "a mount in its place": ({"mounts": [{"destination": "/a", "source": "/s"}, {"destination": "/b"}]},
        {"mounts": [MOUNT]}, {"mounts": [MOUNT, {"destination": "/b"}]}),
    "the first of two mounts": ({"mounts": [{"destination": "/a", "source": "/s"}, MOUNT]},
        {"mounts": [{"destination": "-/a"}]}, {"mounts": [MOUNT]}),
    "words for none": ({"process": {"scheduler": {"policy": "SCHED_FIFO"}, "ioPriority": {"class": "IOPRIO_CLASS_RT"}}},
        {"linux": {"scheduler": {}, "ioPriority": {}}}, {"process": {}}),
    "a memory limit of 0": (limits(memory={"limit": 5}), limits(memory={"limit": {}}), limits(memory={"limit": 5})),
    "memory that runtimes ignore": ({}, limits(memory={"swappiness": {}, "reservation": {"value": "5"}}),
        limits(memory={"reservation": 5, "swappiness": 0})),
    "huge pages": (limits(hugepageLimits=[{"pageSize": "2MB", "limit": 1}]),
        limits(hugepageLimits=[{"pageSize": "1GB", "limit": "5"}, {"pageSize": "2MB"}]),
        limits(hugepageLimits=[{"pageSize": "2MB", "limit": 0}, {"pageSize": "1GB", "limit": 5}])),
    "a part of RDT": ({"linux": {"intelRdt": {"closID": "a", "memBwSchema": "MB"}}},
        {"linux": {"rdt": {"schemata": {"value": ["L3"]}}}},
        {"linux": {"intelRdt": {"closID": "a", "memBwSchema": "MB", "schemata": ["L3"]}}}),
    "null where something comes": (dict.fromkeys(("annotations", "process", "mounts", "linux")),
        {"annotations": {"a": "1"}, "env": [{"key": "A"}], "mounts": [MOUNT], "linux": {"sysctl": {"a": "1"}}},
        {"annotations": {"a": "1"}, **env("A="), "mounts": [MOUNT], "linux": {"sysctl": {"a": "1"}}}),
    "what has no place": ({}, {"CDIDevices": [{"name": "a/b=c"}],
        "linux": {"resources": {"blockioClass": {"value": "a"}, "rdtClass": {}}}}, {}),
}
# fmt: on


def test_an_adjustment_makes_a_new_specification_and_shares_what_it_does_not_touch() -> None:
    for what, (before, adjusted, expected) in APPLIED.items():
        had = as_text(before)
        assert apply(before, ParseDict(adjusted, api.ContainerAdjustment())) == expected, what
        assert as_text(before) == had, what
    spec = copied(FULL)
    applied = apply(spec, api.ContainerAdjustment(annotations={"a": "2"}))
    assert applied is not spec
    assert applied["mounts"] is spec["mounts"]


def test_a_message_is_written_as_protobufs_own_json_module_writes_it() -> None:
    unknown = api.Container(state=99, created_at=1 << 60)  # type: ignore[arg-type]
    messages = [ParseDict(CONTAINER, api.Container()), unknown, *(creation(field, 3000) for field in FIELDS)]
    for message in messages:
        assert json.loads(protojson.to_json(message)) == MessageToDict(message, preserving_proto_field_name=True)


def a_policy(size: int) -> api.LinuxSeccomp:
    return api.LinuxSeccomp(listener_path="x" * (size - 3))


def resources(size: int) -> api.LinuxResources:
    return api.LinuxResources(cpu=api.LinuxCPU(cpus="0" * (size - 6)))


WRITERS: list[tuple[Callable[[Any], str], Callable[[int], Any]]] = [
    (lambda part: shapes.to_json(SECCOMP, part), a_policy),
    (protojson.cached_json, a_policy),
    (Resources().to_json, resources),
]


def test_the_json_of_a_short_part_is_made_once_and_that_of_a_long_one_is_not_kept() -> None:
    """The containers of a node have many of the same parts."""
    for size, is_kept in ((shapes.CACHED_LENGTH, True), (shapes.CACHED_LENGTH + 1, False)):
        for write, make in WRITERS:
            part = make(size)
            assert part.ByteSize() == size
            assert (write(part) is write(part)) is is_kept


PATCHES: list[Spec] = [
    {"process": {"env": ["A=2", "NEW=1"]}},
    {"process": {"rlimits": [{"type": "RLIMIT_CORE", "soft": 0, "hard": 0}], "ioPriority": None}},
    {"linux": {"resources": {"memory": {"limit": 1 << 27}}}, "annotations": {"new": "1"}},
    {"mounts": [{"destination": "/new", "type": "tmpfs", "source": "t"}], "unknown": {}},
    {"hooks": {"poststop": [{"path": "/bin/last"}]}, "process": {"env": ["NEW=2"]}},
    {"linux": {"cgroupsPath": "/new", "sysctl": {"a": "2"}, "namespaces": [{"type": "network", "path": "/a"}]}},
]


def test_edits_of_the_parts_that_patches_name_are_those_of_the_whole_specification() -> None:
    """Each plugin sees the edits before its own, and the answer has the same changes."""
    container = ParseDict(CONTAINER, api.Container())
    before: Spec = {}
    edited: Spec = {}
    texts: dict[str, str] = {}
    whole = original = spec_from(container)
    assert json.loads(to_json(container.ListFields(), texts, before, edited)) == whole
    for number, patch in enumerate(PATCHES):
        read(container, patch, before, edited)
        assert ("mounts" in before) == (number > 2), "what no patch has named is not read"
        edited, whole = merged(edited, patch), merged(whole, patch)
        assert json.loads(to_json(container.ListFields(), texts, before, edited)) == whole
        assert adjustment(before, edited) == adjustment(original, whole)
    read(container, None, before, edited)
    assert before == original
    assert edited == whole
