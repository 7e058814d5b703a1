"""Our merging of what several plugins answer against the adaptation that runtimes are built with.

Where the results differ in form stands in DEVIATIONS, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from hypothesis import given, settings

from adapter.nri import api
from adapter.runtime.merge import Conflict, Merge

from .harness import Peer
from .merge_cases import ADJUSTMENT, PLUGINS, RESOURCES, UNIFIED, Case, cases

M = TypeVar("M", bound=Message)


@dataclass
class Outcome:
    """Why the event fails; else what comes of it, and what a plugin behind the others would have seen."""

    error: str = ""
    adjust: api.ContainerAdjustment | None = None
    update: list[api.ContainerUpdate] = field(default_factory=list)
    owners: api.OwningPlugins | None = None
    seen: Message | None = None


def _without_empty_messages(outcome: Outcome) -> None:
    if outcome.adjust is not None:
        linux = outcome.adjust.linux
        for parent, names in (
            (linux.resources, ("memory", "cpu")),
            (linux, ("resources", "rdt")),
            (outcome.adjust, ("hooks", "linux")),
        ):
            _clear_empty(parent, names)
    for update in outcome.update:
        _clear_empty(update.linux.resources, ("memory", "cpu"))


def _clear_empty(parent: Any, names: tuple[str, ...]) -> None:
    for name in names:
        if not getattr(parent, name).ByteSize():
            parent.ClearField(name)


def _with_lists_in_order(outcome: Outcome) -> None:
    if outcome.adjust is not None:
        mounts = sorted(outcome.adjust.mounts, key=_removals_last)
        del outcome.adjust.mounts[:]
        outcome.adjust.mounts.extend(mounts)
    if isinstance(outcome.seen, api.Container):
        namespaces = sorted(outcome.seen.linux.namespaces, key=lambda namespace: namespace.type)
        del outcome.seen.linux.namespaces[:]
        outcome.seen.linux.namespaces.extend(namespaces)


def _removals_last(mount: api.Mount) -> tuple[bool, str]:
    """Sorts removals only: the others have an order."""
    removal = mount.destination.startswith("-")
    return removal, mount.destination if removal else ""


def _with_one_conflict(outcome: Outcome) -> None:
    outcome.error = re.sub(r'and ".*" both tried to set (\w+).*', r"and another both tried to set \1", outcome.error)


DEVIATIONS: Mapping[str, Callable[[Outcome], None]] = {
    "Go has empty messages (hooks, rdt, memory, cpu) where nothing is adjusted": _without_empty_messages,
    "removed mounts, and namespaces shown to the next plugin, have the order of Go's maps": _with_lists_in_order,
    "of several conflicts with keys of one map, it is Go's map that decides which is told": _with_one_conflict,
}


@pytest.fixture(scope="module")
def adaptation() -> Iterator[Peer]:
    with Peer("merge") as started:
        yield started


def ours(case: Case) -> Outcome:
    merge = Merge(case.request())
    try:
        for plugin, answer in zip(PLUGINS, case.answers, strict=False):
            merge.apply(plugin, answer)
    except Conflict as conflict:
        return Outcome(str(conflict))
    seen = {
        "CreateContainer": getattr(merge.request, "container", None),
        "UpdateContainer": getattr(merge.request, "linux_resources", None),
    }
    owners = merge.owners.message() if case.event == "CreateContainer" else None
    return Outcome("", merge.adjust, merge.update, owners, seen.get(case.event))


def theirs(answer: Mapping[str, Any], event: str) -> Outcome:
    if answer["error"]:
        return Outcome(answer["error"].rstrip(" "))
    return Outcome(
        "",
        _read(answer["adjust"], api.ContainerAdjustment),
        # Nobody has changed what was requested: there Go has a null.
        [ParseDict(update, api.ContainerUpdate()) for update in answer["update"] if update is not None],
        _read(answer["owners"], api.OwningPlugins),
        _read(answer["seen"], api.LinuxResources if event == "UpdateContainer" else api.Container),
    )


def _read(found: Any, of: type[M]) -> M | None:
    return None if found is None else ParseDict(found, of())


def check(adaptation: Peer, case: Case) -> None:
    expected, found = theirs(adaptation.ask(case.encode()), case.event), ours(case)
    for smooth in DEVIATIONS.values():
        smooth(expected)
        smooth(found)
    assert found == expected


def test_the_adaptation_has_empty_messages_where_we_have_none(adaptation: Peer) -> None:
    case = Case("CreateContainer", api.Container(id="ctr"), api.LinuxResources(), [api.CreateContainerResponse()])
    expected = theirs(adaptation.ask(case.encode()), case.event)
    assert expected.adjust is not None
    assert expected.adjust.HasField("hooks")
    assert expected.adjust.linux.resources.HasField("memory")
    assert ours(case).adjust == api.ContainerAdjustment()


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
