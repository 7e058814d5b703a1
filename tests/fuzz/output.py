"""Target: what a plugin prints.

Holds for all bytes: nothing is raised but ResultError by the reader and NotAdjustable by those who carry out wishes;
what is refused changes nothing; what is accepted can be sent, and the same wish once more changes nothing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from adapter.base import gojson
from adapter.errors import NotAdjustable
from adapter.hooks import precreate
from adapter.legacy import request, result
from adapter.legacy.answer import AnswerBuilder
from adapter.legacy.create_answer import CreateAnswerBuilder
from adapter.legacy.pending_updates import PendingUpdates
from adapter.legacy.result import Result
from adapter.legacy.update_answer import UpdateAnswerBuilder
from adapter.nri import api
from adapter.nri.runtimes import Runtime
from adapter.oci.spec import adjustment

from ..legacy.histories import Clock
from ..oci.cases import FULL
from . import mutations
from .target import Target

POD = api.PodSandbox(id="pod", labels={"of": "pod"})
CONTAINER = api.Container(id="c1", pod_sandbox_id="pod", args=["sleep"], env=["PATH=/bin", "A=1"])
CONTAINER.mounts.add(destination="/data", type="bind", source="/srv", options=["ro"])
CONTAINER.linux.resources.cpu.shares.value = 5
CONTAINER.linux.devices.add(path="/dev/null", type="c", major=1, minor=3)
CREATION = api.CreateContainerRequest(pod=POD, container=CONTAINER)
UPDATE = api.UpdateContainerRequest(pod=POD, container=CONTAINER, linux_resources=api.LinuxResources())


def check(data: bytes) -> None:
    """The bytes are a legacy plugin's output, and a precreate hook's."""
    is_read_as_json(data)
    of_a_hook(data)
    try:
        parsed = result.parse(data)
    except result.ResultError:
        assert not result.is_complete(data)
        return
    assert result.is_complete(data)
    kept = parsed.original()
    assert result.parse(gojson.document(kept.encode())) == kept, "a later plugin gets another result"
    for once, twice in zip(builders(), builders(), strict=True):
        taken(parsed, once, twice)


def is_read_as_json(data: bytes) -> None:
    """The fast decoder takes what the scanner takes, and nothing else."""
    try:
        whole = gojson.document(data)
    except gojson.JSONError:
        whole = b""
    try:
        decoded = gojson.decode(data, levels=2)
    except gojson.JSONError:
        assert not whole, "decode refuses what document takes"
        return
    assert whole, "decode takes what document refuses"
    gojson.document(gojson.compact(whole))
    if isinstance(decoded, gojson.Object):
        assert [key for key, _ in decoded] == [member.key for member in gojson.members(whole)]


def of_a_hook(data: bytes) -> None:
    try:
        adjustment(FULL, precreate.decode(data)).SerializeToString()
    except (ValueError, NotAdjustable):
        return


def builders() -> tuple[AnswerBuilder, ...]:
    """Builders of the answers to a creation, to an update, and to an event that can update other containers only."""
    loop: Any = Clock()
    updates = PendingUpdates(loop)
    updates.known |= {"c2", "c3"}
    target = request.of_container(CONTAINER, POD)
    return (
        CreateAnswerBuilder("CreateContainer", CREATION, target, updates, Runtime(nri=(0, 12, 5)), "x/"),
        UpdateAnswerBuilder("UpdateContainer", UPDATE, target, updates),
        AnswerBuilder("StopContainer", CREATION, target, updates),
    )


def taken(parsed: Result, once: AnswerBuilder, twice: AnswerBuilder) -> None:
    before = once.extension()
    try:
        once.take("plugin", parsed)
    except NotAdjustable as refused:
        str(refused).encode("utf-8", "replace")
        assert once.extension().spec == before.spec, "what is refused changes the spec"
        assert not once.reply(), "what is refused is sent"
        return
    twice.take("plugin", parsed)
    gojson.document(once.extension().spec)
    first = sent(once)
    if parsed.adjust is None:
        twice.take("plugin", parsed)
        assert sent(twice) == first, "the second time changes something"


def sent(builder: AnswerBuilder) -> Any:
    reply = builder.reply()
    return reply if reply is None else type(reply).FromString(reply.SerializeToString())


OFTEN = """
plugin version error metadata spec adjust updates id resources cgroupsPath $patch delete process linux poststop
createRuntime oomScoreAdj rlimits ioPriority hugepageLimits sysctl defaultAction architectures syscalls SCMP_ACT_ALLOW
RLIMIT_NOFILE SCHED_BATCH c2 c3 /data x/
"""
WORDS = tuple(dict.fromkeys([*OFTEN.split(), *mutations.names(api.ContainerAdjustment.DESCRIPTOR)]))

# fmt: off
SEEDS: tuple[dict[str, Any], ...] = (
    {"plugin": "a", "version": "0.1", "error": "broken", "metadata": {"a": "b", "c": "<\u2028>"}},
    {"spec": FULL},
    {"spec": {"process": {"env": ["A=2", "B=3"], "args": ["sh"], "oomScoreAdj": 5}, "cgroupsPath": "/other"}},
    {"spec": {"mounts": [{"destination": "/data", "$patch": "delete"}, {"destination": "/n", "source": "/n"}]}},
    {"spec": {"linux": {"resources": {"cpu": {"shares": 7, "cpus": "0-1"}, "memory": {"limit": 1 << 30}}}}},
    {"spec": {"linux": {"devices": [{"path": "/dev/x", "type": "c", "major": 1, "minor": 9}], "sysctl": {"a": "1"}}}},
    {"spec": {"linux": {"resources": {"pids": {"limit": 5}, "unified": {"a": "b"}, "hugepageLimits": None}}}},
    {"spec": {"hooks": {"prestart": [{"path": "/bin/hook", "timeout": 5}]}, "annotations": {"a": "b", "c": None}}},
    {"adjust": {"env": [{"key": "A", "value": "1"}], "mounts": [{"destination": "/m"}],
        "CDI_devices": [{"name": "x"}]}},
    {"adjust": {"linux": {"resources": {"cpu": {"shares": {"value": "4"}}}, "net_devices": {"e": {"name": "f"}}}}},
    {"updates": [{"id": "c2", "resources": {"cpu": {"shares": 5}, "memory": {"limit": 1 << 20}}}]},
)
# fmt: on


def seeds() -> Iterator[bytes]:
    yield json.dumps(FULL).encode()
    yield from (json.dumps(seed, separators=(",", ":")).encode() for seed in SEEDS)
    yield from (b"", b"null", b"{}", b"[]", b' {"a":1e400} ', b'{"error":"\\ud800\\u0000"}', b'{"plugin":"\xff"}x')


def mutate(data: bytes, dice: random.Random) -> bytes:
    return mutations.json_text(data, dice, WORDS)


TARGET = Target(check, seeds, mutate, WORDS)
