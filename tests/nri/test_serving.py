"""`run` and `serve`: coroutines as handlers, joining again, updates at any time. The runtime's end is in the test."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from adapter.errors import AdapterError, CallError, RegistrationError
from adapter.nri import Context, Plugin, api, asynchronous, run, serve, serving
from adapter.nri.events import PLUGIN
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, Request

from ..processes import PATIENCE
from .runtime import plugin

NEW, OLD = ("containerd", "v2.4.2", "v0.12.3"), ("containerd", "2.2.1", "")
ROOT = Path(__file__).parents[2]


class Peer:
    """A runtime's end of a trunk."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._reader = reader
        self._connection = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
        self._heard: list[Request | Reply] = []

    async def hear(self, kind: type[Any], stream_id: int = 0) -> Any:
        """Waits for a request, or for the reply to a call."""
        while True:
            for one in self._heard:
                if isinstance(one, kind) and stream_id in (0, one.stream_id):
                    self._heard.remove(one)
                    return one
            data = await self._reader.read(1 << 16)
            assert data, "the plugin has closed the connection"
            self._heard += self._connection.receive_data(data)

    def send(self, method: str, request: Any = None, timeout: float = PATIENCE) -> int:
        payload = b"" if request is None else request.SerializeToString()
        stream_id = self._connection.call(PLUGIN, method, payload, timeout)
        self.writer.write(self._connection.data_to_send())
        return stream_id

    async def call(self, method: str, request: Any = None, timeout: float = PATIENCE) -> Reply:
        reply: Reply = await self.hear(Reply, self.send(method, request, timeout))
        return reply

    def answer(self, request: Request, payload: bytes = b"", refusal: str = "") -> None:
        if refusal:
            self._connection.fail(request.stream_id, Code.UNKNOWN, refusal)
        else:
            self._connection.respond(request.stream_id, payload)
        self.writer.write(self._connection.data_to_send())

    async def join(self, runtime: tuple[str, str, str] = NEW) -> None:
        self.answer(await self.hear(Request))
        name, version, nri = runtime
        known = api.ConfigureRequest(runtime_name=name, runtime_version=version, NRI_version=nri)
        for method, request in (("Configure", known), ("Synchronize", None)):
            assert (await self.call(method, request)).code == Code.OK

    def close(self, last: bytes = b"") -> None:
        self.writer.write(last)
        self.writer.close()


class Host:
    """A runtime that listens, and comes and goes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._peers: asyncio.Queue[Peer] = asyncio.Queue()

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(lambda *both: self._peers.put_nowait(Peer(*both)), self.path)

    def close(self) -> None:
        self._server.close()
        with contextlib.suppress(FileNotFoundError):  # since Python 3.13 the server removes it
            os.unlink(self.path)

    async def accept(self) -> Peer:
        return await self._peers.get()


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield f"{directory}/nri.sock"


def play(path: str, scenario: Callable[[Host], Coroutine[Any, Any, None]]) -> None:
    """Runs a scenario with a runtime."""

    async def whole() -> None:
        host = Host(path)
        await host.open()
        try:
            await asyncio.wait_for(scenario(host), PATIENCE)
        finally:
            host.close()

    asyncio.run(whole())


async def ended(task: asyncio.Future[Any]) -> None:
    """Cancels what is served."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def serving_(made: Plugin, path: str, *, reconnect: bool = False) -> asyncio.Task[None]:
    return asyncio.create_task(serve(made, "mine", "10", path, reconnect=reconnect))


# ---- handlers


def test_handlers_may_be_coroutines_or_not_and_others_are_served_while_one_waits(path: str) -> None:
    async def scenario(host: Host) -> None:
        gate = asyncio.Event()

        async def configure(request: Any, context: Context) -> api.ConfigureResponse:
            await asyncio.sleep(0)
            return api.ConfigureResponse(events=0x7F)

        async def create(request: api.CreateContainerRequest, context: Context) -> api.CreateContainerResponse:
            await gate.wait()
            assert 0 < context.remaining() <= PATIENCE
            return api.CreateContainerResponse(adjust=api.ContainerAdjustment(args=[request.container.id]))

        made = plugin(configure=configure, create_container=create, start_container=lambda *_: gate.set())
        task = serving_(made, host.path)
        peer = await host.accept()
        await peer.join()
        waiting = peer.send("CreateContainer", api.CreateContainerRequest(container=api.Container(id="c")))
        change = api.StateChangeEvent(event=api.START_CONTAINER)
        assert (await peer.call("StateChange", change)).code == Code.OK
        response = api.CreateContainerResponse.FromString((await peer.hear(Reply, waiting)).payload)
        assert list(response.adjust.args) == ["c"]
        await ended(task)

    play(path, scenario)


async def returns_a_number(*_: object) -> int:
    return 5


async def raises(*_: object) -> None:
    raise ValueError("not today")


async def blocks(*_: object) -> None:
    time.sleep(0.11)  # what is tested: nothing waits for it


async def never_ends(*_: object) -> None:
    await asyncio.Event().wait()


async def ends_itself(*_: object) -> None:
    raise asyncio.CancelledError


LATE = 0.01
BAD: list[tuple[Callable[..., Any], float, str, str]] = [
    (returns_a_number, PATIENCE, "start_container has returned a int, not StartContainerResponse", "same"),
    (lambda *_: "text", PATIENCE, "start_container has returned a str, not StartContainerResponse", "same"),
    (lambda *_: api.Empty(), PATIENCE, "start_container has returned a Empty, not StartContainerResponse", "same"),
    (raises, PATIENCE, "not today", "StartContainer: not today"),
    (ends_itself, PATIENCE, "start_container was cancelled", ""),
    (never_ends, LATE, r"start_container has not answered in [\d.]+ s", "the runtime gets this error"),
    (blocks, PATIENCE, "", r"start_container has blocked the loop for 0\.\d s"),
    (lambda *_: time.sleep(0.11), PATIENCE, "", r"start_container has blocked the loop for 0\.\d s"),
]


def test_a_bad_handler_is_named_the_runtime_gets_an_error_in_time_and_the_plugin_lives(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(host: Host) -> None:
        for handler, timeout, error, logged in BAD:
            caplog.clear()
            task = serving_(plugin(start_container=handler), host.path)
            peer = await host.accept()
            await peer.join()
            for _ in range(2):
                reply = await peer.call("StartContainer", timeout=timeout)
                assert re.fullmatch(error, reply.message), reply
            assert (await peer.call("StopContainer")).code == Code.OK
            assert re.search(error if logged == "same" else logged, caplog.text)
            await ended(task)

    play(path, scenario)


def test_a_late_coroutine_goes_on_and_is_cancelled_at_the_end(path: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(host: Host) -> None:
        gates = [asyncio.Event(), asyncio.Event()]
        seen: list[str] = []

        async def start(*_: object) -> None:
            gate = gates[len(seen)]
            seen.append("begun")
            try:
                await gate.wait()
                seen.append("ended")
            finally:
                seen.append("left")

        task = serving_(plugin(start_container=start), host.path)
        peer = await host.accept()
        await peer.join()
        assert (await peer.call("StartContainer", timeout=LATE)).code == Code.DEADLINE_EXCEEDED
        gates[0].set()
        while "behind its answer" not in caplog.text:
            await asyncio.sleep(0)
        assert seen == ["begun", "ended", "left"]
        gates[:] = [asyncio.Event()] * 4
        assert (await peer.call("StartContainer", timeout=LATE)).code == Code.DEADLINE_EXCEEDED
        await ended(task)
        assert seen[3:] == ["begun", "left"]

    play(path, scenario)


def test_what_ignores_its_cancellation_is_named_and_a_hook_may_work_until_the_end(
    path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asynchronous, "GRACE", LATE)

    async def scenario(host: Host) -> None:
        begun = asyncio.Event()

        async def stubborn(*_: object) -> None:
            begun.set()
            with contextlib.suppress(asyncio.CancelledError):
                await never_ends()
            await never_ends()

        task = serving_(plugin(start_container=stubborn, on_join=never_ends), host.path)
        peer = await host.accept()
        await peer.join()
        peer.send("StartContainer")
        await begun.wait()
        await ended(task)

    play(path, scenario)
    assert [record.getMessage() for record in caplog.records if record.name == asynchronous.__name__] == [
        "start_container goes on 0.01 s after it was cancelled: it is left"
    ]


def test_a_sync_handler_that_takes_longer_than_the_runtime_waits_is_named_by_run(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(host: Host) -> None:
        made = plugin(start_container=lambda _, context: time.sleep(max(0, context.remaining()) + 0.01))
        task = asyncio.ensure_future(asyncio.to_thread(run, made, "mine", "10", host.path, []))
        peer = await host.accept()
        await peer.join()
        assert (await peer.call("StartContainer", timeout=LATE)).code == Code.OK
        assert re.search(r"start_container has taken 0\.\d s, longer than the runtime waits", caplog.text)
        peer.close()
        await task

    play(path, scenario)


def test_run_runs_a_plugin_with_coroutines_on_asyncios_loop(path: str) -> None:
    async def scenario(host: Host) -> None:
        async def stop(*_: object) -> api.StopContainerResponse:
            assert asyncio.current_task()
            return api.StopContainerResponse()

        task = asyncio.ensure_future(asyncio.to_thread(run, plugin(stop_container=stop), "mine", "10", host.path, []))
        peer = await host.accept()
        await peer.join()
        assert (await peer.call("StopContainer")).code == Code.OK
        peer.close()
        await task

    play(path, scenario)


# ---- joining again


class Told(Plugin):
    """Notes its hooks, which have a bug."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_join(self) -> None:
        self.told.append("joined")
        raise ValueError("a bug")

    def on_disconnect(self, reason: str) -> None:
        self.told.append(reason)
        raise ValueError("a bug")


class ToldLater(Told):
    """The same with coroutines."""

    async def on_join(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().on_join()

    async def on_disconnect(self, reason: str) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().on_disconnect(reason)


def in_thread(made: Plugin, path: str) -> asyncio.Future[None]:
    def whole() -> None:
        try:
            run(made, "mine", "10", path, [], reconnect=True)
        except SystemExit as ended:  # asyncio would end, too
            raise RegistrationError(ended.code) from None

    return asyncio.ensure_future(asyncio.to_thread(whole))


def on_the_loop(made: Plugin, path: str) -> asyncio.Future[None]:
    return serving_(made, path, reconnect=True)


FRAME_CUT_SHORT, NO_FRAME = b"\0\0\0\1\0\0\0\x10half", b"\xff" * 8


@pytest.mark.parametrize("start", [in_thread, on_the_loop])
@pytest.mark.parametrize("kind", [Told, ToldLater])
def test_a_plugin_joins_again_however_the_runtime_goes_until_it_is_refused(
    path: str, start: Callable[[Plugin, str], asyncio.Future[None]], kind: type[Told], caplog: pytest.LogCaptureFixture
) -> None:
    made = kind()

    async def scenario(host: Host) -> None:
        host.close()
        task = start(made, host.path)  # without a runtime
        while "no runtime at" not in caplog.text:
            await asyncio.sleep(0)
        await host.open()
        for last in (b"", FRAME_CUT_SHORT, NO_FRAME):
            peer = await host.accept()
            await peer.join()
            peer.close(last)
        (await host.accept()).close()  # before it has registered
        peer = await host.accept()
        peer.answer(await peer.hear(Request), refusal="too many plugins")
        with pytest.raises(RegistrationError, match=r"refused plugin 10-mine: too many plugins"):
            await task

    play(path, scenario)
    assert made.told[:4] == ["joined", "", "joined", ""]
    assert made.told[4] == "joined"
    assert re.match("connection 4294967295: a frame of", made.told[5])
    assert len(made.told) == 6
    assert "on_join has failed" in caplog.text
    assert "on_disconnect has failed" in caplog.text


def test_without_reconnect_serve_ends_as_run_does(path: str) -> None:
    async def scenario(host: Host) -> None:
        made = ToldLater()
        for last, error in ((b"", ""), (NO_FRAME, "a frame of")):
            task = serving_(made, host.path)
            peer = await host.accept()
            await peer.join()
            peer.close(last)
            if error:
                with pytest.raises(AdapterError, match=error):
                    await task
            else:
                await task
            assert made.told[0] == "joined"
            assert re.match(error, made.told[1].partition(": ")[2])
            assert len(made.told) == 2
            made.told.clear()
        with pytest.raises(RegistrationError, match="no runtime at"):
            await serve(made, "mine", "10", host.path + "x")

    play(path, scenario)


def test_a_plugin_whose_synchronize_fails_has_not_joined(path: str) -> None:
    class Fails(Told):
        def synchronize(self, request: api.SynchronizeRequest, context: Context) -> None:
            raise ValueError("no")

    async def scenario(host: Host) -> None:
        made = Fails()
        task = serving_(made, host.path)
        peer = await host.accept()
        peer.answer(await peer.hear(Request))
        assert (await peer.call("Configure")).code == Code.OK
        assert (await peer.call("Synchronize")).message == "no"
        peer.close()
        await task
        assert made.told == []

    play(path, scenario)


def test_a_plugin_whose_synchronize_returns_the_wrong_type_has_not_joined(path: str) -> None:
    async def scenario(host: Host) -> None:
        made = Told()
        made.synchronize = lambda *_: 5  # type: ignore[assignment, method-assign]
        task = serving_(made, host.path)
        peer = await host.accept()
        peer.answer(await peer.hear(Request))
        await peer.call("Configure")
        assert "synchronize has returned a int" in (await peer.call("Synchronize")).message
        peer.close()
        await task
        assert made.told == []

    play(path, scenario)


def test_a_synchronize_that_ends_behind_its_connection_leaves_the_next_connection_alone(path: str) -> None:
    async def scenario(host: Host) -> None:
        begun, gate = asyncio.Event(), asyncio.Event()

        class Slow(Told):
            async def synchronize(self, request: api.SynchronizeRequest, context: Context) -> None:
                if not begun.is_set():
                    begun.set()
                    await gate.wait()

            def answered(self, context: Context) -> None:
                if gate.is_set():
                    has_ended.set()

        has_ended = asyncio.Event()
        made = Slow()
        task = serving_(made, host.path, reconnect=True)
        peer = await host.accept()
        peer.answer(await peer.hear(Request))
        await peer.call("Configure")
        peer.send("Synchronize")
        await begun.wait()
        peer.close()
        peer = await host.accept()
        await peer.join()
        assert (await peer.call("StopContainer")).code == Code.OK
        gate.set()
        await has_ended.wait()
        asking = asyncio.ensure_future(awaited(made, updates("a")))
        peer.answer(await peer.hear(Request))
        assert await asking == []
        assert made.told == ["joined"]
        await ended(task)

    play(path, scenario)


def test_the_waits_between_attempts_grow_to_two_seconds_and_begin_anew_after_a_join(path: str) -> None:
    joining = serving.Joining(path, reconnect=True)
    assert joining.connect() is None
    waits = [joining.pause() for _ in range(7)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert joining.goes_on(False, None)
    assert joining.pause() == 2.0
    assert joining.goes_on(True, None)
    assert joining.pause() == 0.1


def test_a_launched_plugin_does_not_join_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NRI_PLUGIN_SOCKET", "3")
    assert not serving.Joining("", reconnect=True).again
    assert serving.Joining("/some/nri.sock", reconnect=True).again


KINDS = {"run": "def", "serve": "async def"}
PROGRAM = """\
import sys
sys.path.insert(0, {root!r})
from adapter.nri import Plugin, run
class Mine(Plugin):
    {define} start_container(self, request, context): {body}
    def on_join(self): print("joined", flush=True)
    def on_disconnect(self, reason): print("left for", reason, flush=True)
run(Mine(), "mine", "10", {path!r}, [], reconnect=True)
print("returned")
"""


@pytest.mark.parametrize("define", KINDS.values(), ids=KINDS)
def test_sigterm_ends_a_plugin_that_waits_for_a_runtime_and_one_that_serves(path: str, define: str) -> None:
    async def scenario(host: Host) -> None:
        async def terminated(until: bytes) -> str:
            """What the program prints that is told to end when it has printed this."""
            text = PROGRAM.format(root=str(ROOT), path=host.path, define=define, body="pass")
            pipe = subprocess.PIPE
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-c", text, stdout=pipe, stderr=subprocess.STDOUT
            )
            assert child.stdout is not None
            if until == b"joined":
                await (await host.accept()).join()
            said = b""
            while until not in said:
                said += await child.stdout.readline()
            child.send_signal(signal.SIGTERM)
            said += await child.stdout.read()
            assert await child.wait() == 0, said
            return said.decode()

        assert "returned" in await terminated(b"joined")
        host.close()
        assert "returned" in await terminated(b"keeps trying to join")
        await host.open()

    play(path, scenario)


TWO = """\
import asyncio, sys
sys.path.insert(0, {root!r})
from adapter.nri import Plugin, serve
async def both():
    await asyncio.gather(*(serve(Plugin(), name, "10", {path!r}, reconnect=True) for name in "ab"))
asyncio.run(both())
print("returned")
"""


def test_sigterm_ends_all_that_one_loop_serves(path: str) -> None:
    async def scenario(host: Host) -> None:
        text = TWO.format(root=str(ROOT), path=host.path)
        child = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", text, stdout=subprocess.PIPE)
        assert child.stdout is not None
        try:
            peers = [await host.accept() for _ in "ab"]
            for peer in peers:
                await peer.join()
            child.send_signal(signal.SIGTERM)
            assert await child.stdout.read() == b"returned\n"
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    play(path, scenario)


# ---- updates


def updates(*ids: str) -> list[api.ContainerUpdate]:
    return [api.ContainerUpdate(container_id=one) for one in ids]


def test_a_running_plugin_asks_for_updates_and_hears_what_failed(path: str) -> None:
    async def scenario(host: Host) -> None:
        made = plugin()
        task = serving_(made, host.path)
        with pytest.raises(AdapterError, match="has not joined"):
            made.update_containers([])
        peer = await host.accept()
        await peer.join()
        assert await until_joined(made, []) == []
        in_coroutine = asyncio.ensure_future(awaited(made, updates("a", "b")))
        request = await peer.hear(Request)
        assert list(api.UpdateContainersRequest.FromString(request.payload).update) == updates("a", "b")
        peer.answer(request, api.UpdateContainersResponse(failed=updates("b")).SerializeToString())
        assert await in_coroutine == updates("b")
        in_thread = asyncio.ensure_future(asyncio.to_thread(lambda: made.update_containers(updates("c")).result()))
        peer.answer(await peer.hear(Request), refusal="no such container")
        with pytest.raises(CallError, match="no such container"):
            await in_thread
        large = [api.ContainerUpdate(container_id=one * (2 << 20)) for one in "xy"]
        in_two_calls = asyncio.ensure_future(awaited(made, large))
        for one in ("x", "y"):
            failed = api.UpdateContainersResponse(failed=updates(one))
            peer.answer(await peer.hear(Request), failed.SerializeToString())
        assert await in_two_calls == updates("x", "y")
        unanswered = made.update_containers(updates("d"))
        with pytest.raises(RuntimeError, match="this thread serves the runtime"):
            unanswered.result()
        with pytest.raises(TimeoutError, match=r"in 0\.01 s"):
            await asyncio.to_thread(unanswered.result, LATE)
        lost = asyncio.ensure_future(awaited(made, updates("e")))
        await peer.hear(Request)
        peer.close()
        with pytest.raises(AdapterError, match="the connection with the runtime is gone"):
            await lost
        await task
        with pytest.raises(AdapterError, match="has not joined"):
            made.update_containers([])

    play(path, scenario)


async def awaited(made: Plugin, wanted: list[api.ContainerUpdate]) -> list[api.ContainerUpdate]:
    return await made.update_containers(wanted)


async def until_joined(made: Plugin, wanted: list[api.ContainerUpdate]) -> list[api.ContainerUpdate]:
    while made.ask_for_updates is None:  # the answer to Synchronize is sent a moment before
        await asyncio.sleep(0)
    return await made.update_containers(wanted)


@pytest.mark.parametrize(
    ("runtime", "reason"),
    [
        (OLD, r"containerd 2\.2\.1 may deadlock .* before NRI 0\.12\.1"),
        (("docker", "29.0.0", "v0.12.3"), "Docker takes no updates"),
    ],
)
def test_updates_are_refused_with_the_reason_where_the_runtime_cannot_take_them(
    path: str, runtime: tuple[str, str, str], reason: str
) -> None:
    async def scenario(host: Host) -> None:
        made = plugin()
        task = serving_(made, host.path)
        await (await host.accept()).join(runtime)
        with pytest.raises(AdapterError, match=reason):
            await until_joined(made, [])
        await ended(task)

    play(path, scenario)


@pytest.mark.parametrize("threaded", [True, False])
def test_a_listener_that_raises_is_logged_and_the_plugin_lives(
    path: str, threaded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def start(*_: object) -> None:
        made.update_containers(updates("a")).then(lambda *_: 1 / 0)

    made = plugin(start_container=start)

    async def scenario(host: Host) -> None:
        words = (made, "mine", "10", host.path)
        task = asyncio.ensure_future(asyncio.to_thread(run, *words, []) if threaded else serve(*words))
        peer = await host.accept()
        await peer.join()
        assert (await peer.call("StartContainer")).code == Code.OK
        peer.answer(await peer.hear(Request))
        assert (await peer.call("StopContainer")).code == Code.OK
        peer.close()
        await task

    play(path, scenario)
    assert "the listener of an update has failed" in caplog.text


def test_updates_that_are_asked_for_while_the_connection_is_lost_fail(path: str) -> None:
    async def scenario(host: Host) -> None:
        begun, gone = threading.Event(), threading.Event()

        def wanted() -> Iterator[api.ContainerUpdate]:
            begun.set()
            assert gone.wait(PATIENCE)
            yield from updates("a")

        made = plugin(on_disconnect=lambda _: gone.set())
        task = serving_(made, host.path)
        peer = await host.accept()
        await peer.join()
        await until_joined(made, [])
        asking = asyncio.ensure_future(asyncio.to_thread(lambda: made.update_containers(wanted()).result(LATE)))
        await asyncio.to_thread(begun.wait)
        peer.close()
        await task
        with pytest.raises(AdapterError, match="the connection with the runtime is gone"):
            await asking

    play(path, scenario)


def test_a_connection_that_is_lost_at_the_moment_of_asking_is_no_bug() -> None:
    class Going(Plugin):
        @property
        def ask_for_updates(self) -> Any:  # type: ignore[override]
            return asks.pop(0)

    asks: list[Any] = [lambda updates: updates, None]
    assert Going().update_containers([]) == []  # type: ignore[comparison-overlap]


def test_an_answer_that_is_there_at_once_is_not_kept(path: str) -> None:
    async def scenario(host: Host) -> None:
        made = plugin()
        task = serving_(made, host.path)
        await (await host.accept()).join()
        await until_joined(made, [])
        answer = weakref.ref(made.update_containers([]))
        gc.collect()
        assert answer() is None
        await ended(task)

    play(path, scenario)


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


# ---- what it costs


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
    assert ours == {"errors", "nri", "proto", "sanitize", "wire"}
    assert not {"asyncio", "socket", "argparse", "inspect", "signal"} & found
