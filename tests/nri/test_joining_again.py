"""`run` and `serve` over connections that are lost, refused and made again, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from adapter.errors import AdapterError, RegistrationError
from adapter.nri import Context, Plugin, api, run, serve, session
from adapter.wire import Code, Request

from .host import Host, awaited, ended, logged, play, served, updates

ROOT = Path(__file__).parents[2]


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
    return served(made, path, reconnect=True)


FRAME_CUT_SHORT, NO_FRAME = b"\0\0\0\1\0\0\0\x10half", b"\xff" * 8


@pytest.mark.parametrize("start", [in_thread, on_the_loop])
@pytest.mark.parametrize("kind", [Told, ToldLater])
def test_a_plugin_joins_again_however_the_runtime_goes_until_it_is_refused(
    path: str, start: Callable[[Plugin, str], asyncio.Future[None]], kind: type[Told], caplog: pytest.LogCaptureFixture
) -> None:
    made = kind()

    async def scenario(host: Host) -> None:
        host.close()
        with logged("no runtime at") as has_said:
            task = start(made, host.path)
            await has_said.wait()
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
            task = served(made, host.path)
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
        task = served(made, host.path)
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
        task = served(made, host.path)
        peer = await host.accept()
        peer.answer(await peer.hear(Request))
        await peer.call("Configure")
        assert "synchronize has returned a int" in (await peer.call("Synchronize")).message
        peer.close()
        await task
        assert made.told == []

    play(path, scenario)


def test_a_synchronize_that_ends_after_its_connection_leaves_the_next_connection_alone(path: str) -> None:
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
        task = served(made, host.path, reconnect=True)
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
    joining = session.Joining(path, reconnect=True)
    assert joining.connect() is None
    waits = [joining.pause() for _ in range(7)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert joining.goes_on(False, None)
    assert joining.pause() == 2.0
    assert joining.goes_on(True, None)
    assert joining.pause() == 0.1


def test_a_launched_plugin_does_not_join_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NRI_PLUGIN_SOCKET", "3")
    assert not session.Joining("", reconnect=True).again
    assert session.Joining("/some/nri.sock", reconnect=True).again


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
