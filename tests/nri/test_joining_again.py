"""`run` and `serve` over connections that are lost, refused and made again, until SIGTERM."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys

import pytest

from adapter.errors import AdapterError, RegistrationError
from adapter.nri import Context, Plugin, api, run, serve, session
from adapter.wire import Code

from .host import Host, awaited, hosted, logged
from .test_serving import ROOT


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


def in_thread(made: Plugin, host: Host) -> asyncio.Future[None]:
    def whole() -> None:
        try:
            run(made, "mine", "10", host.path, [], reconnect=True)
        except SystemExit as ended:  # asyncio would end, too
            raise RegistrationError(ended.code) from None

    return asyncio.ensure_future(asyncio.to_thread(whole))


FRAME_CUT_SHORT, NO_FRAME = b"\0\0\0\1\0\0\0\x10half", b"\xff" * 8


@pytest.mark.parametrize("kind", [Told, ToldLater])  # the second one is run on a loop
@hosted
async def test_a_plugin_joins_again_until_it_is_refused(
    host: Host, kind: type[Told], caplog: pytest.LogCaptureFixture
) -> None:
    made = kind()
    host.close()
    with logged("no runtime at") as has_said:
        task = in_thread(made, host)
        await has_said.wait()
    await host.open()
    for last in (b"", FRAME_CUT_SHORT, NO_FRAME):
        peer = await host.accept()
        await peer.join()
        peer.close(last)
    (await host.accept()).close()  # before it has registered
    await (await host.accept()).answer_next(refusal="too many plugins")
    with pytest.raises(RegistrationError, match=r"refused plugin 10-mine: too many plugins"):
        await task
    *others, last_reason = made.told
    assert others == ["joined", "", "joined", "", "joined"]
    assert re.match("connection 4294967295: a frame of", last_reason)
    assert "on_join has failed" in caplog.text
    assert "on_disconnect has failed" in caplog.text


@hosted
async def test_without_reconnect_serve_ends_as_run_does(host: Host) -> None:
    made = ToldLater()
    async with host.joined(made):
        pass
    assert made.told == ["joined", ""]
    with pytest.raises(AdapterError, match="a frame of"):
        async with host.joined(made) as peer:
            peer.writer.write(NO_FRAME)
    assert re.match("connection 4294967295: a frame of", made.told[3])
    with pytest.raises(RegistrationError, match="no runtime at"):
        await serve(made, "mine", "10", host.path + "x")
    assert len(made.told) == 4


@hosted
async def test_a_plugin_whose_synchronize_fails_has_not_joined(host: Host) -> None:
    for handler, error in ((lambda *_: 1 / 0, "division by zero"), (lambda *_: 5, "synchronize has returned a int")):
        made = Told()
        made.synchronize = handler  # type: ignore[assignment, method-assign]
        task = host.serve(made)
        peer = await host.accept()
        await peer.answer_next()
        assert (await peer.call("Configure")).code == Code.OK
        assert (await peer.call("Synchronize")).message.startswith(error)
        peer.close()
        await task
        assert made.told == []


@hosted
async def test_a_synchronize_that_ends_after_its_connection_leaves_the_next_connection_alone(host: Host) -> None:
    begun, gate, has_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Slow(Told):
        async def synchronize(self, request: api.SynchronizeRequest, context: Context) -> None:
            if not begun.is_set():
                begun.set()
                await gate.wait()

        def answered(self, context: Context) -> None:
            if gate.is_set():
                has_ended.set()

    made = Slow()
    task = host.serve(made, reconnect=True)
    peer = await host.accept()
    await peer.answer_next()
    await peer.call("Configure")
    peer.send("Synchronize")
    await begun.wait()
    peer.close()
    peer = await host.accept()
    await peer.join()
    assert (await peer.call("StopContainer")).code == Code.OK
    gate.set()
    await has_ended.wait()
    asking = asyncio.ensure_future(awaited(made, "a"))
    await peer.answer_updates()
    assert await asking == []
    assert made.told == ["joined"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_waits_between_attempts_grow_to_two_seconds(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    joining = session.Joining(host.path, reconnect=True)
    assert joining.connect() is None
    waits = [joining.pause() for _ in range(7)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert joining.goes_on(False, None)
    assert joining.pause() == 2.0
    assert joining.goes_on(True, None)
    assert joining.pause() == 0.1
    monkeypatch.setenv("NRI_PLUGIN_SOCKET", "3")
    assert not session.Joining("", reconnect=True).again, "it was launched"
    assert session.Joining("/some/nri.sock", reconnect=True).again


PROGRAM = """\
import asyncio, sys
sys.path.insert(0, {root!r})
from adapter.nri import Plugin, run, serve
class Mine(Plugin):
    {define} start_container(self, request, context): pass
    def on_join(self): print("joined", flush=True)
    def on_disconnect(self, reason): print("left for", reason, flush=True)
async def serve_two():
    await asyncio.gather(*(serve(Mine(), name, "10", {path!r}, reconnect=True) for name in "ab"))
{serves}
print("returned")
"""
RUN = 'run(Mine(), "mine", "10", {path!r}, [], reconnect=True)'


@pytest.mark.parametrize(
    ("define", "serves", "plugins"),
    [("def", RUN, 1), ("async def", RUN, 1), ("async def", "asyncio.run(serve_two())", 2)],
    ids=["run", "run on a loop", "two on one loop"],
)
@hosted
async def test_sigterm_ends_a_plugin_that_serves_or_waits(host: Host, define: str, serves: str, plugins: int) -> None:
    program = PROGRAM.format(root=str(ROOT), path=host.path, define=define, serves=serves.format(path=host.path))
    words = [sys.executable, "-I", "-c", program]
    for until, last in (
        ("joined\n", "left for SIGTERM\n" * plugins + "returned\n"),
        ("trying to join\n", "returned\n"),
    ):
        child = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert child.stdout is not None
        for _ in range(plugins if until == "joined\n" else 0):
            await (await host.accept()).join()
        said = ""
        while said.count(until) < plugins:
            line = await child.stdout.readline()
            assert line, said
            said += line.decode()
        child.send_signal(signal.SIGTERM)
        assert (await child.stdout.read()).decode() == last
        assert await child.wait() == 0
        host.close()  # the next one finds no runtime
