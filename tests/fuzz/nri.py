"""Target: NRI's calls, to the whole adapter behind a stub, with programs that are scripted and a clock that is moved.

Holds for all messages: each call is answered once, with a response that can be decoded or an error; nothing is raised
or logged but declared errors; each record is one line of the log; no delete comes without a create; when all programs
have ended, nothing is under way.
"""

from __future__ import annotations

import logging
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError, Message

from adapter.nri import api
from adapter.nri.events import CALLS
from adapter.runtime import read

from . import mutations
from .node import SCRIPT, node
from .target import Target

GOLDEN = Path(__file__).parents[1] / "golden"
REJOIN = "rejoin"
METHODS = (*CALLS, REJOIN, "NoSuchMethod")
TIMEOUTS = (2.0, 0.3, 0.0, 60.0, -1.0)
WAITS = (0.0, 0.0, 0.001, 0.5, 1.95, 6.0, 40.0)  # seconds that pass behind a call
HEAD = struct.Struct(">BBBH")


class Call(NamedTuple):
    """A call, or another thing that happens: by its place in METHODS, with numbers of TIMEOUTS and WAITS."""

    method: int
    timeout: int
    wait: int
    payload: bytes

    @property
    def name(self) -> str:
        return METHODS[self.method % len(METHODS)]


def calls_in(data: bytes) -> Iterator[Call]:
    at = SCRIPT
    while at + HEAD.size <= len(data):
        method, timeout, wait, length = HEAD.unpack_from(data, at)
        at += HEAD.size
        yield Call(method, timeout, wait, data[at : at + length])
        at += length


def written(script: bytes, calls: list[Call]) -> bytes:
    return script[:SCRIPT].ljust(SCRIPT, b"\0") + b"".join(
        HEAD.pack(*numbers, len(payload)) + payload for *numbers, payload in calls if len(payload) < 1 << 16
    )


def check(data: bytes) -> None:
    script = data[:SCRIPT].ljust(SCRIPT, b"\0")
    level = logging.DEBUG if script[1] % 4 == 0 else logging.INFO  # whole requests in the log take their time
    with node(script, level) as played:
        for call in calls_in(data):
            if call.name == REJOIN:
                played.rejoin()
            else:
                played.call(call.name, call.payload, TIMEOUTS[call.timeout % len(TIMEOUTS)])
            played.wait(WAITS[call.wait % len(WAITS)])
        played.finish()


# Inputs


def seeds() -> Iterator[bytes]:
    """The life of a pod as containerd has sent it, and each event for itself behind a Synchronize."""
    life = [named(*recorded) for recorded in read(GOLDEN / "containerd-2.4.2" / "events-one-pod.jsonl")]
    half = len(life) // 2
    yield written(bytes(range(0, 4 * SCRIPT, 4)), [*life[:half], named(REJOIN, api.Empty()), *life[:2], *life[half:]])
    yield written(bytes(SCRIPT), [*START, named(REJOIN, api.Empty()), *START])
    yield from (written(bytes(SCRIPT), [*START, named(*event)]) for event in small_events())
    yield written(
        bytes(SCRIPT), [*START, *(named(*event) for event in small_events()), named(REJOIN, api.Empty()), *START]
    )


def named(event: str, request: Message) -> Call:
    return Call(METHODS.index(event), 0, 3, request.SerializeToString())


def small_events() -> Iterator[tuple[str, Message]]:
    fields: dict[str, Any] = {"pod": POD, "container": CONTAINER, "linux_resources": RESOURCES}
    fields["event"] = api.RUN_POD_SANDBOX
    for method, call in CALLS.items():
        known = call.request.DESCRIPTOR.fields_by_name
        yield method, call.request(**{name: value for name, value in fields.items() if name in known})


RESOURCES = api.LinuxResources(cpu=api.LinuxCPU(cpus="0"))
POD = api.PodSandbox(id="pod", pid=11, labels={"of": "pod"}, linux=api.LinuxPodSandbox(cgroups_path="/pod"))
CONTAINER = api.Container(id="c1", pod_sandbox_id="pod", state=api.CONTAINER_RUNNING, args=["sleep"])
CONTAINER.annotations["of"] = "c1"
CONTAINER.mounts.add(destination="/data", type="bind", source="/srv")
CONTAINER.linux.MergeFrom(api.LinuxContainer(cgroups_path="/c1", resources=RESOURCES))
NEWEST = api.ConfigureRequest(config="{}", runtime_name="containerd", runtime_version="1.7.35", NRI_version="v0.12.5")
LISTED = api.SynchronizeRequest(pods=[POD], containers=[api.Container(id="c2", pod_sandbox_id="pod")])
START = named("Configure", NEWEST), named("Synchronize", LISTED)


def mutate(data: bytes, dice: random.Random) -> bytes:
    calls = list(calls_in(data)) or [*START]
    index = dice.randrange(len(calls))
    old, changed = calls[index], mutated(calls[index], dice)
    more: list[list[Call]] = [[], [old, changed], [dice.choice(calls)], [changed, dice.choice(START)]]
    calls[index : index + 1] = dice.choice(([changed], dice.choice(more)))
    script = bytearray(data[:SCRIPT].ljust(SCRIPT, b"\0"))
    script[dice.randrange(SCRIPT)] = dice.randrange(256)
    return written(bytes(script) if dice.random() < 0.3 else data, calls)


def mutated(call: Call, dice: random.Random) -> Call:
    if call.name not in CALLS or dice.random() < 0.2:
        number = dice.randrange(len(METHODS))
        changes = call._replace(method=number), call._replace(timeout=number), call._replace(wait=number)
        return dice.choice(changes)
    try:
        message = CALLS[call.name].request.FromString(call.payload)
    except DecodeError:
        return call._replace(payload=b"")
    return call._replace(payload=mutations.message(message, dice).SerializeToString())


TARGET = Target(check, seeds, mutate)
