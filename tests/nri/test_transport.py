"""Where a plugin meets its runtime: who it is, which socket it takes, and the loop over it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from adapter.errors import RegistrationError
from adapter.nri import Identity, Plugin, api, connect, identity, launched, run, transport
from adapter.wire import Code, Reply, Request, ttrpc

from ..processes import PATIENCE
from .host import Host, hosted
from .runtime import End, plugin

ENVIRONMENT = {"NRI_PLUGIN_NAME": "env", "NRI_PLUGIN_IDX": "42", "NRI_PLUGIN_SOCKET": "3"}


WHO: list[tuple[str, str, dict[str, str], str, Identity]] = [
    ("", "", ENVIRONMENT, "/opt/nri/plugins/10-file", Identity("env", "42")),
    ("asked", "07", ENVIRONMENT, "10-file", Identity("asked", "07")),
    ("asked", "", ENVIRONMENT, "10-file", Identity("asked", "42")),
    ("", "07", ENVIRONMENT, "10-file", Identity("env", "07")),
    ("", "", {}, "/opt/nri/plugins/10-file", Identity("file", "10")),
    ("", "", {}, "10-a-b", Identity("a-b", "10")),
    ("asked", "", {}, "10-file", Identity("asked", "10")),
    ("", "", {}, "/usr/bin/adapter", Identity("adapter", "00")),
    ("", "", {}, "100-x", Identity("100-x", "00")),
    ("", "", {}, "10-", Identity("10-", "00")),
    ("", "", {"NRI_PLUGIN_NAME": ""}, "10-file", Identity("file", "10")),
]


def test_a_plugin_is_who_arguments_environment_or_file_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, idx, environ, program, expected in WHO:
        assert identity(name, idx, environ, program) == expected
        monkeypatch.setattr("sys.argv", [program, "-x"])
        assert identity(name, idx, environ) == expected


def test_an_index_that_every_runtime_refuses_is_refused_at_once() -> None:
    for idx in ("1", "123", "1x", "x1", "-1", " 1", "1\n", "12\n", "\u0661\u0662"):
        with pytest.raises(RegistrationError, match="two digits"):
            identity("name", idx, {})


# ---- sockets


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, int]]:
    """A runtime's end of a socket, and the descriptor of the other, inheritable as a launched plugin finds it."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)
    fd = theirs.detach()
    os.set_inheritable(fd, True)
    try:
        yield ours, fd
    finally:
        ours.close()
        if is_open(fd):
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


def test_a_runtime_that_cannot_be_reached_is_named_and_no_descriptor_is_left(
    tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert transport.DEFAULT_SOCKET == "/var/run/nri/nri.sock"
    absent = f"{host.path}-absent"
    monkeypatch.setattr(transport, "DEFAULT_SOCKET", absent)
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(host.path)
    before = os.listdir("/proc/self/fd")
    for asked, named in {
        "": absent,
        **{str(path): path for path in (host.path, tmp_path / "file", "/x" * 200)},
    }.items():
        with pytest.raises(RegistrationError, match=f"^no runtime at {named}: "):
            connect(asked, {})
        assert os.listdir("/proc/self/fd") == before


def test_an_environment_that_names_no_socket_is_an_error_that_shows_it(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        for number in ("", "three", "-1", "3.0", "987654", "99999999999999999999", str(file.fileno())):
            with pytest.raises(RegistrationError, match=f"NRI_PLUGIN_SOCKET={number}"):
                connect(environ={"NRI_PLUGIN_SOCKET": number})


# ---- the loop


class Runtime(End):
    """What a runtime sends, all of it before the plugin starts, and what it has got when the plugin has ended."""

    def __init__(self, pair: tuple[socket.socket, int]) -> None:
        self.socket, self.fd = pair
        super().__init__(self.socket.sendall)

    def hear_all(self) -> None:
        while data := self.socket.recv(1 << 20):
            self.receive(data)


@pytest.fixture
def runtime(pair: tuple[socket.socket, int], monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr("sys.argv", ["/opt/nri/plugins/10-mine"])
    for name, value in (ENVIRONMENT | {"NRI_PLUGIN_SOCKET": str(pair[1])}).items():
        monkeypatch.setenv(name, value)
    return Runtime(pair)


def test_run_ends_when_the_runtime_goes_without_reading(runtime: Runtime) -> None:
    """The kernel then says ECONNRESET where it would have said that all had been read."""
    runtime.ask("Configure")
    run(plugin(configure=lambda request, context: runtime.socket.close()))
    assert not is_open(runtime.fd)


def test_run_ends_with_a_refusal(runtime: Runtime) -> None:
    runtime.answer(1, refusal="invalid plugin name")
    with pytest.raises(SystemExit, match=r"^10-mine: the runtime refused plugin 42-env: invalid plugin name$"):
        run(Plugin())
    assert not is_open(runtime.fd)


FLAGS: list[tuple[list[str], tuple[str, str]]] = [
    (["-name", "flag", "-idx", "07", "-socket"], ("flag", "07")),
    (["--name", "flag", "--idx", "07", "--socket"], ("flag", "07")),
    (["-socket"], ("asked", "99")),
]


@hosted
async def test_runs_flags_come_before_arguments_and_these_before_the_environment(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NRI_PLUGIN_SOCKET", "999999")
    for flags, expected in FLAGS:
        words = [*flags, host.path]
        program = asyncio.ensure_future(asyncio.to_thread(run, Plugin(), "asked", "99", "/absent.sock", words))
        peer = await host.accept()
        request = api.RegisterPluginRequest.FromString((await peer.hear(Request)).payload)
        assert (request.plugin_name, request.plugin_idx) == expected
        peer.close()
        await program


def test_run_refuses_unknown_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["-indx", "10"], ["file"], ["-name"]):
        with pytest.raises(SystemExit) as ended:
            run(Plugin(), words=words)
        assert ended.value.code == 2
        assert "usage: " in capsys.readouterr().err


def test_ctrl_c_ends_run_with_a_line(runtime: Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    runtime.ask("Configure")
    with pytest.raises(SystemExit) as ended:
        run(plugin(configure=interrupt))
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert not is_open(runtime.fd)


def test_run_sends_an_answer_that_no_socket_buffer_holds(runtime: Runtime) -> None:
    response = api.CreateContainerResponse(adjust=api.ContainerAdjustment(args=["x" * (ttrpc.MAX_LENGTH - 64)]))
    runtime.ask("CreateContainer")
    runtime.socket.shutdown(socket.SHUT_WR)
    reader = Thread(target=runtime.hear_all)
    reader.start()
    try:
        run(plugin(create_container=lambda request, context: response))
    finally:
        reader.join()
    assert runtime.heard[1:] == [Reply(1, Code.OK, "", response.SerializeToString())]
