"""A stopped server (SIGSTOP) is replaced by its guard. One without a guard runs nothing for a runtime that has gone."""

from __future__ import annotations

import os
import signal
import socket

from google.protobuf.message import Message

from .harness import Node, start, stop
from .process import Daemon, children_of

MANY = 500
"""Events of more bytes than the adapter reads at once."""


def test_the_guard_kills_a_stopped_server_and_starts_another(node: Node, listener: socket.socket) -> None:
    node.configure("good")
    daemon = node.launch(runtime={"socket": str(node.path / "nri.sock")})
    daemon.serves(start("c1"))
    stopped = daemon.server
    os.kill(stopped, signal.SIGSTOP)
    daemon.accept(listener)
    daemon.handshake()
    assert stopped not in children_of(daemon.guard)
    daemon.serves(stop("c1"))
    assert node.runs() == [("create", "c1"), ("delete", "c1")]


def test_a_stopped_server_gives_the_lock_to_the_adapter_that_waits(node: Node) -> None:
    node.configure("good")
    node.shared_state = "state"
    first, second = node.launch(), node.launch()
    os.kill(first.server, signal.SIGSTOP)
    first.dropped()
    second.serves(start("c1"))
    assert node.runs() == [("create", "c1")]


def test_the_launched_process_does_not_kill_a_stopped_guard(node: Node) -> None:
    daemon = node.launch()
    os.kill(daemon.guard, signal.SIGSTOP)
    node.still_serves(daemon)
    os.kill(daemon.guard, signal.SIGCONT)
    daemon.end()


def stopped_while(node: Node, listener: socket.socket, *calls: Message) -> Daemon:
    """An adapter without a guard, which has run a create, and was stopped while calls came and the runtime went."""
    node.configure("good")
    daemon = node.external(listener=listener, fresh=True).handshake()  # a child of ours, to wait for its stop
    daemon.serves(start("c1"))
    daemon.signal(signal.SIGSTOP)
    os.waitpid(daemon.pid, os.WUNTRACED)
    daemon.send_together(*calls)
    daemon.hang_up()
    daemon.signal(signal.SIGCONT)
    return daemon


def test_creates_from_a_runtime_that_has_gone_do_not_run(node: Node, listener: socket.socket) -> None:
    daemon = stopped_while(node, listener, *(start(f"late{number}") for number in range(MANY)))
    daemon.accept(listener)
    daemon.handshake().serves(stop("c1"))
    assert node.runs() == [("create", "c1"), ("delete", "c1")]


def test_a_stop_that_waits_there_runs(node: Node, listener: socket.socket) -> None:
    daemon = stopped_while(node, listener, stop("c1"))
    daemon.logged("the runtime has closed the connection")
    daemon.end()
    assert node.runs() == [("create", "c1"), ("delete", "c1")]
