"""Our merging of what several plugins answer against the adaptation that runtimes are built with.

Where the results differ in form stands in DEVIATIONS, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeVar

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from nri import api
from nri.testing.merge import Conflict, Merge

from ..rig.brief import few
from .harness import Peer

M = TypeVar("M", bound=Message)
Fragment = dict[str, Any]  # A piece of a message as protojson; a few of them make one

PLUGINS = ("00-p", "10-p", "20-p")
REPLIES: Mapping[str, Any] = {
    "CreateContainer": api.CreateContainerResponse,
    "UpdateContainer": api.UpdateContainerResponse,
    "StopContainer": api.StopContainerResponse,
}


class Case(NamedTuple):
    """Answers that several plugins give to one event."""

    event: str
    container: api.Container
    resources: api.LinuxResources
    answers: Sequence[Message]

    def request(self) -> Message:
        if self.event == "CreateContainer":
            return api.CreateContainerRequest(pod=api.PodSandbox(id="pod"), container=self.container)
        if self.event == "UpdateContainer":
            return api.UpdateContainerRequest(container=self.container, linux_resources=self.resources)
        return api.StopContainerRequest(container=self.container)

    def encode(self) -> dict[str, Any]:
        answers = [as_json(answer) for answer in self.answers]
        messages = {"container": as_json(self.container), "resources": as_json(self.resources)}
        return {"event": self.event, **messages, "answers": answers}


def as_json(message: Message) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)


# A small world, so that plugins meet. A family is what there is to say about one thing, as pieces of a message.

KEYS = ("a", "b")
CHANGED = ("a", "b", "-a", "-b", "--a", "-", "")
TEXTS = ("x", "-x", "")
SPECIAL: Mapping[str, list[Any]] = {
    "nri.pkg.api.v1alpha1.ContainerAdjustment.args": [["x"], ["", "y"], [""]],
    "nri.pkg.api.v1alpha1.Container.env": [["a=1"], ["a"], ["b=x=y"], ["=", ""]],
    "nri.pkg.api.v1alpha1.LinuxRdt.remove": [True],
}


def families(of: Any, keys: Sequence[str] = CHANGED, path: str = "") -> dict[str, list[Fragment]]:
    """What there is to say about each field, by its path; those of `linux` and of `resources` are apart."""
    found: dict[str, list[Fragment]] = {}
    for field in of.fields:
        if field.name in ("linux", "resources"):
            found |= families(field.message_type, keys, f"{path}{field.name}.")
        else:
            found[path + field.name] = [_wrapped(path + field.name, value) for value in _values(field, keys)]
    return found


def _wrapped(path: str, value: Any) -> Fragment:
    for name in reversed(path.split(".")):
        value = {name: value}
    fragment: Fragment = value
    return fragment


def _values(field: Any, keys: Sequence[str]) -> list[Any]:
    """Small values of a field. An element of a list is named by its first text, which is one of the keys."""
    inner = field.message_type
    if field.full_name in SPECIAL:
        return SPECIAL[field.full_name]
    if inner is None:
        texts, switches = field.type == field.TYPE_STRING, field.type == field.TYPE_BOOL
        values = TEXTS if texts else (True, False) if switches else (1, 0)
        return [[value] for value in values[:1]] if field.is_repeated else list(values)
    if inner.GetOptions().map_entry:
        return [{key: value} for key, value in product(keys, _values(inner.fields_by_name["value"], keys)[:2])]
    if field.is_repeated:
        name, *others = sorted(inner.fields, key=lambda part: part.type != part.TYPE_STRING or part.is_repeated)
        more = [{other.name: value} for other in others[:1] for value in _values(other, keys)[:2]]
        return [[{name.name: key, **other}] for key, other in product(keys, [{}, *more])]
    return [{part.name: value} for part in inner.fields for value in _values(part, keys)]


ADJUSTMENT = list(families(api.ContainerAdjustment.DESCRIPTOR).values())
MERGED = {"annotations", "mounts", "env", "args", "hooks", "rlimits", "linux"}
CONTAINER = [
    family for path, family in families(api.Container.DESCRIPTOR, KEYS).items() if path.partition(".")[0] in MERGED
]
RESOURCES = families(api.LinuxResources.DESCRIPTOR, KEYS)
UNIFIED = RESOURCES.pop("unified")


@st.composite
def of_families(draw: st.DrawFn, of: type[M], pieces: Sequence[Sequence[Fragment]], most: int) -> M:
    """A message of some pieces; there may be more to say about the same thing."""
    made = of()
    for _ in range(draw(st.integers(0, most))):
        for fragment in draw(st.lists(st.sampled_from(draw(st.sampled_from(pieces))), min_size=1, max_size=2)):
            made.MergeFrom(ParseDict(fragment, of()))  # `ParseDict` into `made` would replace its lists
    return made


@st.composite
def updates(draw: st.DrawFn, ids: Sequence[str]) -> api.ContainerUpdate:
    """One update. It sets one unified key: of two, it is Go's map that decides which is claimed before a conflict."""
    update = api.ContainerUpdate(container_id=draw(st.sampled_from(ids)), ignore_failure=draw(st.booleans()))
    if draw(st.integers(0, 9)):
        update.linux.resources.CopyFrom(draw(of_families(api.LinuxResources, list(RESOURCES.values()), 2)))
    if draw(st.booleans()):
        ParseDict(draw(st.sampled_from(UNIFIED)), update.linux.resources)
    return update


@st.composite
def cases(draw: st.DrawFn, event: str) -> Case:
    """An event, with answers about the same few things; about one in eight is a conflict."""
    container = draw(of_families(api.Container, CONTAINER, 4))
    container.id = "ctr"
    ids = ["d", "e"] * 8 + ["ctr"] if event == "CreateContainer" else ["d", "ctr", "ctr", "ctr"]
    requested = draw(of_families(api.LinuxResources, [*RESOURCES.values(), UNIFIED], 2))
    chosen = draw(st.lists(st.sampled_from(ADJUSTMENT), min_size=1, max_size=4))
    answers = []
    for _ in range(draw(st.integers(1, len(PLUGINS)))):
        answer = REPLIES[event](update=draw(st.lists(updates(ids), max_size=1 if event == "CreateContainer" else 2)))
        if event == "CreateContainer" and draw(st.integers(0, 9)):
            answer.adjust.CopyFrom(draw(of_families(api.ContainerAdjustment, chosen, 3)))
        answers.append(answer)
    return Case(event, container, requested, answers)


# What comes of it.

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


def test_every_field_is_merged_as_the_adaptation_does(adaptation: Peer) -> None:
    for family in ADJUSTMENT:
        whole = api.CreateContainerResponse()
        for fragment in family:
            answer = ParseDict({"adjust": fragment}, api.CreateContainerResponse())
            whole.MergeFrom(answer)
            its_own = api.CreateContainerResponse(
                adjust=answer.adjust, update=[api.ContainerUpdate(container_id="ctr")]
            )
            for answers in ([answer], [answer, answer], [answer, whole], [its_own]):
                check(adaptation, Case("CreateContainer", api.Container(id="ctr"), api.LinuxResources(), answers))
    for fragment in (fragment for family in (*RESOURCES.values(), UNIFIED) for fragment in family):
        requested = ParseDict(fragment, api.LinuxResources())
        update = api.ContainerUpdate(container_id="ctr", linux=api.LinuxContainerUpdate(resources=requested))
        reply = api.UpdateContainerResponse(update=[update])
        check(adaptation, Case("UpdateContainer", api.Container(id="ctr"), requested, [reply]))


TWICE: Fragment = {
    "env": ["a=1", "a=2"],
    "mounts": [{"destination": "a", "source": "x"}, {"destination": "a", "source": "y"}],
    "rlimits": [{"type": "a", "soft": "1"}, {"type": "a", "soft": "2"}],
    "linux": {
        "namespaces": [{"type": "a", "path": "x"}, {"type": "a", "path": "y"}],
        "devices": [{"path": "a", "minor": "1"}, {"path": "a", "minor": "2"}],
        "resources": {"hugepage_limits": [{"page_size": "a", "limit": "1"}, {"page_size": "a", "limit": "2"}]},
    },
}


def test_what_is_there_twice_or_is_removed_and_added_is_merged_as_the_adaptation_does(adaptation: Peer) -> None:
    container = ParseDict({"id": "ctr", **TWICE}, api.Container())
    for pair in few([pair for family in ADJUSTMENT for pair in product(family, repeat=2)], 100):
        answer = api.CreateContainerResponse()
        for fragment in pair:
            answer.MergeFrom(ParseDict({"adjust": fragment}, api.CreateContainerResponse()))
        check(adaptation, Case("CreateContainer", container, api.LinuxResources(), [answer]))


@given(case=cases("CreateContainer"))
@settings(max_examples=600)
def test_adjustments_are_merged_or_refused_as_the_adaptation_does(adaptation: Peer, case: Case) -> None:
    check(adaptation, case)


@given(case=cases("UpdateContainer") | cases("StopContainer"))
@settings(max_examples=400)
def test_updates_are_merged_or_refused_as_the_adaptation_does(adaptation: Peer, case: Case) -> None:
    check(adaptation, case)
