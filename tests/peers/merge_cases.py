"""What the Go adaptation is asked through cmd/merge: sets of answers that several plugins might give to one event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from hypothesis import strategies as st

from adapter.nri import api

M = TypeVar("M", bound=Message)
Fragment = dict[str, Any]  # A piece of a message as protojson; a few of them make one

PLUGINS = ("00-p", "10-p", "20-p")
REPLIES: Mapping[str, Any] = {
    "CreateContainer": api.CreateContainerResponse,
    "UpdateContainer": api.UpdateContainerResponse,
    "StopContainer": api.StopContainerResponse,
}


@dataclass(frozen=True)
class Case:
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
        return {
            "event": self.event,
            "container": as_json(self.container),
            "resources": as_json(self.resources),
            "answers": [as_json(answer) for answer in self.answers],
        }


def as_json(message: Message) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)


# A small world, so that plugins meet. A family is what there is to say about one thing, as pieces of a message.

KEYS = ("a", "b")
CHANGED = ("a", "b", "-a", "-b", "--a", "-", "")
VALUES = ("x", "-x", "")
NUMBERS = (1, 0)


def family(path: str, values: Iterable[Any]) -> list[Fragment]:
    """The same field with each of the values."""
    found: list[Fragment] = []
    for value in values:
        fragment = value
        for name in reversed(path.split(".")):
            fragment = {name: fragment}
        found.append(fragment)
    return found


def by_key(path: str, values: Sequence[Any] = VALUES[:2], keys: Sequence[str] = CHANGED) -> list[Fragment]:
    return family(path, ({key: value} for key, value in product(keys, values)))


def by_name(path: str, name: str, /, keys: Sequence[str] = CHANGED, **others: Sequence[Any]) -> list[Fragment]:
    """Lists of one element. Only the name is common to all kinds of elements."""
    return family(
        path,
        ([{name: key, **dict(zip(others, values, strict=True))}] for key, *values in product(keys, *others.values())),
    )


def optional(path: str, values: Iterable[Any]) -> list[Fragment]:
    return family(path, ({"value": value} for value in values))


def numbers(path: str, of: type[Message]) -> list[Fragment]:
    """Every field of a message that holds numbers, switches and texts."""
    found = []
    for field in of.DESCRIPTOR.fields:
        if field.message_type is None:
            found += family(f"{path}.{field.name}", VALUES[:2])
        else:
            values = (True, False) if field.message_type.name == "OptionalBool" else NUMBERS
            found += optional(f"{path}.{field.name}", values)
    return found


def resources(path: str = "") -> list[list[Fragment]]:
    return [
        numbers(f"{path}memory", api.LinuxMemory),
        numbers(f"{path}cpu", api.LinuxCPU),
        by_name(f"{path}hugepage_limits", "page_size", KEYS, limit=NUMBERS),
        optional(f"{path}blockio_class", VALUES) + optional(f"{path}rdt_class", VALUES),
        family(f"{path}pids.limit", NUMBERS),
        by_name(f"{path}devices", "access", KEYS, allow=(True, False)),
    ]


UNIFIED = by_key("unified", keys=KEYS)
ADJUSTMENT = [
    by_key("annotations"),
    by_name("mounts", "destination", source=VALUES[:2]),
    by_name("env", "key", value=VALUES),
    family("args", (["x"], ["", "y"], [""])),
    [hook for stage in api.Hooks.DESCRIPTOR.fields for hook in by_name(f"hooks.{stage.name}", "path", KEYS)],
    by_name("rlimits", "type", KEYS, hard=NUMBERS),
    by_name("CDI_devices", "name", KEYS),
    by_name("linux.devices", "path", major=NUMBERS),
    *resources("linux.resources."),
    by_key("linux.resources.unified", keys=KEYS),
    family("linux.cgroups_path", VALUES),
    optional("linux.oom_score_adj", NUMBERS),
    family("linux.io_priority.priority", NUMBERS),
    family("linux.seccomp_policy.default_action", VALUES),
    by_name("linux.namespaces", "type", path=VALUES[:2]),
    by_key("linux.sysctl"),
    by_key("linux.net_devices", [{"name": value} for value in VALUES[:2]]),
    family("linux.scheduler.nice", NUMBERS),
    family("linux.memory_policy.nodes", VALUES),
    [
        *optional("linux.rdt.clos_id", VALUES),
        *optional("linux.rdt.schemata", ([], ["x"])),
        *optional("linux.rdt.enable_monitoring", (True, False)),
        *family("linux.rdt.remove", (True,)),
    ],
]
CONTAINER = [
    by_key("annotations", keys=KEYS),
    by_name("mounts", "destination", KEYS),
    family("env", (["a=1"], ["a"], ["b=x=y"], ["=", ""])),
    family("args", (["z"],)),
    by_name("hooks.poststop", "path", KEYS),
    by_name("rlimits", "type", KEYS),
    by_name("linux.devices", "path", KEYS),
    *resources("linux.resources."),
    by_name("linux.namespaces", "type", KEYS),
    by_key("linux.sysctl", keys=KEYS),
    by_key("linux.net_devices", [{"name": "x"}], KEYS),
    family("linux.scheduler.priority", NUMBERS),
]


@st.composite
def of_families(draw: st.DrawFn, of: type[M], families: Sequence[Sequence[Fragment]], most: int) -> M:
    """A message of some pieces; there may be more to say about the same thing."""
    made = of()
    for _ in range(draw(st.integers(0, most))):
        for fragment in draw(st.lists(st.sampled_from(draw(st.sampled_from(families))), min_size=1, max_size=2)):
            ParseDict(fragment, made)
    return made


@st.composite
def updates(draw: st.DrawFn, ids: Sequence[str]) -> api.ContainerUpdate:
    """One update. It sets one unified key: of two, it is Go's map that decides which is claimed before a conflict."""
    update = api.ContainerUpdate(container_id=draw(st.sampled_from(ids)), ignore_failure=draw(st.booleans()))
    if draw(st.integers(0, 9)):
        update.linux.resources.CopyFrom(draw(of_families(api.LinuxResources, resources(), 2)))
    if draw(st.booleans()):
        ParseDict(draw(st.sampled_from(UNIFIED)), update.linux.resources)
    return update


@st.composite
def cases(draw: st.DrawFn, event: str) -> Case:
    """An event, with answers about the same few things; about one in eight is a conflict."""
    container = draw(of_families(api.Container, CONTAINER, 4))
    container.id = "ctr"
    ids = ["d", "e"] * 8 + ["ctr"] if event == "CreateContainer" else ["d", "ctr", "ctr", "ctr"]
    requested = draw(of_families(api.LinuxResources, [*resources(), UNIFIED], 2))
    families = draw(st.lists(st.sampled_from(ADJUSTMENT), min_size=1, max_size=4))
    answers = []
    for _ in range(draw(st.integers(1, len(PLUGINS)))):
        answer = REPLIES[event](update=draw(st.lists(updates(ids), max_size=1 if event == "CreateContainer" else 2)))
        if event == "CreateContainer" and draw(st.integers(0, 9)):
            answer.adjust.CopyFrom(draw(of_families(api.ContainerAdjustment, families, 3)))
        answers.append(answer)
    return Case(event, container, requested, answers)
