"""How `run` and `serve` meet a runtime: who a plugin is, its socket, connections that are lost and made again."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread
from unittest.mock import Mock

import pytest

from nri import Context, Identity, Plugin, api, connect, identity, launched, run, serve, serving, session, transport
from nri.errors import NRIError, RegistrationError
from nri.wire import Code, Reply, ttrpc
from tests.rig import sockets
from tests.rig.sockets import bind

from ..rig.processes import open_descriptors
from ..rig.trunk import End, plugin
from ..rig.waiting import LIMIT, limit
from .host import Host, awaited, hosted, in_thread, logged

ROOT = Path(__file__).parents[2] / "adapter"
ENVIRONMENT = {"NRI_PLUGIN_NAME": "env", "NRI_PLUGIN_IDX": "42", "NRI_PLUGIN_SOCKET": "3"}

WHO: list[tuple[str, str, dict[str, str], str, Identity]] = [
    ("", "", ENVIRONMENT, "/opt/nri/plugins/10-file", Identity("env", "42")),
    ("asked", "07", ENVIRONMENT, "10-file", Identity("asked", "07")),
    ("", "07", ENVIRONMENT, "10-file", Identity("env", "07")),
    ("", "", {}, "/opt/nri/plugins/10-file", Identity("file", "10")),
    ("", "", {}, "10-a-b", Identity("a-b", "10")),
    ("", "", {}, "/usr/bin/adapter", Identity("adapter", "00")),
    ("", "", {}, "100-x", Identity("100-x", "00")),
    ("", "", {"NRI_PLUGIN_NAME": ""}, "10-file", Identity("file", "10")),
]


def test_a_plugin_is_who_arguments_environment_or_file_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, idx, environ, program, expected in WHO:
        assert identity(name, idx, environ, program) == expected
        monkeypatch.setattr("sys.argv", [program, "-x"])
        assert identity(name, idx, environ) == expected
    for idx in ("1", "100", "1x", "\N{ARABIC-INDIC DIGIT ONE}" * 2):
        with pytest.raises(RegistrationError, match=f"^plugin index '{idx}': two digits, 00 to 99$"):
            identity("asked", idx, {})


# ---- sockets


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, int]]:
    """A runtime's end of a socket, and the descriptor of the other, inheritable as a launched plugin finds it."""
    ours, theirs = socket.socketpair()
    ours.settimeout(LIMIT)
    fd = theirs.detach()
    made = os.fstat(fd)
    os.set_inheritable(fd, True)
    try:
        yield ours, fd
    finally:
        ours.close()
        if is_open(fd) and os.path.samestat(os.fstat(fd), made):  # the number may be another's by now
            os.close(fd)


def is_open(fd: int) -> bool:
    return os.path.exists(f"/proc/self/fd/{fd}")


def test_a_launched_plugin_keeps_its_socket_from_its_children(pair: tuple[socket.socket, int]) -> None:
    ours, fd = pair
    environ = {"NRI_PLUGIN_SOCKET": str(fd)}
    assert (launched(environ), launched({"NRI_PLUGIN_NAME": "x"}), connect(environ=environ)) == (True, False, fd)
    assert not os.get_inheritable(fd)
    os.write(fd, b"hello")
    assert ours.recv(5) == b"hello"


def test_a_runtime_that_accepts_no_connection_is_not_waited_for(host: Host) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        bind(busy, host.path)
        busy.listen(0)
        sockets.connect(waiting, host.path)
        with limit("an answer"), pytest.raises(RegistrationError, match="Resource temporarily unavailable"):
            connect(str(host.path), {})


def test_a_runtime_that_cannot_be_reached_is_named_and_no_descriptor_is_left(
    tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert transport.DEFAULT_SOCKET == "/var/run/nri/nri.sock"
    absent = f"{host.path}-absent"
    monkeypatch.setattr(transport, "DEFAULT_SOCKET", absent)
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as dead:
        bind(dead, host.path)
    before = open_descriptors()
    for asked, named in {
        "": absent,
        **{str(path): path for path in (host.path, tmp_path / "file", "/x" * 200)},
    }.items():
        with pytest.raises(RegistrationError, match=f"^no runtime at {named}: (No such file|Connection refused)"):
            connect(asked, {"NRI_PLUGIN_SOCKET": "three"} if asked else {})
        assert open_descriptors() <= before


def test_a_socket_is_reached_whose_path_is_longer_than_an_address(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 107) / "nri.sock"
    path.parent.mkdir()
    before = len(open_descriptors())
    with sockets.listening(path):
        os.close(connect(str(path), {}))
    assert len(open_descriptors()) <= before


def test_an_environment_that_names_no_socket_is_an_error_that_shows_it(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        for number in ("", "three", "-1", "3.0", "987654", "99999999999999999999", str(file.fileno())):
            why = "(invalid literal|Bad file|Python int too large|not a socket)"
            with pytest.raises(RegistrationError, match=f"^NRI_PLUGIN_SOCKET={number}: {why}"):
                connect(environ={"NRI_PLUGIN_SOCKET": number})


# ---- the loop


class Scripted(End):
    """What a runtime sends, all of it before the plugin starts, and what it has got when the plugin has ended."""

    def __init__(self, pair: tuple[socket.socket, int]) -> None:
        self.socket, self.fd = pair
        super().__init__(self.socket.sendall)

    def hear_all(self) -> None:
        while data := self.socket.recv(1 << 20):
            self.receive(data)


@pytest.fixture
def runtime(pair: tuple[socket.socket, int], monkeypatch: pytest.MonkeyPatch) -> Scripted:
    monkeypatch.setattr("sys.argv", ["/opt/nri/plugins/10-mine"])
    for name, value in (ENVIRONMENT | {"NRI_PLUGIN_SOCKET": str(pair[1])}).items():
        monkeypatch.setenv(name, value)
    return Scripted(pair)


def served(made: Plugin) -> None:
    with limit("run does not end"):
        run(made)


def test_run_ends_when_the_runtime_goes_without_reading(runtime: Scripted) -> None:
    """The kernel then says ECONNRESET where it would have said that all had been read."""
    runtime.ask("Configure")
    served(plugin(configure=lambda request, context: runtime.socket.close()))
    assert not is_open(runtime.fd)


def test_run_ends_with_ctrl_c(runtime: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    runtime.ask("Configure")
    with pytest.raises(SystemExit, match="130"):
        served(plugin(configure=lambda *_: signal.raise_signal(signal.SIGINT)))
    assert capsys.readouterr().err == "interrupted\n"


@hosted
async def test_the_programs_arguments_say_who_a_plugin_is_and_where_its_runtime_is(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["10-mine", "-name", "asked", "--idx", "07", "-socket", host.path])
    ending = in_thread(partial(run, Plugin(), "mine", "10", "/nowhere"))
    peer = await host.accept()
    registration = api.RegisterPluginRequest.FromString((await peer.answer_next()).payload)
    assert (registration.plugin_name, registration.plugin_idx) == ("asked", "07")
    peer.close()
    await ending
    for words, code in ((["-h"], 0), (["--nam", "asked"], 2)):
        with pytest.raises(SystemExit, match=str(code)):
            run(Plugin(), words=words)
    explained = capsys.readouterr().out
    for option in ("-name( NAME)?, --name NAME", "-idx( NN)?, --idx NN", "-socket( PATH)?, --socket PATH"):
        assert re.search(option, explained)


def test_run_sends_an_answer_that_no_socket_buffer_holds(runtime: Scripted) -> None:
    response = api.CreateContainerResponse(adjust=api.ContainerAdjustment(args=["x" * (ttrpc.MAX_LENGTH - 64)]))
    runtime.ask("CreateContainer")
    runtime.socket.shutdown(socket.SHUT_WR)
    reader = Thread(target=runtime.hear_all, daemon=True)
    reader.start()
    served(plugin(create_container=lambda request, context: response))
    reader.join()
    assert runtime.heard[1:] == [Reply(1, Code.OK, "", response.SerializeToString())]


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


def joining_again(made: Plugin, host: Host) -> asyncio.Future[str]:
    """What `run` ends with."""

    def whole() -> str:
        try:
            run(made, "mine", "10", host.path, [], reconnect=True)
        except SystemExit as end:
            return str(end.code)
        return ""

    return in_thread(whole)


FRAME_CUT_SHORT, NO_FRAME = b"\0\0\0\1\0\0\0\x10half", b"\xff" * 8


@hosted
async def test_a_plugin_joins_again_until_it_is_refused(
    host: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, waits = Told(), list[float]()
    monkeypatch.setattr(serving, "time", Mock(sleep=waits.append))
    host.close()
    with logged("no runtime at") as has_said:
        task = joining_again(made, host)
        await has_said.wait()
    await host.open()
    for last in (b"", FRAME_CUT_SHORT, NO_FRAME):
        peer = await host.accept()
        await peer.join()
        peer.close(last)
    (await host.accept()).close()  # before it has registered
    await (await host.accept()).answer_next(refusal="too many plugins")
    assert "refused plugin 10-mine: too many plugins" in await task
    assert waits[0] == session.FIRST_WAIT
    *others, last_reason = made.told
    assert others == ["joined", "", "joined", "", "joined"]
    assert re.match("connection 4294967295: a frame of", last_reason)
    assert "on_join has failed" in caplog.text
    assert "on_disconnect has failed" in caplog.text


@hosted
async def test_without_reconnect_serve_ends_as_run_does(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    made = ToldLater()
    async with host.joined(made):
        pass
    assert made.told == ["joined", ""]
    assert [f"{hook} has failed" in caplog.text for hook in ("on_join", "on_disconnect")] == [True, True]
    with pytest.raises(NRIError, match="a frame of"):
        async with host.joined(made) as peer:
            peer.writer.write(NO_FRAME)
    assert re.match("connection 4294967295: a frame of", made.told[3])
    with pytest.raises(RegistrationError, match="no runtime at"):
        await serve(made, "mine", "10", host.path + "x")
    assert len(made.told) == 4


@hosted
async def test_a_plugin_whose_synchronize_fails_has_not_joined(host: Host) -> None:
    for handler, error in (
        (lambda *_: 1 / 0, "10-mine: ZeroDiv"),
        (lambda *_: 5, "10-mine: TypeError: sync"),
    ):
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


def test_the_waits_between_attempts_grow_to_two_seconds_and_each_reason_is_told_once(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    joining = session.Joining(host.path, reconnect=True)
    assert joining.connect() is None
    waits = [joining.pause() for _ in range(7)]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    ended = session.Session(Plugin(), Identity("a", "00"), lambda _: None)
    assert joining.goes_on(ended)
    assert joining.pause() == 2.0
    ended.has_joined = True
    assert joining.goes_on(ended)
    assert joining.pause() == 0.1
    reasons = f"no runtime at {host.path}: No such file or directory", "the runtime has closed the connection"
    assert caplog.messages == [f"{reason}: the plugin keeps trying to join" for reason in reasons]
    monkeypatch.setenv("NRI_PLUGIN_SOCKET", "3")
    assert not session.Joining("", reconnect=True).again, "it was launched"
    assert session.Joining("/some/nri.sock", reconnect=True).again


PROGRAM = """\
import asyncio, signal, sys
sys.path.insert(0, {root!r})
from nri import Plugin, run, serve
class Mine(Plugin):
    {define} start_container(self, request, context): pass
    def on_join(self): print("joined", flush=True)
    def on_disconnect(self, reason): print("left for", reason, flush=True)
async def serve_two():
    await asyncio.gather(*(serve(Mine(), name, "10", {path!r}, reconnect=True) for name in "ab"))
{serves}
print("returned", signal.getsignal(signal.SIGTERM).name)
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
        ("joined\n", "left for SIGTERM\n" * plugins + "returned SIG_DFL\n"),
        ("trying to join\n", "returned SIG_DFL\n"),
    ):
        child = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert child.stdout is not None
        connections = [await host.accept() for _ in range(plugins if until == "joined\n" else 0)]
        for connection in connections:
            await connection.join()
        said = ""
        while said.count(until) < plugins:
            line = await child.stdout.readline()
            assert line, said
            said += line.decode()
        child.send_signal(signal.SIGTERM)
        assert (await child.stdout.read()).decode() == last
        assert await child.wait() == 0
        host.close()  # the next one finds no runtime


CTRL_C = """
import asyncio, os, signal, sys
sys.path.insert(0, {root!r})
from nri import Plugin, serve


class Mine(Plugin):
    async def configure(self, request, context):
        os.kill(os.getpid(), signal.SIGINT)


async def main():
    try:
        await serve(Mine(), "mine", "10", {path!r})
    finally:
        print("cleaned up")


asyncio.run({main})
"""


@pytest.mark.parametrize("main", ["main()", "serve(Mine(), 'mine', '10', {path!r})"])
@hosted
async def test_ctrl_c_ends_serve_without_a_traceback(host: Host, main: str) -> None:
    code = CTRL_C.format(root=str(ROOT), path=host.path, main=main.format(path=host.path))
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    peer = await host.accept()
    await peer.answer_next()
    peer.send("Configure")
    out, err = await program.communicate()
    assert (program.returncode, err) == (130, b"interrupted\n")
    assert (b"cleaned up" in out) is (main == "main()")
