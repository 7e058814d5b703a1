"""Several plugins' answers become one adjustment, one update, one verdict.

tests/peers/test_merge_oracle.py asks Go about every field.
"""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from adapter.nri import api
from adapter.runtime.merge import Conflict, Merge

from .fixtures import CONTAINER, CREATE, Plugins

Json = dict[str, Any]
A, B, C = "00-a", "10-b", "20-c"
LIMIT: Json = {"resources": {"memory": {"limit": {"value": "1"}}}}

# The answers of a, b and so on to CreateContainer, of which the last one is in conflict, and what is told of it.
CONFLICTS: list[tuple[list[Json], str]] = [
    ([{"annotations": {"k": "a"}}, {"annotations": {"k": "b"}}], f'"{B}" and "{A}" both tried to set Annotations k'),
    ([{"env": [{"key": "E"}, {"key": "E"}]}], f'"{A}" and "{A}" both tried to set Env E'),
    ([{"args": ["a"]}, {}, {"args": ["b"]}], f'"{C}" and "{A}" both tried to set Args'),
    ([{"args": ["a"]}, {"args": ["", "b"]}, {"args": ["c"]}], f'"{C}" and "{B}" both tried to set Args'),
    # What another plugin has set and a second one has removed nobody can set.
    (
        [{"mounts": [{"destination": one}]} for one in ("/m", "-/m", "/m")],
        f'"{C}" and "{B}" both tried to set Mounts /m',
    ),
    ([{"linux": LIMIT}, {"linux": LIMIT}], f'"{B}" and "{A}" both tried to set MemLimit'),
]


def test_a_conflict_names_both_plugins_and_what_they_set() -> None:
    for adjustments, text in CONFLICTS:
        merge = Merge(CREATE)
        *before, last = zip((A, B, C), adjustments, strict=False)
        for plugin, adjustment in before:
            merge.apply(plugin, ParseDict({"adjust": adjustment}, api.CreateContainerResponse()))
        with pytest.raises(Conflict) as conflict:
            merge.apply(last[0], ParseDict({"adjust": last[1]}, api.CreateContainerResponse()))
        assert str(conflict.value) == f"plugins {text}"


def test_the_request_itself_stays_as_it_is() -> None:
    request = api.CreateContainerRequest(container=api.Container(id="ctr", annotations={"k": "own"}))
    merge = Merge(request)
    merge.apply(A, api.CreateContainerResponse(adjust=api.ContainerAdjustment(annotations={"k": "v"})))
    assert merge.request.container.annotations == {"k": "v"}
    assert request.container.annotations == {"k": "own"}


def test_evictions_and_answers_to_other_events_come_to_nothing() -> None:
    merge = Merge(api.StopContainerRequest(container=CONTAINER))
    merge.apply(A, api.UpdateContainerResponse(evict=[api.ContainerEviction(container_id="x")]))
    assert merge.update == []
    merge = Merge(api.StartContainerRequest())
    merge.apply(A, api.StartContainerResponse())
    assert (merge.adjust, merge.update) == (None, [])


# ---- through the runtime

# Sets an annotation and a variable of a name, says in the annotation which variables it sees, and asks for an update.
ADJUSTS = """
class Mine(Plugin):
    def create_container(self, request, context):
        adjust = api.ContainerAdjustment(annotations={{{key!r}: " ".join(request.container.env)}})
        adjust.env.add(key={key!r}, value={name!r})
        return api.CreateContainerResponse(adjust=adjust, update=[api.ContainerUpdate(container_id={name!r})])
run(Mine())
"""
VALIDATES = """
class Judge(Plugin):
    def configure(self, request, context):
        return api.ConfigureResponse(events=events.mask(["ValidateContainerAdjustment"]))
    def validate_container_adjustment(self, request, context):
        seen = [one.index + one.name for one in request.plugins], dict(request.adjust.annotations), len(request.update)
        owner = request.owners.owners["ctr"].compound[api.Annotations].owners["by"]
        {verdict}
run(Judge())
"""
RETURNS = 'return api.ValidateContainerAdjustmentResponse(reject={}, reason=f"{{seen}} {{owner}}")'


def test_what_plugins_want_of_a_container_is_merged_and_each_sees_what_the_earlier_ones_did(plugins: Plugins) -> None:
    for name, key in (("10-a", "a"), ("20-b", "b")):
        plugins.write(name, ADJUSTS.format(name=name, key=key))
    outcome = plugins.start().event("CreateContainer", CREATE)
    assert outcome.adjust is not None
    assert outcome.adjust.annotations == {"a": "", "b": "a=10-a"}
    assert [(variable.key, variable.value) for variable in outcome.adjust.env] == [("a", "10-a"), ("b", "20-b")]
    assert [update.container_id for update in outcome.update] == ["10-a", "20-b"]


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (RETURNS.format(False), ""),
        (
            RETURNS.format(True),
            "validator 20-judge rejected container adjustment, reason: (['10a', '20judge'], {'by': ''}, 1) 10-a",
        ),
        ('raise RuntimeError("confused")', "validator plugin 20-judge failed: confused"),
    ],
)
def test_a_validator_judges_what_the_others_want(plugins: Plugins, verdict: str, error: str) -> None:
    plugins.write("10-a", ADJUSTS.format(name="10-a", key="by"))
    plugins.write("20-judge", VALIDATES.format(verdict=verdict))
    assert plugins.start().event("CreateContainer", CREATE).error == error
