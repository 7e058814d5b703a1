"""Target: NRI's calls and what plugins print, to the whole adapter behind a stub, with programs as a script says.

Holds for all messages: each call is answered once, with a response that can be decoded or an error; nothing is raised
or logged but declared errors; each record is one line of the log; when all programs have ended, nothing is under way.
"""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

from google.protobuf.message import DecodeError, Message

from nri import api
from nri.errors import NRIError
from nri.events import CALLS
from nri.wire import Code
from v010_adapter import settings
from v010_adapter.base import collector
from v010_adapter.container_files.recording import read
from v010_adapter.daemon.adapter import Adapter
from v010_adapter.host.trust import off
from v010_adapter.legacy.pending_updates import OnUpdated
from v010_adapter.monitoring.logs import LineFormatter
from v010_adapter.settings import HooksSettings, LegacySettings, PluginSettings, Settings

from ..oci.cases import FULL
from ..rig.played import PlayedLoop, PlayedProgram
from ..rig.processes import open_descriptors
from ..rig.serving import Link
from ..rig.trunk import Runtime
from . import mutations
from .target import Target

GOLDEN = Path(__file__).parents[1] / "golden"
REJOIN = "rejoin"
OUTPUT = "output"
"""In place of a call: what all programs print from now on."""
METHODS = (*CALLS, REJOIN, "NoSuchMethod", OUTPUT)
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


# The node


OUTPUTS = (
    b'{"plugin": "a", "metadata": {"k": "v"}}',
    b'{"error": "broken"}',
    b"null",
    b"",
    b"\xff{",
    b"x" * ((1 << 20) + 1),
)
# fmt: off
WISHES: tuple[dict[str, Any], ...] = (
    {"spec": FULL},
    {"spec": {"process": {"env": ["A=2", "B=3"], "oomScoreAdj": 5}, "annotations": {"a": "b", "c": None}}},
    {"spec": {"mounts": [{"destination": "/data", "$patch": "delete"}, {"destination": "/n", "source": "/n"}]}},
    {"spec": {"linux": {"resources": {"cpu": {"shares": 7}, "pids": {"limit": 5}, "unified": {"a": "b"}}}}},
    {"spec": {"hooks": {"prestart": [{"path": "/bin/hook", "timeout": 5}]}}},
    {"adjust": {"env": [{"key": "A", "value": "1"}], "mounts": [{"destination": "/m"}], "CDI_devices": [{"name": ""}]}},
    {"adjust": {"linux": {"resources": {"cpu": {"shares": {"value": "4"}}}, "net_devices": {"e": {"name": "f"}}}}},
    {"updates": [{"id": "c2", "resources": {"cpu": {"shares": 5}, "memory": {"limit": 1 << 20}}}]},
)
# fmt: on
OFTEN = """plugin version error metadata spec adjust updates id resources cgroupsPath $patch delete process linux
poststop createRuntime oomScoreAdj rlimits ioPriority hugepageLimits sysctl defaultAction architectures syscalls
SCMP_ACT_ALLOW RLIMIT_NOFILE SCHED_BATCH c2 /data x/"""
WORDS = (*OFTEN.split(), *mutations.names(api.ContainerAdjustment.DESCRIPTOR))
SCRIPT = 8
"""What programs print, as the number of an output; the script begins again then."""
HANGS, REFUSED = 254, 255
"""In a script, a program that prints nothing and does not end, and one that cannot be started."""
GC = ("collect", "freeze", "set_threshold", "enable")
"""What the adapter asks of the garbage collector, which must not keep what an input has made."""
ENTRIES: tuple[dict[str, object], ...] = ({"type": "a"}, {"type": "b", "conf": {"n": 1}}, {"type": "a"}, {"type": "c"})
"""What conf.json has."""
EVENTS = {
    "b": ("CreateContainer", "UpdateContainer", "StopContainer", "RemovePodSandbox", "PostUpdateContainer"),
    "c": ("StartContainer", "StopContainer", "UpdatePodSandbox"),
}
"""The plugins' events."""


@cache
def place() -> tuple[Settings, Path, object]:
    """The settings and the files of a node, which last as long as this process: until the last reference has gone."""
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
    return Settings(legacy=legacy, hooks=hooks, state_directory=str(folder / "state")), folder, keep


class Fuzzed(Adapter):
    """An adapter that reads the runtime's configuration text, and does not do what it says."""

    def take_configuration(self, text: str) -> None:
        settings.parse(text, "configuration from the runtime")


class FuzzLoop(PlayedLoop):
    """A loop that watches nothing: what is watched are processes that a message has named."""

    quiet_at = 0.0

    def watch(self, *_: object) -> None:
        pass

    unwatch = watch


class FuzzedProgram(PlayedProgram):
    """A program as the script says it: it prints and ends as soon as it has its request, or hangs."""

    stdout = b""

    def __init__(self, node: FuzzedNode, name: str, on_end: Callable[[Any], object]) -> None:
        super().__init__(node.loop, name, on_end)
        self.pid = 1 << 22
        self._what = next(node.script)
        if self._what == REFUSED:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        node.programs.append(self)
        self.stdout = node.outputs[self._what % len(node.outputs)]

    def feed(self, request: bytes) -> None:
        json.loads(request)
        if self.name == "c.json":
            self.stdout = request
        if self._what != HANGS:
            self.clock.call_soon(lambda: self.end(0))


class Log(logging.Handler):
    """Notes the records that no adapter should write."""

    def __init__(self) -> None:
        super().__init__()
        self.bugs: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """A record must be one line in both formats; a traceback is a bug."""
        if record.exc_info and not isinstance(record.exc_info[1], NRIError):
            self.bugs.append(LineFormatter().format(record))
            return
        lines = LineFormatter().format(record), LineFormatter(as_json=True).format(record)
        json.loads(lines[1])
        if any("\n" in line or "cannot be written" in line for line in lines):
            self.bugs.append(lines[0])


class FuzzedNode(Link):
    def __init__(self, script: bytes) -> None:
        super().__init__()
        own, folder, _ = place()
        self._open_before = open_descriptors()
        self.script, self.refuses_updates = cycle(script), script[0] & 1
        self.loop = FuzzLoop()
        self.programs: list[FuzzedProgram] = []
        self.outputs: Sequence[bytes] = OUTPUTS
        self.log = Log()
        shutil.rmtree(folder / "state", ignore_errors=True)
        loop: Any = self.loop
        self.adapter = Fuzzed(loop, own, [], "sample", self)
        self.join()

    def join(self) -> None:
        self.due: dict[int, str] = {}  # the calls of the connection, by stream
        self._answered = 0
        self.runtime = Runtime(self.adapter, clock=self.loop.time)
        self.runtime.stub.register()

    def send_updates(self, updates: list[api.ContainerUpdate], on_reply: OnUpdated) -> None:
        self.runtime.stub.update_containers(updates, on_reply)

    def play(self, call: Call) -> None:
        if call.name == REJOIN:
            self.adapter.on_runtime_gone()
            self.join()
        elif call.name == OUTPUT:
            self.outputs = [call.payload]
        else:
            self.due[2 * len(self.due) + 1] = call.name
            self.runtime.send(call.name, call.payload, TIMEOUTS[call.timeout % len(TIMEOUTS)])
        self.loop.advance(WAITS[call.wait % len(WAITS)])
        for request in self.runtime.requests[self._answered :]:
            self._answered += 1
            is_refused = request.method == "UpdateContainers" and self.refuses_updates
            self.runtime.answer(request.stream_id, refusal="no" if is_refused else "")

    def finish(self) -> None:
        """Each call of the connection has one answer (the runtime's end looks after that), which can be read."""
        self.loop.advance(100)
        for stream_id, method in self.due.items():
            reply = self.runtime.reply(stream_id)
            assert reply is not None, f"{method} is not answered"
            assert (reply.code == Code.UNIMPLEMENTED) == (method not in CALLS), reply
            if method in CALLS:
                CALLS[method].response.FromString(reply.payload)
        for _ in range(100):
            for program in self.programs:
                program.end(0)
            self.loop.advance(1000)
        idle: list[bool] = []
        self.adapter.when_idle(lambda: idle.append(True))
        assert idle, "something is under way still"
        self.adapter.on_runtime_gone()
        assert not self.log.bugs, "\n".join(self.log.bugs)

    def close(self) -> None:
        """Closes all that was opened meanwhile, as the end of a process does."""
        for number in open_descriptors() - self._open_before:
            with suppress(OSError):
                os.close(int(number))


@contextmanager
def node(script: bytes, level: int) -> Iterator[FuzzedNode]:
    """A node whose programs do what the script's bytes say, one after the other, and whose log has a level."""
    made = FuzzedNode(script)
    log = logging.getLogger("v010_adapter")
    with ExitStack() as stack:
        stack.callback(made.close)
        stack.enter_context(patch.object(collector, "gc", SimpleNamespace(**dict.fromkeys(GC, lambda *_: None))))
        stack.enter_context(
            patch(
                "v010_adapter.programs.process.Process",
                lambda _, program, on_end, __: FuzzedProgram(made, program.name, on_end),
            )
        )
        stack.enter_context(patch("v010_adapter.legacy.find.find", lambda type_, *_: type_))
        stack.enter_context(patch.multiple(log, propagate=False, level=level, handlers=[made.log]))
        yield made


def check(data: bytes) -> None:
    script = data[:SCRIPT].ljust(SCRIPT, b"\0")
    level = logging.DEBUG if script[1] % 4 == 0 else logging.INFO  # whole requests in the log take their time
    with node(script, level) as played:
        for call in calls_in(data):
            played.play(call)
        played.finish()


# Inputs


def seeds() -> Iterator[bytes]:
    """The life of a pod as containerd has sent it, and each event for itself behind a Synchronize."""
    life = [named(*recorded) for recorded in read(GOLDEN / "containerd-2.4.2" / "events-one-pod.jsonl")]
    half = len(life) // 2
    yield written(bytes(range(0, 4 * SCRIPT, 4)), [*life[:half], named(REJOIN, api.Empty()), *life[:2], *life[half:]])
    yield written(bytes(SCRIPT), [*START, named(REJOIN, api.Empty()), *START])
    yield from (written(bytes(SCRIPT), [*START, named(*event)]) for event in small_events())
    for wish in WISHES:
        printed = Call(METHODS.index(OUTPUT), 0, 0, json.dumps(wish).encode())
        changes = [named(*event) for event in small_events() if event[0] in EVENTS["b"]]
        yield written(bytes(SCRIPT), [*START, printed, *changes])
    events = [named(*event) for event in small_events()]
    yield written(bytes(SCRIPT), [*START, *events, named(REJOIN, api.Empty()), *START])


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
    if call.name == OUTPUT:
        return call._replace(payload=mutations.json_text(call.payload, dice, WORDS))
    if call.name not in CALLS or dice.random() < 0.2:
        number = dice.randrange(len(METHODS))
        changes = call._replace(method=number), call._replace(timeout=number), call._replace(wait=number)
        return dice.choice(changes)
    try:
        message = CALLS[call.name].request.FromString(call.payload)
    except DecodeError:
        return call._replace(payload=b"")
    return call._replace(payload=mutations.message(message, dice).SerializeToString())


TARGET = Target(check, seeds, mutate, WORDS)
