"""What merge patches make of a specification."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapter.errors import NotAdjustable
from adapter.oci.limits import LIMITS
from adapter.oci.patch import merged
from adapter.oci.spec import adjustment
from adapter.oci.values import Spec

from .cases import FULL, as_text, copied, covers
from .edits import ANY, BAD_EDITS, GOOD_EDITS, SPECS, Edit, after

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
HOOK, OTHER = {"path": "/a"}, {"path": "/b"}
LISTS: dict[str, tuple[tuple[str, str], list[Any], list[Any],
    list[Any]]] = {"a variable is changed in its place": (("process", "env"), ["A=1", "B=2"], ["A=3"], ["A=3", "B=2"]),
    "a variable is added": (("process", "env"), ["A=1"], ["B==", "C="], ["A=1", "B==", "C="]),
    "a bare variable removes": (("process", "env"), ["A=1", "B=2", "A=3"], ["A"], ["B=2"]),
    "a bare variable that is there stays": (("process", "env"), ["A", "B=2"], ["A", "B=2"], ["A", "B=2"]),
    "a bare variable of nothing does nothing": (("process", "env"), ["A=1"], ["B"], ["A=1"]),
    "a variable twice meets its like": (("process", "env"), ["A=1", "A=2"], ["A=1", "A=3"], ["A=1", "A=3"]),
    "the first of two is changed": (("process", "env"), ["A=1", "A=2"], ["A=3"], ["A=3", "A=2"]),
    "removed and added anew": (("process", "env"), ["A=1", "B=1", "A=3"], ["A", "A=2"], ["A=2", "B=1"]),
    "a mount's members are merged": (("mounts", ""), [PROC, DATA],
    [{"destination": "/data", "source": "/b", "type": None, "options": ["ro"]}],
    [PROC, {"destination": "/data", "source": "/b", "options": ["ro"]}]),
    "a mount is added": (("mounts", ""), [PROC], [DATA | {"source": None}],
    [PROC, {"destination": "/data", "type": "bind"}]),
    "a mount is removed": (("mounts", ""), [PROC, DATA], [{"$patch": "delete", "destination": "/data"}], [PROC]),
    "a mount that is not there is removed": (("mounts", ""), [PROC], [{"$patch": "delete", "destination": "/data"}],
    [PROC]), "an order is kept": (("mounts", ""), [PROC, DATA], [DATA, PROC], [PROC, DATA]),
    "a device": (("linux", "devices"), [NULL], [{"path": "/dev/null", "minor": 4}], [NULL | {"minor": 4}]),
    "an rlimit": (("process", "rlimits"), [{"type": "RLIMIT_AS", "hard": 2, "soft": 1}],
    [{"type": "RLIMIT_AS", "soft": 2}, {"type": "RLIMIT_CORE", "hard": 0, "soft": 0}],
    [{"type": "RLIMIT_AS", "hard": 2, "soft": 2}, {"type": "RLIMIT_CORE", "hard": 0, "soft": 0}]),
    "a namespace": (("linux", "namespaces"), [{"type": "pid"}, {"type": "user"}],
    [{"type": "pid", "path": "/a"}, {"type": "user", "$patch": "delete"}], [{"type": "pid", "path": "/a"}]),
    "hooks are appended where they are not there": (("hooks", "poststop"), [HOOK], [OTHER, HOOK], [HOOK, OTHER]),
    "a hook is appended once": (("hooks", "poststop"), [HOOK], [OTHER, OTHER], [HOOK, OTHER]),
    "a hook with nulls and empty lists is the same hook": (("hooks", "poststop"), [HOOK],
    [HOOK | {"args": None, "env": [], "timeout": None, "unknown": None}], [HOOK]),
    "a hook whose timeout a tool has rounded is the same hook": (("hooks", "poststop"),
    [HOOK | {"timeout": (1 << 53) + 1}], [HOOK | {"timeout": 1 << 53}], [HOOK | {"timeout": (1 << 53) + 1}]),
    "a hook with a timeout of 0 is another hook": (("hooks", "poststop"), [HOOK], [HOOK | {"timeout": 0}],
    [HOOK, HOOK | {"timeout": 0}]), "all other lists are replaced": (("process", "args"), ["a", "b"], ["c"], ["c"]),
    "and emptied": (("linux", "maskedPaths"), ["/a"], [], [])}  # fmt: skip
ILL_TYPED: list[tuple[Any, str]] = [
    ("a", "spec: not what belongs there: a string instead of an object"),
    ([], "spec: not what belongs there: an array instead of an object"),
    (None, "spec: not what belongs there: null instead of an object"),
    ({"mounts": {}}, "mounts: not what belongs there: an object instead of an array"),
    ({"mounts": ["a"]}, "mounts[0]: not what belongs there: a string instead of an object"),
    ({"mounts": [{}]}, "mounts[0].destination: not what belongs there: null instead of a string"),
    ({"mounts": [{"destination": 1}]}, "mounts[0].destination: not what belongs there: a number instead of a string"),
    ({"mounts": [DATA | {"$patch": "replace"}]}, "mounts[0].$patch: not what belongs there: an unknown word"),
    ({"process": {"env": ["A=1", 2]}}, "process.env[1]: not what belongs there: a number instead of a string"),
    ({"process": {"env": "A=1"}}, "process.env: not what belongs there: a string instead of an array"),
    ({"hooks": {"poststop": {}}}, "hooks.poststop: not what belongs there: an object instead of an array"),
    ({"cgroupsPath": "/a", "linux": 1}, "linux: not what belongs there: a number instead of an object"),
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
        assert merged(spec, patch) == expected, patch
    assert merged(FULL, {"mounts": None}).get("mounts") is None


def test_lists_merge_by_names() -> None:
    for what, (path, before, patch, expected) in LISTS.items():

        def at(value: Any, path: tuple[str, str] = path) -> Spec:
            return {path[0]: {path[1]: value}} if path[1] else {path[0]: value}

        assert merged(at(before), at(patch)) == at(expected), what
        assert merged(at(None), at(patch)) == merged({}, at(patch)), what


def test_what_cannot_be_merged_is_refused_with_its_place() -> None:
    for patch, text in ILL_TYPED:
        with pytest.raises(NotAdjustable) as refused:
            merged(FULL, patch)
        assert str(refused.value) == text


@given(spec=SPECS, edits=st.lists(GOOD_EDITS, max_size=6))
@settings(parent=thorough)
def test_nothing_and_all_of_it_change_nothing(spec: Spec, edits: list[Edit]) -> None:
    whole = after(spec, edits)
    assert merged(whole, {}) == whole
    assert merged(whole, copied(whole)) == whole
    for stage, hooks in whole.get("hooks", {}).items():
        whole["hooks"][stage] = once(hooks)
    assert merged({}, whole) == whole


def once(hooks: list[Spec]) -> list[Spec]:
    """The hooks that differ in more than empty lists."""
    said = [{name: value for name, value in hook.items() if value not in (None, [])} for hook in hooks]
    return [hook for index, hook in enumerate(hooks) if said[index] not in said[:index]]


@given(spec=SPECS, edits=st.lists(BAD_EDITS, max_size=3))
@settings(parent=thorough)
def test_any_patch_is_merged_or_refused_by_a_row_of_the_table(spec: Spec, edits: list[Edit]) -> None:
    patch = after(spec, edits)
    texts = as_text(spec), as_text(patch)
    try:
        wanted = merged(spec, patch)
        assert merged(wanted, patch) == wanted or as_text(patch).count("NaN")
        adjustment(spec, wanted)
    except NotAdjustable as refused:
        covered(refused)
    assert (as_text(spec), as_text(patch)) == texts


@given(spec=SPECS, patch=ANY)
@settings(parent=thorough)
def test_anything_at_all_is_merged_or_refused(spec: Spec, patch: Any) -> None:
    try:
        merged(spec, patch)
    except NotAdjustable as refused:
        covered(refused)


def covered(refused: NotAdjustable) -> None:
    assert [limit for limit in LIMITS if covers(limit, refused)], refused
