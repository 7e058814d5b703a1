"""Where a plugin meets its runtime: who it is, which socket it takes, and the loop over it."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from adapter.errors import RegistrationError
from adapter.nri import Identity, Plugin, api, connect, identity, launched, run, transport
from adapter.nri.events import PLUGIN
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, Request, mux, ttrpc

from .runtime import plugin

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


def test_a_plugin_is_who_it_was_asked_to_be_or_launched_as_or_what_its_file_says() -> None:
    for name, idx, environ, program, expected in WHO:
        assert identity(name, idx, environ, program) == expected


def test_without_other_sources_the_program_is_that_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/opt/nri/plugins/33-mine", "-x"])
    assert identity(environ={}) == Identity("mine", "33")


def test_an_index_that_every_runtime_refuses_is_refused_at_once() -> None:
    for idx in ("1", "123", "1x", "x1", "-1", " 1", "1\n", "12\n", "\u0661\u0662"):
        with pytest.raises(RegistrationError, match="two digits"):
            identity("name", idx, {})


def test_a_plugin_with_a_socket_in_its_environment_was_launched() -> None:
    assert launched(ENVIRONMENT)
    assert not launched({"NRI_PLUGIN_NAME": "env", "NRI_PLUGIN_IDX": "42"})


# ---- sockets


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, int]]:
    """A runtime's end of a socket, and the descriptor of the other, inheritable as a launched plugin finds it."""
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    fd = theirs.detach()
    os.set_inheritable(fd, True)
    try:
        yield ours, fd
    finally:
        ours.close()
        if is_open(fd):
            os.close(fd)


@pytest.fixture
def directory() -> Iterator[Path]:
    """One whose path is short enough for a socket's address."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def listener(directory: Path) -> Iterator[tuple[str, socket.socket]]:
    path = str(directory / "nri.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        yield path, listening


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def open_descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def test_a_launched_plugin_takes_the_socket_it_was_left_and_keeps_it_from_its_children(
    pair: tuple[socket.socket, int],
) -> None:
    ours, fd = pair
    assert connect(environ={"NRI_PLUGIN_SOCKET": str(fd)}) == fd
    assert not os.get_inheritable(fd)
    os.write(fd, b"hello")
    assert ours.recv(5) == b"hello"


def test_an_external_plugin_connects_by_path(listener: tuple[str, socket.socket]) -> None:
    path, listening = listener
    for environ in ({}, {"NRI_PLUGIN_SOCKET": "999999"}):  # a path that was asked for counts more
        with socket.socket(fileno=connect(path, environ)) as connected, listening.accept()[0] as accepted:
            accepted.sendall(b"hello")
            assert connected.recv(5) == b"hello"
            assert not connected.get_inheritable()


def test_without_path_and_environment_it_is_the_runtimes_well_known_socket(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert transport.DEFAULT_SOCKET == "/var/run/nri/nri.sock"
    monkeypatch.setattr(transport, "DEFAULT_SOCKET", str(directory / "absent.sock"))
    with pytest.raises(RegistrationError, match=r"absent\.sock"):
        connect(environ={})


def test_a_process_without_a_descriptor_left_has_no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(RegistrationError, match="no runtime at /a/socket: Too many open files"):
        connect("/a/socket", {})


def test_a_runtime_that_cannot_be_reached_is_named_and_no_descriptor_is_left(directory: Path) -> None:
    (directory / "file").touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "stale"))
    before = open_descriptors()
    for path in (directory / "absent", directory / "stale", directory / "file", directory, directory / ("x" * 200)):
        with pytest.raises(RegistrationError) as caught:
            connect(str(path), {})
        assert str(caught.value).startswith(f"no runtime at {path}: ")
        assert open_descriptors() == before


def test_an_environment_that_names_no_socket_is_an_error_that_shows_it(directory: Path) -> None:
    with (directory / "file").open("w") as file:
        for number in ("", "three", "-1", "3.0", "987654", "99999999999999999999", str(file.fileno())):
            with pytest.raises(RegistrationError, match=f"NRI_PLUGIN_SOCKET={number}"):
                connect(environ={"NRI_PLUGIN_SOCKET": number})


# ---- the loop


class Runtime:
    """What a runtime sends, all of it before the plugin starts, and what it has got when the plugin has ended."""

    def __init__(self, pair: tuple[socket.socket, int], monkeypatch: pytest.MonkeyPatch) -> None:
        self.socket, self.fd = pair
        self.connection = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
        for name, value in (ENVIRONMENT | {"NRI_PLUGIN_SOCKET": str(self.fd)}).items():
            monkeypatch.setenv(name, value)

    def send(self) -> None:
        self.socket.sendall(self.connection.data_to_send())

    def heard(self) -> list[Request | Reply]:
        found: list[Request | Reply] = []
        while data := self.socket.recv(1 << 20):
            found += self.connection.receive_data(data)
        return found


@pytest.fixture
def runtime(pair: tuple[socket.socket, int], monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr("sys.argv", ["/opt/nri/plugins/10-mine"])
    return Runtime(pair, monkeypatch)


def test_run_registers_serves_and_ends_with_the_connection(runtime: Runtime) -> None:
    seen = []
    runtime.connection.respond(1, b"")
    for method in ("Configure", "Synchronize", "StartContainer"):
        runtime.connection.call(PLUGIN, method, b"")
    runtime.send()
    runtime.socket.shutdown(socket.SHUT_WR)
    run(plugin(start_container=lambda request, context: seen.append(context.method)))
    assert not is_open(runtime.fd)
    registration, *replies = runtime.heard()
    assert isinstance(registration, Request)
    assert api.RegisterPluginRequest.FromString(registration.payload) == api.RegisterPluginRequest(
        plugin_name="env", plugin_idx="42", NRI_version="v0.12.5"
    )
    assert [reply[:2] for reply in replies] == [(1, Code.OK), (3, Code.OK), (5, Code.OK)]
    assert seen == ["StartContainer"]


def test_run_ends_when_the_runtime_goes_without_reading(runtime: Runtime) -> None:
    """The kernel then says ECONNRESET where it would have said that all had been read."""
    runtime.connection.call(PLUGIN, "Configure", b"")
    runtime.send()
    run(plugin(configure=lambda request, context: runtime.socket.close()))
    assert not is_open(runtime.fd)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"", "the runtime refused plugin 42-env: invalid plugin name"),
        (b"\xff" * mux.HEADER.size, "connection 4294967295: a frame of"),
    ],
)
def test_run_ends_with_what_the_runtime_has_against_the_plugin_or_is_wrong_with_the_stream(
    runtime: Runtime, sent: bytes, says: str
) -> None:
    runtime.connection.fail(1, Code.UNKNOWN, "invalid plugin name")
    runtime.socket.sendall(sent)
    runtime.send()
    runtime.socket.shutdown(socket.SHUT_WR)
    with pytest.raises(SystemExit, match=rf"^10-mine: {says}"):
        run(Plugin())
    assert not is_open(runtime.fd)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["-name", "flag", "-idx", "07", "-socket"], ("flag", "07")),
        (["--name", "flag", "--idx", "07", "--socket"], ("flag", "07")),
        (["-socket"], ("asked", "99")),
    ],
)
def test_runs_flags_come_before_its_arguments(
    listener: tuple[str, socket.socket], flags: list[str], expected: tuple[str, str]
) -> None:
    path, listening = listener
    program = Thread(target=run, args=(Plugin(), "asked", "99", "/absent.sock", [*flags, path]))
    program.start()
    with listening.accept()[0] as accepted:
        connection = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
        (registration,) = connection.receive_data(accepted.recv(1 << 16))
    program.join()
    assert isinstance(registration, Request)
    request = api.RegisterPluginRequest.FromString(registration.payload)
    assert (request.plugin_name, request.plugin_idx) == expected


def test_run_refuses_unknown_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["-indx", "10"], ["file"], ["-name"]):
        with pytest.raises(SystemExit) as ended:
            run(Plugin(), words=words)
        assert ended.value.code == 2
        assert "usage: " in capsys.readouterr().err


def test_run_without_a_runtime_ends_with_a_line_that_names_the_socket(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["./10-mine", "-socket", str(directory / "absent.sock")])
    with pytest.raises(SystemExit, match=r"^10-mine: no runtime at .*/absent\.sock: No such file or directory$"):
        run(Plugin(), name="mine")


def test_ctrl_c_ends_run_with_a_line(runtime: Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    runtime.connection.call(PLUGIN, "Configure", b"")
    runtime.send()
    with pytest.raises(SystemExit) as ended:
        run(plugin(configure=interrupt))
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert not is_open(runtime.fd)


@pytest.mark.parametrize("at_most", [65536, 8 << 20])
def test_run_sends_answers_that_no_socket_buffer_holds_however_much_the_kernel_takes_at_a_time(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, at_most: int
) -> None:
    write = os.write  # a signal makes the kernel take less than all
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:at_most]))
    response = api.CreateContainerResponse(adjust=api.ContainerAdjustment(args=["x" * (ttrpc.MAX_LENGTH - 64)]))
    runtime.connection.call(PLUGIN, "CreateContainer", b"")
    runtime.send()
    runtime.socket.shutdown(socket.SHUT_WR)
    heard: list[Request | Reply] = []
    reader = Thread(target=lambda: heard.extend(runtime.heard()))
    reader.start()
    try:
        run(plugin(create_container=lambda request, context: response))
    finally:
        reader.join()
    assert heard[1:] == [Reply(1, Code.OK, "", response.SerializeToString())]
