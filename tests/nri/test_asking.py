"""A running plugin asks for updates of containers; what the stub imports."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adapter.errors import AdapterError, CallError
from adapter.nri import Plugin, api, asynchronous
from adapter.wire import Code, Request

from ..processes import PATIENCE
from .host import OLD, OVER, Host, awaited, hosted, updates
from .runtime import plugin

ROOT = Path(__file__).parents[2]


class Joined(Plugin):
    """A plugin that says when updates can be asked for."""

    def __init__(self) -> None:
        self.has_joined = asyncio.Event()

    def on_join(self) -> None:
        self.has_joined.set()


@hosted
async def test_a_running_plugin_asks_for_updates_and_hears_what_failed(host: Host) -> None:
    made = Joined()
    for _ in range(2):  # the second time after a connection
        with pytest.raises(AdapterError, match="has not joined"):
            made.update_containers([])
        made.has_joined.clear()
        async with host.joined(made) as peer:
            await made.has_joined.wait()
            assert await awaited(made) == []
            at_once = weakref.ref(made.update_containers([]))
            gc.collect()
            assert at_once() is None, "it is not kept"
            in_coroutine = asyncio.ensure_future(awaited(made, "a", "b"))
            assert await peer.answer_updates("b") == ["a", "b"]
            assert await in_coroutine == ["b"]
            in_thread = asyncio.ensure_future(asyncio.to_thread(lambda: made.update_containers(updates("c")).result()))
            await peer.answer_next(refusal="no such container")
            with pytest.raises(CallError, match="no such container"):
                await in_thread
            in_two_calls = asyncio.ensure_future(awaited(made, "x" * (2 << 20), "y" * (2 << 20)))
            assert [len(await peer.answer_updates(one)) for one in "xy"] == [1, 1]
            assert await in_two_calls == ["x", "y"]
            unanswered = made.update_containers(updates("d"))
            with pytest.raises(RuntimeError, match="this thread serves the runtime"):
                unanswered.result()
            with pytest.raises(TimeoutError, match=r"in 1e-09 s"):
                await asyncio.to_thread(unanswered.result, OVER)
            lost = asyncio.ensure_future(awaited(made, "e"))
            await peer.hear(Request)
        with pytest.raises(AdapterError, match="the connection with the runtime is lost"):
            await lost


@pytest.mark.parametrize(
    ("runtime", "reason"),
    [
        (OLD, r"containerd 2\.2\.1 may deadlock .* before NRI 0\.12\.1"),
        (("docker", "29.0.0", "v0.12.3"), "Docker takes no updates"),
    ],
)
@hosted
async def test_updates_are_refused_where_a_runtime_cannot_take_them(
    host: Host, runtime: tuple[str, str, str], reason: str
) -> None:
    made = Joined()
    async with host.joined(made, runtime):
        await made.has_joined.wait()
        with pytest.raises(AdapterError, match=reason):
            made.update_containers([])


@hosted
async def test_a_listener_that_raises_is_logged(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    def start(*_: object) -> None:
        made.update_containers(updates("a")).then(lambda *_: 1 / 0)

    made = plugin(start_container=start)
    async with host.joined(made) as peer:
        assert (await peer.call("StartContainer")).code == Code.OK
        await peer.answer_next()
        assert (await peer.call("StopContainer")).code == Code.OK
    assert "the listener of an update has failed" in caplog.text


@hosted
async def test_updates_that_are_asked_for_while_the_connection_is_lost_fail(host: Host) -> None:
    begun, gone, joined = threading.Event(), threading.Event(), asyncio.Event()

    def wanted() -> Iterator[api.ContainerUpdate]:
        begun.set()
        assert gone.wait(PATIENCE)
        yield from updates("a")

    made = plugin(on_join=joined.set, on_disconnect=lambda _: gone.set())
    async with host.joined(made):
        await joined.wait()
        asking = asyncio.ensure_future(asyncio.to_thread(lambda: made.update_containers(wanted()).result(OVER)))
        await asyncio.to_thread(begun.wait)
    with pytest.raises(AdapterError, match="the connection with the runtime is lost"):
        await asking


def test_a_connection_that_is_lost_at_the_moment_of_asking_is_no_bug() -> None:
    class Going(Plugin):
        @property
        def ask_for_updates(self) -> Any:  # type: ignore[override]
            return asks.pop(0)

    asks: list[Any] = [lambda updates: updates, None]
    assert Going().update_containers([]) == []  # type: ignore[comparison-overlap]


def test_the_loops_thread_alone_writes_to_the_connection() -> None:
    written: list[tuple[bytes, int]] = []

    class Transport(asyncio.Transport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            written.append((bytes(data), threading.get_ident()))

        def is_closing(self) -> bool:
            return False

    async def scenario() -> asynchronous.Trunk:
        trunk = asynchronous.Trunk()
        trunk.connection_made(Transport())
        await asyncio.to_thread(trunk.write, b"a")
        trunk.write(b"b")
        return trunk

    trunk = asyncio.run(scenario())
    assert written == [(b"a", threading.get_ident()), (b"b", threading.get_ident())]
    asyncio.run(asyncio.to_thread(trunk.write, b"c"))  # the trunk's loop is closed
    assert len(written) == 2


def modules(code: str) -> set[str]:
    """What is loaded when this has run."""
    words = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}; print(*sys.modules)"]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


def test_the_stub_imports_protobuf_and_the_standard_library_alone_and_no_asyncio() -> None:
    found = modules("import adapter.wire; from adapter.nri import run, serve") - modules("pass")
    assert {name.partition(".")[0] for name in found} - sys.stdlib_module_names == {"adapter", "google"}
    parts = {tuple(name.split(".")[:2]) for name in found}
    assert {part for part in parts if part[0] == "google"} <= {("google",), ("google", "protobuf"), ("google", "_upb")}
    ours = {part[1] for part in parts if part[0] == "adapter" and len(part) > 1}
    assert ours == {"base", "errors", "nri", "proto", "wire"}
    assert {name for name in found if name.startswith("adapter.base.")} == {"adapter.base.sanitize"}
    assert not {"asyncio", "socket", "argparse", "inspect", "signal"} & found
