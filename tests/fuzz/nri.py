"""Target: NRI's calls, to the whole adapter behind a stub, with programs that are scripted and a clock that is moved.

Holds for all messages: each call is answered once, with a response that can be decoded or an error; nothing is raised
or logged but declared errors; each record is one line of the log; when all programs have ended, nothing is under way.
"""

from __future__ import annotations

import json
import logging
import os
import random
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

from google.protobuf.message import DecodeError, Message

from adapter import plugin, settings
from adapter.errors import AdapterError
from adapter.log_lines import JsonFormatter, TextFormatter
from adapter.nri import api
from adapter.nri.events import CALLS
from adapter.plugin import Adapter
from adapter.runtime import read
from adapter.settings import HooksSettings, LegacySettings, PluginSettings, Settings
from adapter.trust import off
from adapter.wire import Code

from ..legacy.histories import Clock
from ..nri.runtime import Runtime
from . import mutations
from .target import Target

GOLDEN = Path(__file__).parents[1] / "golden"
REJOIN = "rejoin"
METHODS = (*CALLS, REJOIN, "NoSuchMethod")
TIMEOUTS = (2.0, 0.3, 0.0, 60.0, -1.0)
WAITS = (0.0, 0.0, 0.001, 0.5, 1.95, 6.0, 40.0)
"""Seconds that pass behind a call."""
PRINTED: tuple[object, ...] = (
    {"plugin": "a", "metadata": {"k": "v"}},
    {"error": "broken"},
    {"spec": {"process": {"env": ["A=2"]}, "linux": {"resources": {"cpu": {"shares": 9}}}}},
    {"adjust": {"annotations": {"a": "b"}, "mounts": [{"destination": "/m", "source": "/s", "type": "bind"}]}},
    {"updates": [{"id": "c2", "resources": {"cpu": {"shares": 5}}}]},
    None,
)
OUTPUTS = (*(json.dumps(each).encode() for each in PRINTED), b"", b"\xff{", b"x" * ((1 << 20) + 1))
ENDS = (0.0, 0.001, 1.7, 31.0, None)
"""Seconds after its start at which a program ends; None for never."""
REFUSED = 255
"""A program that cannot be started."""
SCRIPT = 8
"""Bytes at the beginning of an input: what the programs do, one after the other and then again."""
HEAD = struct.Struct(">BBBH")
GC = ("collect", "freeze", "set_threshold", "enable")
"""What the adapter asks of the garbage collector, which must not keep what an input has made."""
ENTRIES: tuple[dict[str, object], ...] = ({"type": "a"}, {"type": "b", "conf": {"n": 1}}, {"type": "a"}, {"type": "c"})
"""What conf.json has."""
EVENTS = {
    "b": ("CreateContainer", "UpdateContainer", "StopContainer", "RemovePodSandbox", "PostUpdateContainer"),
    "c": ("StartContainer", "StopContainer", "UpdatePodSandbox"),
}
"""The plugins' events."""


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
    """The calls in an input, whatever it is."""
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


# The node


class Place(NamedTuple):
    """The files of a node, which last as long as this process."""

    keep: object
    folder: str
    settings: Settings


@cache
def place() -> Place:
    keep = tempfile.TemporaryDirectory(prefix="fuzz-nri-")
    folder = Path(keep.name)
    (folder / "conf.json").write_text(json.dumps({"version": "0.1", "plugins": ENTRIES}))
    (folder / "hooks.d").mkdir()
    whens = {"a": {"annotations": {"^of$": ".*"}}, "b": {"commands": ["^s"]}, "c": {"hasBindMounts": True}}
    for name, when in whens.items():
        stages = ["precreate"] if name == "c" else ["prestart", "poststop"]
        hook = {"version": "1.0.0", "hook": {"path": "/bin/sh", "args": [name]}, "when": when, "stages": stages}
        (folder / "hooks.d" / f"{name}.json").write_text(json.dumps(hook))
    own = {name: PluginSettings(events=frozenset(events)) for name, events in EVENTS.items()}
    legacy = LegacySettings(str(folder / "conf.json"), (), metadata_prefix="x/", plugins=own, trust=off)
    hooks = HooksSettings(directories=(str(folder / "hooks.d"),), watch=False, precreate=True, trust=off)
    return Place(keep, str(folder), Settings(legacy=legacy, hooks=hooks, state_directory=str(folder / "state")))


class Fuzzed(Adapter):
    """An adapter that reads the runtime's configuration text, and does not do what it says."""

    def take_configuration(self, text: str) -> None:
        settings.parse(text, "configuration from the runtime")


class FuzzLoop(Clock):
    """A loop that watches nothing: what is watched are processes that a message has named."""

    def watch(self, *_: object) -> None:
        pass

    unwatch = watch


class Program:
    """In place of a process."""

    def __init__(self, node: Node, name: str, on_end: Callable[[Any], object]) -> None:
        self.name, self.pid, self.started = name, 1 << 22, node.loop.time()
        self.status: int | None = None
        self._on_end, self._node = on_end, node
        what = node.script[node.spawns % SCRIPT]
        node.spawns += 1
        if what == REFUSED:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        node.programs.append(self)
        self._output = OUTPUTS[what % len(OUTPUTS)]
        self._end = ENDS[what // len(OUTPUTS) % len(ENDS)]

    def feed(self, request: bytes) -> None:
        json.loads(request)
        if self.name == "c.json":
            self._output = request
        if self._end is not None:
            self._node.loop.call_at(self.started + self._end, lambda: self.end(0))

    @property
    def stdout(self) -> bytes:
        return self._output

    @property
    def too_long(self) -> bool:
        return len(self._output) > 1 << 20

    @property
    def ending(self) -> str:
        return "still running" if self.status is None else f"exit code {self.status}"

    def leave(self) -> None:
        pass

    def kill(self) -> None:
        self._node.loop.call_soon(lambda: self.end(-9))

    def end(self, status: int) -> None:
        if self.status is None:
            self.status = status
            self._on_end(self)


class Log(logging.Handler):
    """Notes the records that no adapter should write."""

    def __init__(self) -> None:
        super().__init__()
        self.bugs: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """A record must be one line in both formats; a traceback is a bug."""
        if record.exc_info and not isinstance(record.exc_info[1], AdapterError):
            self.bugs.append(TextFormatter().format(record))
            return
        lines = TextFormatter().format(record), JsonFormatter().format(record)
        json.loads(lines[1])
        if any("\n" in line or "cannot be written" in line for line in lines):
            self.bugs.append(lines[0])


class Node:
    """A node with an adapter, its runtime, and its log."""

    def __init__(self, script: bytes) -> None:
        self.script = script
        self.loop = FuzzLoop()
        self.programs: list[Program] = []
        self.spawns = 0
        self.log = Log()
        self.due: dict[int, str] = {}
        """The calls of the present connection, by stream."""
        for name in ("lock", "journal"):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(place().folder, "state", name))
        loop: Any = self.loop
        self.adapter = Fuzzed(loop, place().settings, "sample", lambda: None)
        self.runtime = self.joined()

    def joined(self) -> Runtime:
        """A new connection."""
        self.due = {}
        self._answered = 0
        runtime = Runtime(self.adapter)
        runtime.stub._clock = self.loop.time
        self.adapter.update_containers = runtime.stub.update_containers
        runtime.stub.register()
        return runtime

    def play(self, call: Call) -> None:
        """Something happens, and time passes; the runtime answers what it is asked."""
        if call.name == REJOIN:
            self.adapter.runtime_is_gone()
            self.runtime = self.joined()
        else:
            self.due[2 * len(self.due) + 1] = call.name
            self.runtime.send(call.name, call.payload, TIMEOUTS[call.timeout % len(TIMEOUTS)])
        self.loop.advance(WAITS[call.wait % len(WAITS)])
        self.answer()

    def answer(self) -> None:
        """The runtime accepts the adapter, and updates containers, or refuses to."""
        for request in self.runtime.requests[self._answered :]:
            self._answered += 1
            is_refused = request.method == "UpdateContainers" and self.script[0] & 1
            self.runtime.answer(request, code=Code.UNKNOWN if is_refused else Code.OK)

    def finish(self) -> None:
        """All answers are due, all programs end."""
        self.loop.advance(100)
        self.judge()
        for _ in range(100):
            while self.programs:
                self.programs.pop().end(0)
            self.loop.advance(1000)
        idle: list[bool] = []
        self.adapter.when_idle(lambda: idle.append(True))
        assert idle, "something is under way still"
        self.adapter.runtime_is_gone()
        assert not self.log.bugs, "\n".join(self.log.bugs)

    def judge(self) -> None:
        """Each call of the connection has one answer (the runtime's end looks after that), which can be read."""
        for stream_id, method in self.due.items():
            reply = self.runtime.reply(stream_id)
            assert reply is not None, f"{method} is not answered"
            if method not in CALLS:
                assert reply.code == Code.UNIMPLEMENTED
                continue
            assert reply.code != Code.UNIMPLEMENTED, reply
            CALLS[method].response.FromString(reply.payload)

    def close(self) -> None:
        """Closes what the end of a process closes."""
        members = self.adapter.__dict__
        if "_owner" in members:
            os.close(self.adapter._owner._fd)
        if "legacy" in members:
            self.adapter.legacy.ledger.keep_in(None)
            for id_ in list(self.adapter.legacy._pods._pidfds):
                self.adapter.legacy._pods.forget(id_)


def check(data: bytes) -> None:
    """What the programs do, then calls."""
    log = logging.getLogger("adapter")
    level = logging.DEBUG if sum(data[1:2]) % 4 == 0 else logging.INFO  # whole requests in the log take their time
    with ExitStack() as stack:
        node = Node(data[:SCRIPT].ljust(SCRIPT, b"\0"))
        stack.callback(node.close)
        stack.enter_context(patch.object(plugin, "gc", SimpleNamespace(**dict.fromkeys(GC, lambda *_: None))))
        stack.enter_context(patch("adapter.job.runner.Process", lambda _, name, *rest: Program(node, name, rest[3])))
        stack.enter_context(patch("adapter.legacy.programs.find", lambda type_, *_: type_))
        stack.enter_context(patch.multiple(log, propagate=False, level=level, handlers=[node.log]))
        for call in calls_in(data):
            node.play(call)
        node.finish()


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
    """Each event with a small pod and container."""
    for method, call in CALLS.items():
        fields: dict[str, Any] = {
            "pod": POD,
            "container": CONTAINER,
            "linux_resources": RESOURCES,
            "event": api.RUN_POD_SANDBOX,
        }
        known = call.request.DESCRIPTOR.fields_by_name
        yield method, call.request(**{name: value for name, value in fields.items() if name in known})


RESOURCES = api.LinuxResources(cpu=api.LinuxCPU(cpus="0"))
POD = api.PodSandbox(id="pod", pid=11, labels={"of": "pod"}, linux=api.LinuxPodSandbox(cgroups_path="/pod"))
CONTAINER = api.Container(
    id="c1",
    pod_sandbox_id="pod",
    state=api.CONTAINER_RUNNING,
    args=["sleep"],
    annotations={"of": "c1"},
    mounts=[api.Mount(destination="/data", type="bind", source="/srv")],
    linux=api.LinuxContainer(cgroups_path="/c1", resources=RESOURCES),
)
START = (
    named(
        "Configure",
        api.ConfigureRequest(config="{}", runtime_name="containerd", runtime_version="1.7.35", NRI_version="v0.12.5"),
    ),
    named("Synchronize", api.SynchronizeRequest(pods=[POD], containers=[api.Container(id="c2", pod_sandbox_id="pod")])),
)


def mutate(data: bytes, dice: random.Random) -> bytes:
    """Changes a field of a call, or drops, repeats or replaces calls."""
    calls = list(calls_in(data)) or [*START]
    index = dice.randrange(len(calls))
    changed = mutated(calls[index], dice)
    calls[index : index + 1] = dice.choice(
        (
            [changed],
            [changed],
            [changed],
            [],
            [calls[index], changed],
            [dice.choice(calls)],
            [changed, dice.choice(START)],
        )
    )
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
    mutations.message(message, dice)
    return call._replace(payload=message.SerializeToString())


TARGET = Target(check, seeds, mutate)
