"""Our merging of what several plugins answer against the adaptation that runtimes are built with.

Where the results differ in form stands in DEVIATIONS, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from hypothesis import given, settings

from adapter.nri import api
from adapter.runtime.merge import Conflict, Merge

from .harness import Peer
from .merge_cases import ADJUSTMENT, PLUGINS, RESOURCES, UNIFIED, Case, as_json, cases

Told = dict[str, Any]
"""Protojson: why the event fails; else what comes of it, and what a plugin behind the others would have seen."""


def _without_empty_messages(outcome: Told) -> None:
    for part in (outcome["adjust"], *outcome["update"]):
        linux = part.get("linux", {})
        resources = linux.get("resources", {})
        for parent, names in (
            (resources, ("memory", "cpu")),
            (linux, ("resources", "rdt")),
            (part, ("hooks", "linux")),
        ):
            for name in names:
                if parent.get(name) == {}:
                    del parent[name]


def _with_lists_in_order(outcome: Told) -> None:
    if "mounts" in outcome["adjust"]:
        outcome["adjust"]["mounts"].sort(key=_removals_last)
    outcome["seen"].get("linux", {}).get("namespaces", []).sort(key=lambda namespace: namespace.get("type", ""))


def _removals_last(mount: Told) -> tuple[bool, str]:
    """Sorts removals only: the others have an order."""
    name = mount.get("destination", "")
    return name.startswith("-"), name if name.startswith("-") else ""


def _with_one_conflict(outcome: Told) -> None:
    another = r"and another both tried to set \1"
    outcome["error"] = re.sub(r'and ".*" both tried to set (\w+).*', another, outcome["error"])


DEVIATIONS: Mapping[str, Callable[[Told], None]] = {
    "Go has empty messages (hooks, rdt, memory, cpu) where nothing is adjusted": _without_empty_messages,
    "removed mounts, and namespaces shown to the next plugin, have the order of Go's maps": _with_lists_in_order,
    "of several conflicts with keys of one map, it is Go's map that decides which is told": _with_one_conflict,
}


@pytest.fixture(scope="module")
def adaptation() -> Iterator[Peer]:
    with Peer("merge") as started:
        yield started


def told(
    error: str = "",
    adjust: Message | None = None,
    update: Iterable[Message] = (),
    owners: Message | None = None,
    seen: Message | None = None,
) -> Told:
    parts = {"adjust": adjust, "owners": owners, "seen": seen}
    found = {name: {} if message is None else as_json(message) for name, message in parts.items()}
    return {"error": error, "update": [*map(as_json, update)], **found}


def ours(case: Case) -> Told:
    merge = Merge(case.request())
    try:
        for plugin, answer in zip(PLUGINS, case.answers, strict=False):
            merge.apply(plugin, answer)
    except Conflict as conflict:
        return told(str(conflict))
    created = case.event == "CreateContainer"
    seen = getattr(merge.request, "container" if created else "linux_resources", None)
    return told("", merge.adjust, merge.update, merge.owners.message() if created else None, seen)


def theirs(answer: Told, event: str) -> Told:
    if answer["error"]:
        return told(answer["error"].rstrip(" "))
    kinds: dict[str, type[Message]] = {"adjust": api.ContainerAdjustment, "owners": api.OwningPlugins}
    kinds["seen"] = api.LinuxResources if event == "UpdateContainer" else api.Container
    read = {name: None if answer[name] is None else ParseDict(answer[name], of()) for name, of in kinds.items()}
    # Nobody has changed what was requested: there Go has a null.
    updates = [ParseDict(update, api.ContainerUpdate()) for update in answer["update"] if update is not None]
    return told("", update=updates, **read)


def check(adaptation: Peer, case: Case) -> None:
    expected, found = theirs(adaptation.ask(case.encode()), case.event), ours(case)
    for smooth in DEVIATIONS.values():
        smooth(expected)
        smooth(found)
    assert found == expected


def test_the_adaptation_has_empty_messages_where_we_have_none(adaptation: Peer) -> None:
    case = Case("CreateContainer", api.Container(id="ctr"), api.LinuxResources(), [api.CreateContainerResponse()])
    expected = theirs(adaptation.ask(case.encode()), case.event)
    assert expected["adjust"]["hooks"] == expected["adjust"]["linux"]["resources"]["memory"] == {}
    assert ours(case)["adjust"] == {}


def test_every_field_is_merged_as_the_adaptation_does(adaptation: Peer) -> None:
    for family in ADJUSTMENT:
        whole = api.CreateContainerResponse()
        for fragment in family:
            answer = ParseDict({"adjust": fragment}, api.CreateContainerResponse())
            whole.MergeFrom(answer)
            for answers in ([answer], [answer, answer], [answer, whole]):
                check(adaptation, Case("CreateContainer", api.Container(id="ctr"), api.LinuxResources(), answers))
    for fragment in (fragment for family in (*RESOURCES.values(), UNIFIED) for fragment in family):
        requested = ParseDict(fragment, api.LinuxResources())
        update = api.ContainerUpdate(container_id="ctr", linux=api.LinuxContainerUpdate(resources=requested))
        reply = api.UpdateContainerResponse(update=[update])
        check(adaptation, Case("UpdateContainer", api.Container(id="ctr"), requested, [reply]))


@given(case=cases("CreateContainer"))
@settings(max_examples=600)
def test_adjustments_are_merged_or_refused_as_the_adaptation_does(adaptation: Peer, case: Case) -> None:
    check(adaptation, case)


@given(case=cases("UpdateContainer") | cases("StopContainer"))
@settings(max_examples=400)
def test_updates_are_merged_or_refused_as_the_adaptation_does(adaptation: Peer, case: Case) -> None:
    check(adaptation, case)
