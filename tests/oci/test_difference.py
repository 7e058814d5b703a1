"""The adjustment that an edit of a specification becomes: it gives the edited one, or a row of the table says no."""

from __future__ import annotations

import difflib
from operator import add
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nri.errors import LONGEST
from nri.proto import nri_pb2 as api
from v010_adapter.errors import NotAdjustable
from v010_adapter.oci import protojson
from v010_adapter.oci.resources import resources_from
from v010_adapter.oci.spec import adjustment, apply, resources_to
from v010_adapter.oci.values import Spec

from .cases import CHANGES, FULL, Path, as_text, edited, must_have_a_row, normal, put
from .edits import ANY, BAD_EDITS, GOOD_EDITS, SPECS, Edit, after

thorough = settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.too_slow])
MANY = st.lists(GOOD_EDITS, min_size=1, max_size=6)
ANYTHING = st.builds(add, st.lists(BAD_EDITS, min_size=1, max_size=3), st.lists(GOOD_EDITS, max_size=2))


@given(before=SPECS, edits=MANY | ANYTHING)
@settings(parent=thorough, max_examples=900)
@example(before=FULL, edits=[lambda spec: put(spec, ("linux", "resources", "cpu", "shares"), 1 << 64)])
def test_any_edit_is_expressed_or_refused_by_a_row_of_the_table(before: Spec, edits: list[Edit]) -> None:
    wanted = after(before, edits)
    texts = as_text(before), as_text(wanted)
    try:
        difference = adjustment(before, wanted)
    except NotAdjustable as refused:
        must_have_a_row(refused)
    else:
        difference.SerializeToString()
        assert normal(apply(before, difference)) == normal(wanted)
    assert (as_text(before), as_text(wanted)) == texts, "neither is changed"


@given(before=SPECS, edits=MANY)
@settings(parent=thorough)
def test_an_update_carries_what_differs_or_is_refused(before: Spec, edits: list[Edit]) -> None:
    had, wants = (spec.get("linux", {}).get("resources", {}) for spec in (before, after(before, edits)))
    try:
        update = resources_to(had, wants)
    except NotAdjustable as refused:
        must_have_a_row(refused)
        return
    carried = resources_from(update)
    assert set(carried) <= {"memory", "cpu", "hugepageLimits", "unified"}
    adjusted = api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(resources=update))
    assert normal(apply({"linux": {"resources": had}}, adjusted)) == normal({"linux": {"resources": wants}})


def test_each_change_that_can_be_expressed_is_expressed() -> None:
    for path, value in CHANGES:
        wanted = edited(path, value)
        assert normal(apply(FULL, adjustment(FULL, wanted))) == normal(wanted), path


def test_a_changed_class_of_rdt_clears_all_that_earlier_plugins_have_set() -> None:
    rdt = adjustment(FULL, edited(("linux", "intelRdt"), {"closID": "b"})).linux.rdt
    assert MessageToDict(rdt) == {"remove": True, "closId": {"value": "b"}, "schemata": {}, "enableMonitoring": {}}


SILENT: list[tuple[Path, Any]] = [
    (("process", "env"), ["EMPTY=", "HOME=/", "PATH=/bin"]),
    (("mounts",), [FULL["mounts"][1], FULL["mounts"][0], FULL["mounts"][2]]),
    (("linux", "namespaces"), FULL["linux"]["namespaces"][::-1]),
    (("mounts", 2, "options"), []),
    (("process", "cwd"), ""),
    (("ociVersion",), ""),  # Go writes this and `cwd` unasked
    (("process", "scheduler", "priority"), 0),
    (("process", "capabilities"), {"ambient": [None]}),
    (("process", "user", "umask"), None),
]
HOLLOW_PROCESS = {"args": [], "env": [], "rlimits": [], "scheduler": {"policy": ""}, "ioPriority": {}}
HOLLOW_RESOURCES = {"memory": {}, "cpu": {"cpus": "", "burst": None}, "pids": {}, "devices": None, "blockIO": {}}
HOLLOW_RDT = {"closID": "", "schemata": [], "enableMonitoring": False, "memBwSchema": ""}
HOLLOW: Spec = {
    "process": {**HOLLOW_PROCESS, "oomScoreAdj": None},
    **{"mounts": [], "hooks": {"prestart": None, "poststop": []}, "annotations": {}, "root": {"path": ""}},
    "linux": {
        **{"cgroupsPath": "", "seccomp": {"defaultAction": ""}, "memoryPolicy": {"mode": "", "nodes": ""}},
        **{"intelRdt": HOLLOW_RDT, "netDevices": {}, "resources": HOLLOW_RESOURCES},
    },
}


def test_what_says_the_same_is_no_difference() -> None:
    for path, value in SILENT:
        assert edited(path, value) != FULL, path
        assert adjustment(FULL, edited(path, value)) == api.ContainerAdjustment(), path
    assert adjustment({}, HOLLOW) == adjustment(HOLLOW, {}) == api.ContainerAdjustment()


def test_go_programs_may_write_a_user_of_zeros_where_the_runtime_tells_none() -> None:
    before: Spec = {"process": {"args": ["a"]}}
    for more in ({}, {"additionalGids": None}):
        assert not adjustment(before, {"process": {"args": ["a"], "user": {"uid": 0, "gid": 0, **more}}}).ByteSize()
    with pytest.raises(NotAdjustable, match=r"^process\.user: "):
        adjustment(before, {"process": {"args": ["a"], "user": {"uid": 0, "gid": 1}}})


KEPT: Spec = {"mounts": [{"destination": "-a"}], "process": {"env": ["-A=1"]}, "hostname": "a"}
EXPRESSED: dict[str, tuple[Spec, Spec]] = {
    "a bare variable gets a value": ({"process": {"env": ["A"]}}, {"process": {"env": ["A=1"]}}),
    "a variable that stands there twice hinders no other": (
        {"process": {"env": ["PATH=/a", "B=1", "PATH=/b"]}}, {"process": {"env": ["PATH=/a", "B=2", "PATH=/b"]}}),
    "the order of mounts means nothing": (
        {"mounts": [{"destination": "/a/b"}, {"destination": "/a"}]}, {"mounts": [{"destination": "/a/b"}]}),
    "what is kept may stand where nothing can be added": (KEPT, KEPT | {"annotations": {"a": "1"}}),
}  # fmt: skip


def test_what_is_odd_beside_a_change_does_not_hinder_it() -> None:
    for what, (before, wanted) in EXPRESSED.items():
        assert apply(before, adjustment(before, wanted)) == wanted, what


# ---- Adjustments in protobuf's JSON: what a plugin writes is taken as protobuf takes it, or refused with its place.

ADJUSTMENTS = [
    MessageToDict(adjustment(FULL, edited(path, value)), preserving_proto_field_name=is_protos)
    for is_protos in (False, True)
    for path, value in CHANGES
]


def test_each_adjustment_that_says_a_change_is_taken() -> None:
    for value in ADJUSTMENTS:
        assert protojson.parse(value, "adjust") == ParseDict(value, api.ContainerAdjustment())


@example({"annotations": {"a": 5}, "linux": None})
@example({"annotations": {"a": "\ud800"}, "mounts": [{"destination": "\ud800"}]})
@example({"annotations": {"\ud800": "a"}})
@example({"annotations": None, "linux": None})
@example({"annotations": {"a": "b"}, "linux": {"netDevices": {"a": {"nmae": "b"}}}})
@example({"linux": {"resources": {"pids": {"limit": -1}}, "seccompPolicy": {"defaultErrno": {}}}})
@example({"linux": {"seccompPolicy": {"defaultErrno": {}}}})
@given(st.builds(after, st.sampled_from(ADJUSTMENTS), st.lists(BAD_EDITS, max_size=2)) | ANY)
def test_an_adjustment_is_taken_or_refused_with_its_place_in_words_of_ours(value: Any) -> None:
    try:
        taken = protojson.parse(value, "adjust")
    except NotAdjustable as refused:
        assert str(refused).startswith(("adjust", "linux.resources.", "linux.seccomp."))  # noqa: PT017 - to be taken is as good
        assert not any(words in str(refused) for words in ("parse", "nri.pkg.api", "expected"))  # noqa: PT017
    else:
        assert taken == ParseDict(value, api.ContainerAdjustment())


def test_a_long_unknown_key_is_compared_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte would keep the event loop for a second."""
    compared: list[str] = []

    def compare(word: str, *_: object, **__: object) -> list[str]:
        compared.append(word)
        return []

    monkeypatch.setattr(difflib, "get_close_matches", compare)
    for length in (LONGEST, LONGEST + 1):
        with pytest.raises(NotAdjustable, match="unknown field; known: annotations, "):
            protojson.parse({"x" * length: 1}, "adjust")
    assert compared == ["x" * LONGEST]
