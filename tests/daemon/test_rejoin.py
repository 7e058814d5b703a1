"""The external form outlives its runtime: it waits for one, joins again, and owes what it owed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator

import pytest
from google.protobuf.message import Message

import nri
from nri import api
from nri.errors import RegistrationError
from nri.wire import Code
from v010_adapter.cli import command_line, systems

from ..rig.daemon import Daemon, spawn
from ..rig.machine import Machine, patched, start, stop
from ..rig.screen import at_terminal
from ..rig.sockets import listening
from ..rig.waiting import LIMIT

Listen = Callable[[], socket.socket]


@pytest.fixture
def listen(node: Machine) -> Iterator[Listen]:
    """Makes the runtime's NRI socket, each time anew, as a runtime does at its start."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(listening(node.path / "nri.sock"))


@pytest.fixture
def daemon(node: Machine, listen: Listen) -> Daemon:
    """One that has joined."""
    return node.external(listener=listen()).handshake()


@pytest.mark.parametrize("number", [0, signal.SIGTERM, signal.SIGINT])
def test_it_waits_for_a_runtime_says_so_once_and_ends_on_a_signal(node: Machine, listen: Listen, number: int) -> None:
    daemon = node.external()
    daemon.logged("no runtime at", "the adapter keeps trying to join")
    if number:
        daemon.signal(number)
        assert daemon.ended() == 0
        return
    node.still_serves(daemon.accept(listener := listen()).handshake())
    assert len([line for line in daemon.log if "keeps trying" in line]) == 1
    listener.close()
    (node.path / "nri.sock").unlink()
    daemon.log.clear()
    daemon.hang_up()
    daemon.logged("no runtime at", "the adapter keeps trying to join")


def test_it_joins_again_when_the_runtime_is_back_and_owes_deletes(
    node: Machine, daemon: Daemon, listen: Listen
) -> None:
    node.configure("good")
    daemon.serves(start("ctr"))
    for number in range(3):
        daemon.hang_up()
        daemon.accept(listen())
        if number == 1:  # a runtime that refuses it once is asked again
            daemon.answer(daemon.request(), Code.UNKNOWN, "not now")
            daemon.logged("refused plugin", "not now")
            daemon.accept(listen())
        daemon.handshake()
    daemon.serves(stop("ctr"))
    assert node.runs() == [("create", "ctr"), ("delete", "ctr")]


def test_a_chain_under_way_is_finished_and_a_waiting_create_not_run(
    node: Machine, daemon: Daemon, listen: Listen
) -> None:
    gate = node.slow()
    node.configure("slow")
    daemon.send(start("ctr"))
    gate.arrival()
    daemon.send(start("ctr"))  # it waits for the first
    daemon.hang_up()
    daemon.logged("INFO the runtime has closed the connection")
    daemon.logged("WARNING until the adapter has joined again, pods and containers start without it")
    gate.let_on()
    node.still_serves(daemon.accept(listen()).handshake())
    assert node.runs("slow") == [("create", "ctr")]
    assert not [line for line in daemon.log if "keeps trying" in line], "nothing has failed"


def test_a_connection_that_is_broken_or_not_read_is_made_anew(node: Machine, daemon: Daemon, listen: Listen) -> None:
    daemon.send_bytes(b"\xff" * 100)
    daemon.logged("ERROR")
    daemon.dropped()
    daemon.accept(listen()).handshake()
    with contextlib.suppress(OSError):  # the daemon goes away as soon as it has enough
        for _ in range(1000):
            daemon.send("x" * 60_000)  # the answer names the method
    daemon.logged("ERROR the other end does not read: more than 8388608 bytes wait to be sent")
    node.still_serves(daemon.accept(listen()).handshake())


def test_a_bug_ends_the_connection_and_is_told_with_its_traceback(node: Machine) -> None:
    daemon = node.spawn(patched("from nri.stub import Stub; Stub.receive_data = lambda *_, **__: 1 / 0"))
    daemon.answer(daemon.request())
    assert daemon.ended() == 1
    said = "\n".join(daemon.log)
    daemon.log.clear()  # the only one that may have a traceback
    assert "ERROR a bug: the connection with the runtime cannot go on" in said
    assert "\n    ZeroDivisionError: division by zero\n" in said
    assert "ERROR a bug: division by zero" in said


def with_a_bug(node: Machine, *statements: str) -> Daemon:
    """Starts an external adapter that runs these statements first, and that joins anew without a pause."""
    config = node.file(runtime={"socket": str(node.path / "nri.sock")})
    own = f"settings.DEFAULT_PATH = {str(config)!r}", "daemon.AFTER_BUG = 0"
    return node.keep(spawn(patched(*own, *statements), node.state(), {}))


@pytest.mark.parametrize(
    ("owner", "function", "calls"),
    [
        ("v010_adapter.daemon.adapter.Adapter", "end_left_holds", []),
        ("v010_adapter.events.serving.Serving", "__init__", [api.SynchronizeRequest()]),
        ("v010_adapter.events.serving.Serving", "__init__", [api.SynchronizeRequest(), start("ctr")]),
    ],
)
def test_a_bug_at_a_joining_is_told_and_the_adapter_joins_anew(
    node: Machine, listen: Listen, owner: str, function: str, calls: list[Message]
) -> None:
    """Here once, as when there are no descriptors for a moment. Else it would be joined, and serve nothing."""
    module, name = owner.rsplit(".", 1)
    daemon = with_a_bug(
        node,
        f"from {module} import {name}",
        f"whole = {name}.{function}",
        f"def fails(*_): {name}.{function} = whole; raise OSError(24, 'Too many open files')",
        f"{name}.{function} = fails",
    )
    listener = listen()
    if calls:
        daemon.accept(listener).registration()
        daemon.configure()
        daemon.send_together(*calls)
    daemon.logged("ERROR a bug: ")
    node.still_serves(daemon.accept(listener).handshake())
    assert daemon.log
    daemon.log.clear()  # the only one that may have a traceback


def test_a_bug_at_a_loss_is_told_and_the_adapter_joins_anew(node: Machine, listen: Listen) -> None:
    bug = "from v010_adapter.events.serving import Serving; Serving.on_runtime_gone = lambda _: 1 / 0"
    daemon = with_a_bug(node, bug)
    daemon.accept(listener := listen()).handshake().hang_up()
    daemon.logged("ERROR a bug: what the loss of the connection has left undone is unknown")
    node.still_serves(daemon.accept(listener).handshake())
    assert daemon.log
    daemon.log.clear()  # the only one that may have a traceback


def test_it_knows_the_process_of_its_runtime(node: Machine, listen: Listen) -> None:
    (node.path / "etc/nri").mkdir(parents=True)
    conf_json = node.conf_json.rename(node.path / "etc/nri/conf.json")
    config = node.file({"config": str(conf_json), "sandboxes": "auto"}, hostRoot=str(node.path))
    daemon = node.external("-config", config, listener=listen()).handshake(name="containerd", version="v2.99.0")
    daemon.logged("plugins for pods are run by the adapter: the executable of containerd v2.99.0 does not contain")


def test_once_it_ends_with_its_connection_and_waits_for_no_runtime(node: Machine, listen: Listen) -> None:
    daemon = node.external("-once")
    assert daemon.ended() == 1
    assert daemon.log == [f"v010-adapter: no runtime at {node.path}/nri.sock: No such file or directory"]
    daemon = node.external("-once", listener=listen()).handshake()
    daemon.hang_up()
    assert daemon.ended() == 1


def test_it_says_at_which_socket_it_joins_also_at_one_below_its_first_directory(
    node: Machine, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(node.path)
    daemon = node.external("-socket", "nri.sock", listener=listen(), fresh=True).handshake()
    daemon.logged(f"joins the runtime at {node.path}/nri.sock")


def test_without_a_configured_socket_it_takes_the_usual_one_that_exists(
    node: Machine, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systems, "NRI_SOCKETS", (nri.DEFAULT_SOCKET, f"{node.path}/nri.sock"))
    monkeypatch.setattr(os.path, "exists", {f"{node.path}/nri.sock"}.__contains__)
    listen()
    os.close(command_line.connect(nri.DEFAULT_SOCKET))
    with pytest.raises(RegistrationError, match=r"^no runtime at /run/other\.sock: "):
        command_line.connect("/run/other.sock")


def test_at_a_terminal_it_says_what_to_do_instead_of_waiting() -> None:
    with at_terminal("-socket", "/nowhere\x1b", columns=200) as shown:
        error, next_steps = shown.until().rows
        assert shown.process.wait(LIMIT) == 1
    assert error == r"v010-adapter: no runtime at /nowhere\x1b: No such file or directory"
    assert next_steps.startswith("These commands need no runtime: demo, simulate, check")
