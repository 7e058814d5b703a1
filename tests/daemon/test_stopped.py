"""A stopped server (SIGSTOP) is replaced by its guard. One without a guard runs nothing for a runtime that has gone."""

from __future__ import annotations

import os
import signal
import socket

from google.protobuf.message import Message

from adapter.wire import Code

from .harness import SAFETY, Daemon, Node, start, stop
from .process import children_of

MANY = 500
"""Events of more bytes than the adapter reads at once."""


def test_the_guard_kills_a_stopped_server_and_starts_another(node: Node, listener: socket.socket) -> None:
    node.configure("good")
    daemon = node.launch(runtime={"socket": str(node.path / "nri.sock")})
    assert daemon.call("StartContainer", start("c1")).code == Code.OK
    stopped = daemon.server
    os.kill(stopped, signal.SIGSTOP)
    daemon.accept(listener)
    daemon.handshake()
    assert stopped not in children_of(daemon.guard)
    assert daemon.call("StopContainer", stop("c1")).code == Code.OK
    assert node.runs("good") == [("create", "c1"), ("delete", "c1")]


def test_a_stopped_server_gives_the_lock_to_the_adapter_that_waits(node: Node) -> None:
    node.configure("good")
    node.shared_state = "state"
    first, second = node.launch(), node.launch()
    os.kill(first.server, signal.SIGSTOP)
    first.until(lambda: first.trunk is not None and first.trunk.fileno() < 0, "the end of the trunk")
    assert second.call("StartContainer", start("c1")).code == Code.OK
    assert node.runs("good") == [("create", "c1")]


def test_the_launched_process_does_not_kill_a_stopped_guard(node: Node) -> None:
    daemon = node.launch()
    os.kill(daemon.guard, signal.SIGSTOP)
    node.still_serves(daemon)
    os.kill(daemon.guard, signal.SIGCONT)
    daemon.signal(signal.SIGTERM)
    assert daemon.ended() == 0


def external(node: Node, listener: socket.socket) -> Daemon:
    """An adapter without a guard, which has run the create of a container."""
    node.configure("good")
    config = node.path / "adapter.yaml"
    config.write_text(node.settings())
    words = "-config", config, "-socket", node.path / "nri.sock"
    daemon = node.external(*words, listener=listener, fresh=True).handshake()  # a child of ours, to wait for its stop
    assert daemon.call("StartContainer", start("c1")).code == Code.OK
    return daemon


def stop_while(daemon: Daemon, *calls: tuple[str, Message]) -> None:
    """Stops the adapter, sends calls, closes the connection, and lets the adapter go on."""
    daemon.signal(signal.SIGSTOP)
    os.waitpid(daemon.pid, os.WUNTRACED)
    daemon.send_together(*((method, request, SAFETY) for method, request in calls))
    daemon.hang_up()
    daemon.signal(signal.SIGCONT)


def test_creates_that_wait_in_the_connection_of_a_runtime_that_has_gone_do_not_run(
    node: Node, listener: socket.socket
) -> None:
    daemon = external(node, listener)
    stop_while(daemon, *(("StartContainer", start(f"late{number}")) for number in range(MANY)))
    daemon.accept(listener)
    daemon.handshake()
    assert daemon.call("StopContainer", stop("c1")).code == Code.OK
    assert node.runs("good") == [("create", "c1"), ("delete", "c1")]


def test_a_stop_that_waits_there_runs(node: Node, listener: socket.socket) -> None:
    daemon = external(node, listener)
    stop_while(daemon, ("StopContainer", stop("c1")))
    daemon.logged("the runtime has closed the connection")
    daemon.signal(signal.SIGTERM)
    assert daemon.ended() == 0
    assert node.runs("good") == [("create", "c1"), ("delete", "c1")]
