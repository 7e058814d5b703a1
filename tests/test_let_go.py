"""At the end of an event nothing of it is left, though the garbage collector does not run."""

from __future__ import annotations

import gc
import json
import logging
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import compress, filterfalse
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from inotify_simple import INotify  # type: ignore[import-untyped]

from nri import api
from nri.wire import Code
from v010_adapter.base import collector
from v010_adapter.daemon.adapter import Adapter
from v010_adapter.events.precreate import Edits
from v010_adapter.events.work import PluginWork
from v010_adapter.legacy.answer import AnswerBuilder
from v010_adapter.oci.sizes import MAX_STRING
from v010_adapter.programs.apart import RESERVE
from v010_adapter.programs.process import Process
from v010_adapter.settings import parse

from .rig.brief import CI, few
from .rig.loop import SteppedLoop
from .rig.processes import children, open_descriptors
from .rig.programs import Fifo, Programs
from .rig.serving import Link
from .rig.trunk import Runtime

MARK = "of-the-event-"
"""What the large field of the container consists of."""
LARGE = 20_000
"""From this size on, in bytes, an object is searched for the mark."""
EVENT = 2.0
"""Seconds of an event."""
SUCCESS = "cat >/dev/null; echo '{}'"
EDIT = """cat >/dev/null; echo '{"spec":{"annotations":{"added":"1"}},"metadata":{"a":"b"}}'"""


class Events:
    """An adapter in this process, and the runtime's events; the collector is off."""

    def __init__(self, loop: SteppedLoop, folder: Path, programs: Programs) -> None:
        self._loop, self._folder, self._programs = loop, folder, programs
        self.refs: list[weakref.ref[Any]] = []
        """What has been made for events."""
        self.last = 0

    def start(self, scripts: dict[str, str], *hooks: str, limit: float = 0, **own: Any) -> None:
        """Joins, with these legacy plugins, hooks of these stages, and settings of the `legacy:` part.

        With a `limit`, events have so many seconds, and time stands still.
        """
        self._limit = limit or 24 * 3600
        if not limit:
            self._loop.time = time.monotonic
        for name, script in scripts.items():
            self._programs.shell(name, script)
        listed = [{"type": name} for name in scripts]
        (self._folder / "conf.json").write_text(json.dumps({"version": "0.1", "plugins": listed}))
        (self._folder / "hooks.d").mkdir()
        for stage in hooks:
            hook = {"path": str(self._programs.shell(f"hook-{stage}", "cat"))}
            file = {"version": "1.0.0", "hook": hook, "when": {"always": True}, "stages": [stage]}
            (self._folder / f"hooks.d/{stage}.json").write_text(json.dumps(file))
        config = {
            "legacy": {"config": f"{self._folder}/conf.json", "path": [str(self._programs.folder)], **own},
            "hooks": {"enabled": bool(hooks), "precreate": True, "directories": [f"{self._folder}/hooks.d"]},
            "state": {"directory": f"{self._folder}/state"},
        }
        settings, errors = parse(json.dumps(config), "here")
        assert not errors
        self.adapter = Adapter(self._loop, settings, [], "name", Link())
        self._runtime = Runtime(self.adapter, clock=self._loop.time)
        containerd = api.ConfigureRequest(runtime_name="containerd", runtime_version="2.4.2", NRI_version="v0.12.3")
        self._runtime.configure(containerd)
        self._runtime.call("Synchronize")
        self._loop.settle()

    def begin(self, event: str, size: int, variable: int = 100) -> None:
        """The event of a container of so many bytes comes. No message stays with the caller.

        `variable` is how often a variable of the container has the mark.
        """
        made = getattr(api, f"{event}Request")()
        made.pod.id, made.pod.annotations["x"] = "p", MARK * (min(size, 200_000) // len(MARK))
        made.container.id, made.container.pod_sandbox_id, made.container.args[:] = "c", "p", ["sh"]
        numbers = range(size // (variable * len(MARK)))
        made.container.env.extend(f"{MARK}{number}={MARK * variable}" for number in numbers)
        self.last = self._runtime.ask(event, made.SerializeToString(), self._limit)

    def end(self) -> int:
        """Waits until the event is answered and all is done; returns the code of the answer."""
        self._loop.until(lambda: self._runtime.reply(self.last) is not None, "an answer")
        idle: list[bool] = []
        self.adapter.when_idle(lambda: idle.append(True))
        self._loop.until(lambda: bool(idle), "the end of the work")
        return self.answered()

    def answered(self) -> int:
        self._loop.settle()
        reply = self._runtime.reply(self.last)
        assert reply is not None
        self._runtime.heard.clear()  # the answer has parts of the request
        return reply.code

    def is_kept(self) -> str:
        """Returns what has been made for events and is left; empty if nothing is."""
        left = {type(made).__name__ for ref in self.refs if (made := ref()) is not None}
        return ", ".join(sorted(left | set(texts_with_mark())))


def texts_with_mark() -> Iterator[str]:
    """Yields the types of large objects with the mark, and of what holds them: the collector knows no bytes itself.

    The heap has millions of objects, so Python's own code runs for few of them.
    """
    held = gc.get_referents(*gc.get_objects())
    held += gc.get_referents(*filterfalse(gc.is_tracked, of_types((dict, tuple), held)))
    texts = of_types((str, bytes, bytearray), held)
    large = compress(texts, map(LARGE.__lt__, map(len, texts)))
    found = {id(each): each for each in (*large, *of_types((memoryview, Message), held)) if has_mark(each)}
    del held, texts
    for each in found.values():
        holders = {type(holder).__name__ for holder in gc.get_referrers(each) if holder is not found}
        yield f"{type(each).__name__} in {', '.join(sorted(holders)) or 'what the collector does not know'}"


def of_types(types: tuple[type, ...], objects: list[Any]) -> list[Any]:
    """Returns the objects that are of these types, or of subclasses."""
    wanted = {type_ for type_ in set(map(type, objects)) if issubclass(type_, types)}
    return list(compress(objects, map(wanted.__contains__, map(type, objects))))


def has_mark(each: object) -> bool:
    if isinstance(each, Message):
        return each.ByteSize() > LARGE and MARK.encode() in each.SerializeToString()
    if isinstance(each, memoryview):
        return each.nbytes > LARGE and MARK.encode() in bytes(each)
    if isinstance(each, bytes | bytearray):
        return len(each) > LARGE and MARK.encode() in each
    return isinstance(each, str) and len(each) > LARGE and MARK in each


@pytest.fixture
def events(loop: SteppedLoop, tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Events]:
    made = Events(loop, tmp_path, programs)

    def observed(type_: type[Any]) -> Callable[..., None]:
        init = type_.__init__

        def observe(self: Any, *arguments: Any, **more: Any) -> None:
            made.refs.append(weakref.ref(self))
            init(self, *arguments, **more)

        return observe

    for type_ in (AnswerBuilder, PluginWork, Edits, Process):
        monkeypatch.setattr(type_, "__init__", observed(type_))
    monkeypatch.setattr(collector, "begin", lambda: None)
    logging.disable(logging.CRITICAL)  # pytest keeps the arguments of each line
    if CI:
        gc.collect()
    else:  # a search looks at nothing that was there before, and does not take a second
        gc.freeze()
    gc.disable()
    before = {number for number in open_descriptors() if Path(f"/proc/self/fd/{number}").exists()}
    try:
        yield made
        made.adapter.on_runtime_gone()
    finally:
        logging.disable(logging.NOTSET)
        gc.enable()
        gc.unfreeze()
        # An adapter closes them by its end. What an object closes is left to it: the number may be another's by then.
        opened = {int(number) for number in open_descriptors() - before}
        for watch in of_types((INotify,), gc.get_objects()):
            if not watch.closed and watch.fileno() in opened:
                opened.remove(watch.fileno())
                watch.close()
        for number in opened:
            with suppress(OSError):
                os.close(number)


SIZES = [40_000, 1_000_000]
"""Bytes of containers whose work is done here, and in a child process."""
EDITS: dict[str, Any] = {"plugins": {"edit": {"events": ["CreateContainer"]}}}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("scripts", "hooks", "own"),
    [
        ({}, ["createRuntime"], {}),
        ({}, ["precreate"], {}),
        ({"a": SUCCESS, "b": SUCCESS}, [], {}),
        ({"a": SUCCESS, "edit": EDIT}, ["precreate", "poststop"], {**EDITS, "metadataPrefix": "of/"}),
    ],
    ids=["hooks alone", "precreate hooks", "plugins", "all"],
)
def test_an_event_leaves_nothing(
    events: Events, scripts: dict[str, str], hooks: list[str], own: dict[str, Any], size: int
) -> None:
    events.start(scripts, *hooks, **own)
    for event in ("CreateContainer", "StartContainer", "StopContainer"):
        events.begin(event, size)
        assert events.end() == Code.OK
    assert events.is_kept() == ""
    assert len(events.refs) >= 2 * len(scripts), "what is made for events is observed"


ERRORS = ("exit 1", """echo '{"error":"no"}'""", """echo '{"spec":{"hostname":"x"}}'""")
LARGEST = 1_000_000, MAX_STRING // len(MARK) + 1
"""With a variable that is too long."""
FAILED: dict[str, tuple[str, dict[str, str], list[str], dict[str, Any], tuple[int, ...]]] = {
    # The event, plugins, hooks and settings, and the size of the container.
    **{
        f"a plugin's {error}, {size}": ("CreateContainer", {"edit": f"cat >/dev/null; {error}"}, [], EDITS, (size,))
        for error in ERRORS
        for size in SIZES
    },
    "a refusal": ("CreateContainer", {"edit": EDIT}, ["precreate"], EDITS, LARGEST),
    "no time for a plugin": ("CreateContainer", {"edit": EDIT}, [], {"limit": RESERVE, **EDITS}, (1_000_000,)),
    "no time for a hook": ("CreateContainer", {}, ["precreate"], {"limit": RESERVE}, (1_000_000,)),
    "a broken list of plugins": ("StartContainer", {}, [], {"config": "broken"}, (100_000,)),
}


@pytest.mark.parametrize("what", few(list(FAILED), 4))
def test_an_event_that_fails_leaves_nothing(events: Events, tmp_path: Path, what: str) -> None:
    """The error has been raised through functions that had the request."""
    event, scripts, hooks, own, size = FAILED[what]
    if "config" in own:
        (tmp_path / "broken.json").write_text("{")
        own = {"config": f"{tmp_path}/broken.json"}
    events.start(scripts, *hooks, **own)
    events.begin(event, *size)
    assert events.end() == Code.UNKNOWN
    assert events.is_kept() == ""


@pytest.mark.parametrize("size", SIZES)
def test_a_late_plugin_leaves_nothing(events: Events, loop: SteppedLoop, gate: Fifo, size: int) -> None:
    """Neither one that reads its request and is waited for, nor one that is left: it runs long after its event."""
    script = f"head -c 30000; cat >/dev/null; read _ <'{gate}'; echo '{{}}'"
    events.start({"edit": script}, limit=EVENT, onFailure="ignore", lateLimit=5, **EDITS)
    events.begin("CreateContainer", size)
    loop.until(lambda: any(isinstance(made := ref(), Process) and made._in < 0 for ref in events.refs), "a fed plugin")
    loop.advance(EVENT)
    assert events.answered() == Code.OK
    loop.advance(9)
    assert events.is_kept() in ("PluginWork, Process", "Process"), "the plugin runs"
    gate.put()
    loop.until(lambda: not children(), "the plugin's end")
    loop.settle()
    assert events.is_kept() == ""
