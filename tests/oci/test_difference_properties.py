"""What holds for every pair of specifications: the difference gives the other one, or a row of the table says no."""

from __future__ import annotations

from collections.abc import Iterator
from operator import add
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapter.errors import NotAdjustable
from adapter.oci.limits import LIMITS
from adapter.oci.resources import resources_from
from adapter.oci.spec import adjustment, apply, resources_to
from adapter.oci.values import Spec
from adapter.proto import nri_pb2 as api

from .cases import ABSENT, FULL, Path, as_text, copied, covers, edited, normal
from .edits import BAD_EDITS, GOOD_EDITS, SPECS, Edit, after

thorough = settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.too_slow])
MANY = st.lists(GOOD_EDITS, min_size=1, max_size=6)
ANYTHING = st.builds(add, st.lists(BAD_EDITS, min_size=1, max_size=3), st.lists(GOOD_EDITS, max_size=2))


def by_the_table(refused: NotAdjustable) -> None:
    assert [limit for limit in LIMITS if covers(limit, refused)], refused


@given(before=SPECS, edits=MANY | ANYTHING)
@settings(parent=thorough, max_examples=900)
def test_any_edit_is_expressed_or_refused_by_a_row_of_the_table(before: Spec, edits: list[Edit]) -> None:
    wanted = after(before, edits)
    texts = as_text(before), as_text(wanted)
    try:
        difference = adjustment(before, wanted)
    except NotAdjustable as refused:
        by_the_table(refused)
    else:
        difference.SerializeToString()
        assert normal(apply(before, difference)) == normal(wanted)
    assert (as_text(before), as_text(wanted)) == texts, "neither is changed"


@given(edits=ANYTHING, more=ANYTHING, spec=SPECS)
@settings(parent=thorough)
def test_what_before_holds_is_no_reason_to_fail_either(spec: Spec, edits: list[Edit], more: list[Edit]) -> None:
    before = after(spec, edits)
    try:
        adjustment(before, after(before, more))
    except NotAdjustable as refused:
        by_the_table(refused)


@given(spec=SPECS, edits=ANYTHING)
@settings(parent=thorough)
def test_a_specification_does_not_differ_from_itself(spec: Spec, edits: list[Edit]) -> None:
    same = after(spec, edits)
    assert adjustment(same, copied(same)) == api.ContainerAdjustment()


@given(before=SPECS, edits=MANY)
@settings(parent=thorough)
def test_an_update_carries_what_differs_or_is_refused(before: Spec, edits: list[Edit]) -> None:
    had, wants = (spec.get("linux", {}).get("resources", {}) for spec in (before, after(before, edits)))
    try:
        update = resources_to(had, wants)
    except NotAdjustable as refused:
        by_the_table(refused)
        return
    carried = resources_from(update)
    assert set(carried) <= {"memory", "cpu", "hugepageLimits", "unified"}
    adjusted = api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(resources=update))
    assert normal(apply({"linux": {"resources": had}}, adjusted)) == normal({"linux": {"resources": wants}})


def places(value: Any) -> Iterator[Path]:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (key,)
        yield from ((key, *inner) for inner in places(value[key]))


NEVER = [1 << 65, 0.5, "\0", [None], [[]], {"a": 1}]
SOMEWHERE = [ABSENT, None, True, False, 0, 1, -1, "", "a", "-a", [], [{}], ["a"], {}, {"": ""}, {"a": None}, {"a": {}}]


def test_any_value_at_any_place_is_expressed_or_refused() -> None:
    for value in NEVER + SOMEWHERE:
        expressed = 0
        for place in places(FULL):
            wanted = edited(place, value)
            try:
                difference = adjustment(FULL, wanted)
            except NotAdjustable as refused:
                by_the_table(refused)
            else:
                assert normal(apply(FULL, difference)) == normal(wanted), (place, value)
                expressed += 1
        assert bool(expressed) == (value in SOMEWHERE), value
