"""What merge patches make of a specification, and what becomes of its large numbers."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nri.proto import nri_pb2 as api
from v010_adapter.errors import NotAdjustable
from v010_adapter.oci.patch import merged
from v010_adapter.oci.spec import adjustment, apply, resources_to
from v010_adapter.oci.values import Spec

from ..rig.steps import steps
from .cases import FULL, as_text, edited, must_have_a_row
from .edits import ANY, BAD_EDITS, SPECS, Edit, after

thorough = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
RFC_7396 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ({"a": 1}, {"a": {"b": None, "c": 2}}, {"a": {"c": 2}}),
]
DATA = {"destination": "/data", "type": "bind", "source": "/a"}
PROC = {"destination": "/proc"}
NULL = {"path": "/dev/null", "type": "c", "major": 1, "minor": 3}
BIG = (1 << 53) + 1
HOOK, OTHER = {"path": "/a"}, {"path": "/b"}
ENV, ARGS, MOUNTS, POSTSTOP = ("process", "env"), ("process", "args"), ("mounts",), ("hooks", "poststop")
DEVICES, LIMITED, SPACES = ("linux", "devices"), ("process", "rlimits"), ("linux", "namespaces")
SAME_HOOK: Spec = HOOK | {"args": None, "env": [], "timeout": None, "unknown": None}
AS, CORE = ({"type": kind, "hard": hard, "soft": hard} for kind, hard in (("RLIMIT_AS", 2), ("RLIMIT_CORE", 0)))
LISTS: list[tuple[tuple[str, ...], list[Any], list[Any], list[Any]]] = [
    (ENV, ["A=1", "B=2"], ["A=3"], ["A=3", "B=2"]),
    (ENV, ["A=1", "B=2", "A=3"], ["A"], ["B=2"]),  # a bare variable removes
    (ENV, ["A", "B=2"], ["A", "B=2"], ["A", "B=2"]),  # but stays where it stands,
    (ENV, ["A=1"], ["B"], ["A=1"]),  # and does nothing to nothing
    (ENV, ["A=1", "A=2"], ["A=1", "A=3"], ["A=1", "A=3"]),  # a variable twice meets its like
    (ENV, ["A=1", "B=1", "A=3"], ["A", "A=2"], ["A=2", "B=1"]),  # removed and added anew
    (MOUNTS, [PROC, DATA], [{"destination": "/data", "source": "/b", "type": None, "options": ["ro"]}],
        [PROC, {"destination": "/data", "source": "/b", "options": ["ro"]}]),
    (MOUNTS, [PROC], [DATA | {"source": None}], [PROC, {"destination": "/data", "type": "bind"}]),
    (MOUNTS, [PROC, DATA], [{"$patch": "delete", "destination": "/data"}], [PROC]),
    (MOUNTS, [PROC], [DATA, {"$patch": "delete", "destination": "/data"}], [PROC]),
    (MOUNTS, [PROC, DATA], [DATA, PROC], [PROC, DATA]),  # an order is kept
    (DEVICES, [NULL], [{"path": "/dev/null", "minor": 4}], [NULL | {"minor": 4}]),
    (LIMITED, [AS], [{"type": "RLIMIT_AS", "soft": 1}, CORE], [AS | {"soft": 1}, CORE]),
    (SPACES, [{"type": "pid"}, {"type": "user"}], [{"type": "pid", "path": "/a"}, {"type": "user", "$patch": "delete"}],
        [{"type": "pid", "path": "/a"}]),
    (POSTSTOP, [HOOK], [OTHER, HOOK, OTHER], [HOOK, OTHER]),  # hooks are appended where they are not there, once
    (POSTSTOP, [HOOK], [SAME_HOOK], [HOOK]),
    (POSTSTOP, [HOOK | {"timeout": BIG}], [HOOK | {"timeout": BIG - 1}], [HOOK | {"timeout": BIG}]),  # rounded
    (POSTSTOP, [HOOK], [HOOK | {"timeout": 0}], [HOOK, HOOK | {"timeout": 0}]),
    (ARGS, ["a", "b"], ["c"], ["c"]),  # all other lists are replaced
    (("linux", "maskedPaths"), ["/a"], [], []),
]  # fmt: skip
ILL_TYPED: list[tuple[Any, str]] = [
    ("a", "spec: a wrong value: a string instead of an object"),
    ([], "spec: a wrong value: an array instead of an object"),
    (None, "spec: a wrong value: null instead of an object"),
    ({"mounts": {}}, "mounts: a wrong value: an object instead of an array"),
    ({"mounts": [{}]}, "mounts[0].destination: a wrong value: null instead of a string"),
    ({"mounts": [DATA | {"$patch": "replace"}]}, "mounts[0].$patch: a wrong value: an unknown word"),
    ({"process": {"env": ["A=1", 2]}}, "process.env[1]: a wrong value: a number instead of a string"),
    ({"cgroupsPath": "/a", "linux": 1}, "linux: a wrong value: a number instead of an object"),
]


CGROUP: Spec = {"linux": {"cgroupsPath": "/b", "sysctl": {}}}
AT_THE_TOP: list[tuple[Any, Spec]] = [
    ({"cgroupsPath": "/a"}, {"linux": {"cgroupsPath": "/a", "sysctl": {}}}),
    ({"cgroupsPath": None}, {"linux": {"sysctl": {}}}),
    ({"cgroupsPath": "/a", "linux": {"cgroupsPath": "/c"}}, {"linux": {"cgroupsPath": "/c", "sysctl": {}}}),
    ({"cgroupsPath": "/a", "linux": None}, {"linux": {"cgroupsPath": "/a", "sysctl": {}}}),
]


def test_objects_merge_as_rfc_7396_has_it_and_the_cgroup_at_the_top_is_that_of_linux() -> None:
    rows: list[tuple[Any, Any, Any]] = [*RFC_7396, *((CGROUP, *row) for row in AT_THE_TOP)]
    for spec, patch, expected in rows:
        texts = as_text(spec), as_text(patch)
        assert merged(spec, patch) == expected, patch
        assert (as_text(spec), as_text(patch)) == texts, "neither is changed"
    assert merged(FULL, {"mounts": None}).get("mounts") is None


def test_lists_merge_by_names() -> None:
    for path, before, patch, expected in LISTS:

        def at(value: Any, path: tuple[str, ...] = path) -> Spec:
            return {path[0]: at(value, path[1:])} if path else value

        assert merged(at(before), at(patch)) == at(expected), (before, patch)
        assert merged(at(None), at(patch)) == merged({}, at(patch)), (before, patch)


def test_what_cannot_be_merged_is_refused_with_its_place() -> None:
    for patch, text in ILL_TYPED:
        with pytest.raises(NotAdjustable) as refused:
            merged(FULL, patch)
        assert str(refused.value) == text


@given(spec=SPECS, edits=st.lists(BAD_EDITS, max_size=3), anything=ANY, is_edited=st.booleans())
@settings(parent=thorough)
def test_any_patch_is_merged_or_refused_by_a_row_of_the_table(
    spec: Spec, edits: list[Edit], anything: Any, is_edited: bool
) -> None:
    patch = after(spec, edits) if is_edited else anything
    texts = as_text(spec), as_text(patch)
    try:
        wanted = merged(spec, patch)
        if is_edited:
            assert merged(wanted, patch) == wanted or as_text(patch).count("NaN")
        adjustment(spec, wanted)
    except NotAdjustable as refused:
        must_have_a_row(refused)
    assert (as_text(spec), as_text(patch)) == texts


# ---- A specification that a tool with floats has had says what it said before.

UNLIMITED = 9223372036854771712
"""What cgroup v1 calls no limit of memory."""
LARGEST = (1 << 64) - 1
ARGUMENT = {"index": 0, "value": LARGEST, "valueTwo": UNLIMITED + 1, "op": "SCMP_CMP_MASKED_EQ"}
LARGE: dict[str, Spec] = {
    "a memory limit": edited(("linux", "resources", "memory", "limit"), UNLIMITED),
    "a negative limit": edited(("linux", "resources", "cpu", "quota"), -UNLIMITED),
    "CPU shares": edited(("linux", "resources", "cpu", "shares"), (1 << 53) + 1),
    "huge pages": edited(("linux", "resources", "hugepageLimits", 0, "limit"), UNLIMITED),
    "an rlimit": edited(("process", "rlimits", 0), {"type": "RLIMIT_AS", "hard": LARGEST, "soft": UNLIMITED}),
    "an argument of a system call": edited(("linux", "seccomp", "syscalls", 0, "args"), [ARGUMENT]),
    "a device's number": edited(("linux", "resources", "devices", 1, "minor"), (1 << 63) - 1),
}


def through_floats(value: Any) -> Any:
    """As jq up to 1.6 writes it: 9223372036854771712 becomes 9223372036854772000."""
    if isinstance(value, dict):
        return {key: through_floats(member) for key, member in value.items()}
    if isinstance(value, list):
        return [through_floats(element) for element in value]
    return int(Decimal(repr(float(value)))) if type(value) is int and abs(value) < 1 << 70 else value


def turned(value: Any) -> Any:
    """The members of all objects in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(element) for element in value] if isinstance(value, list) else value


def test_what_a_float_loses_is_no_change_and_hides_no_change_beside_it() -> None:
    assert through_floats([UNLIMITED, LARGEST]) == [9223372036854772000, 18446744073709552000]
    for what, spec in LARGE.items():
        rounded = through_floats(spec)
        assert rounded != spec, what
        resources = spec["linux"]["resources"]
        assert not resources_to(resources, rounded["linux"]["resources"]).ByteSize(), what
        assert not adjustment(spec, rounded).ByteSize(), what
        assert not adjustment(spec, turned(rounded)).ByteSize(), what
        assert merged(spec, rounded) == spec, what
        rounded["process"]["oomScoreAdj"] = 7
        rounded["process"]["rlimits"].insert(0, {"type": "RLIMIT_CORE", "hard": 1, "soft": 1})
        adjusted = adjustment(spec, rounded)
        assert [limit.type for limit in adjusted.rlimits] == ["RLIMIT_CORE"], what
        assert adjusted.linux == api.LinuxContainerAdjustment(oom_score_adj=api.OptionalInt(value=7)), what


def test_a_number_that_a_float_has_not_lost_is_a_change_and_a_value_that_says_the_same_keeps_its_type() -> None:
    before = {"linux": {"resources": {"memory": {"disableOOMKiller": False}}}}
    written = merged(before, {"linux": {"resources": {"memory": {"disableOOMKiller": 0}}}})
    assert json.dumps(written) == json.dumps(before), "the next plugin reads it"
    unlimited = LARGE["an rlimit"]
    rounded = through_floats(unlimited)
    rounded["process"]["rlimits"][0]["soft"] = 5
    [limit] = adjustment(unlimited, rounded).rlimits
    assert (limit.hard, limit.soft) == (LARGEST, 5)
    for beyond in (2**65, 10**400):
        rounded["process"]["rlimits"][0]["hard"] = beyond
        with pytest.raises(NotAdjustable, match="out of the range"):
            adjustment(unlimited, rounded)
    compared = LARGE["an argument of a system call"]
    rounded = through_floats(compared)
    rounded["linux"]["seccomp"]["syscalls"][0]["names"] = ["write"]
    assert adjustment(compared, rounded).linux.seccomp_policy.syscalls[0].names == ["write"]
    path = ("linux", "resources", "memory", "limit")
    for other in (UNLIMITED - (1 << 20), -UNLIMITED, 1):
        adjusted = adjustment(LARGE["a memory limit"], edited(path, other))
        assert adjusted.linux.resources.memory.limit.value == other


# ---- What plugins answer is merged and applied in time proportional to its size: nothing else runs meanwhile.

MANY = 1000
NUMBERS = range(MANY)
MOST = 500 * MANY
"""Steps of a module; with a loop over all elements for each of them there would be twenty times as many."""
PATCHES: dict[str, Spec] = {
    "variables set and removed": {"process": {"env": [name for n in NUMBERS for name in (f"A{n}=1", f"A{n}")]}},
    "one variable set and removed": {"process": {"env": ["A=1", "A"] * MANY}},
    "hooks twice": {"hooks": {"poststop": [{"path": f"/{number}"} for number in NUMBERS] * 2}},
    "mounts added and removed": {
        "mounts": [m for n in NUMBERS for m in ({"destination": f"/{n}"}, {"destination": f"/{n}", "$patch": "delete"})]
    },
}
SHADOWS = api.ContainerAdjustment(mounts=[api.Mount(destination=f"/{n}") for n in NUMBERS])


def test_what_is_large_takes_time_in_proportion() -> None:
    for what, patch in PATCHES.items():
        assert MANY < steps(lambda patch=patch: merged(FULL, patch), "v010_adapter.oci.patch") < MOST, what  # type: ignore[misc]
    assert MANY < steps(lambda: apply(FULL, SHADOWS), "v010_adapter.oci.named_parts") < MOST
