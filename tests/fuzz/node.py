"""A node for the fuzzer: the whole adapter behind a stub, its runtime, programs that are scripted, a clock."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from google.protobuf.message import DecodeError

from adapter import settings
from adapter.daemon import router as plugin
from adapter.daemon.router import Adapter
from adapter.errors import AdapterError
from adapter.host.trust import off
from adapter.monitoring.log_lines import JsonFormatter, TextFormatter
from adapter.nri import api
from adapter.nri.events import CALLS
from adapter.settings import HooksSettings, LegacySettings, PluginSettings, Settings
from adapter.wire import Code

from ..legacy.histories import Clock
from ..nri.runtime import Runtime
from ..processes import open_descriptors

PRINTED: tuple[object, ...] = (
    {"plugin": "a", "metadata": {"k": "v"}},
    {"error": "broken"},
    {"spec": {"process": {"env": ["A=2"]}, "linux": {"resources": {"cpu": {"shares": 9}}}}},
    {"adjust": {"annotations": {"a": "b"}, "mounts": [{"destination": "/m", "source": "/s", "type": "bind"}]}},
    {"updates": [{"id": "c2", "resources": {"cpu": {"shares": 5}}}]},
    None,
)
OUTPUTS = (*(json.dumps(each).encode() for each in PRINTED), b"", b"\xff{", b"x" * ((1 << 20) + 1))
ENDS = (0.0, 0.001, 1.7, 31.0, None)  # seconds after its start at which a program ends; None for never
REFUSED = 255  # A program that cannot be started
SCRIPT = 8  # the number of programs in a script, which begins again then
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


class FuzzLoop(Clock):
    """A loop that watches nothing: what is watched are processes that a message has named."""

    def watch(self, *_: object) -> None:
        pass

    unwatch = watch


class Program:
    last_line = ""
    ending = "as it does"

    def __init__(self, node: Node, name: str, on_end: Callable[[Any], object]) -> None:
        self.name, self.pid, self.started = name, 1 << 22, node.loop.time()
        self.status: int | None = None
        self._on_end, self._node = on_end, node
        what = node.script[node.spawns % SCRIPT]
        node.spawns += 1
        if what == REFUSED:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        node.programs.append(self)
        self.stdout = OUTPUTS[what % len(OUTPUTS)]
        self._end = ENDS[what // len(OUTPUTS) % len(ENDS)]

    def feed(self, request: bytes) -> None:
        asked = json.loads(request)
        if self.name == "a":
            self._node.fed[asked["state"], asked["id"]] += 1
        if self.name == "c.json":
            self.stdout = request
        if self._end is not None:
            self._node.loop.call_at(self.started + self._end, lambda: self.end(0))

    @property
    def too_long(self) -> bool:
        return len(self.stdout) > 1 << 20

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
    def __init__(self, script: bytes) -> None:
        own, folder, _ = place()
        self._open_before = open_descriptors()
        self.script = script
        self.loop = FuzzLoop()
        self.programs: list[Program] = []
        self.spawns = 0
        self.log = Log()
        self.due: dict[int, str] = {}  # the calls of the present connection, by stream
        self.fed: Counter[tuple[str, str]] = Counter()
        """The requests for plugin a, which stands twice in conf.json, by state and id."""
        self._listed: set[str] = set()
        for name in ("lock", "journal"):
            (folder / "state" / name).unlink(missing_ok=True)
        loop: Any = self.loop
        self.adapter = Fuzzed(loop, own, "sample", lambda: None)
        self.runtime = self.joined()

    def joined(self) -> Runtime:
        self.due = {}
        self._answered = 0
        runtime = Runtime(self.adapter, clock=self.loop.time)
        self.adapter.send_updates = runtime.stub.update_containers
        runtime.stub.register()
        return runtime

    def rejoin(self) -> None:
        self.adapter.runtime_is_gone()
        self.runtime = self.joined()

    def call(self, method: str, payload: bytes, timeout: float) -> None:
        self.due[2 * len(self.due) + 1] = method
        if method == "Synchronize":
            with suppress(DecodeError):
                listed = api.SynchronizeRequest.FromString(payload)
                self._listed |= {pod.id for pod in listed.pods} | {container.id for container in listed.containers}
        self.runtime.send(method, payload, timeout)

    def wait(self, seconds: float) -> None:
        self.loop.advance(seconds)
        self.answer()

    def answer(self) -> None:
        """The runtime accepts the adapter, and updates containers, or refuses to."""
        for request in self.runtime.requests[self._answered :]:
            self._answered += 1
            is_refused = request.method == "UpdateContainers" and self.script[0] & 1
            self.runtime.answer(request.stream_id, refusal="no" if is_refused else "")

    def finish(self) -> None:
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
        for (state, id_), count in self.fed.items():
            counted = 2 * (id_ in self._listed)  # what ran at the first start counts as created
            assert state != "delete" or count <= self.fed["create", id_] + counted, f"too many deletes of {id_}"

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
        """Closes all that was opened meanwhile, as the end of a process does."""
        for number in open_descriptors() - self._open_before:
            with suppress(OSError):
                os.close(int(number))


@contextmanager
def node(script: bytes, level: int) -> Iterator[Node]:
    """A node whose programs do what the script's bytes say, one after the other, and whose log has a level."""
    made = Node(script)
    log = logging.getLogger("adapter")
    with ExitStack() as stack:
        stack.callback(made.close)
        stack.enter_context(patch.object(plugin, "gc", SimpleNamespace(**dict.fromkeys(GC, lambda *_: None))))
        stack.enter_context(
            patch("adapter.programs.runner.Process", lambda _, program, on_end, __: Program(made, program.name, on_end))
        )
        stack.enter_context(patch("adapter.programs.find.find", lambda type_, *_: type_))
        stack.enter_context(patch.multiple(log, propagate=False, level=level, handlers=[made.log]))
        yield made
