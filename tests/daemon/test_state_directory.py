"""What an adapter finds in its state directory, and what becomes of it: nothing runs twice, nothing is left out."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable

import pytest
from google.protobuf.message import Message

from adapter.monitoring.status import ask
from adapter.nri import api

from .harness import POD, Node, container, create, listed, start, stop
from .process import Daemon

EVENTS = ["CreateContainer", "StartContainer", "UpdateContainer", "StopContainer"]
REPEATED: list[Message] = [
    start("c1"),
    create("c1"),
    api.UpdateContainerRequest(pod=POD, container=container("c1")),
]


@pytest.fixture(autouse=True)
def shared(node: Node) -> None:
    node.configure("good")
    node.shared_state = "state"


@pytest.mark.parametrize("end", [Daemon.end, Daemon.kill])
@pytest.mark.parametrize("event", REPEATED, ids=lambda event: type(event).__name__)
def test_the_first_event_after_a_restart_runs_plugins(
    event: Message, end: Callable[[Daemon], object], node: Node
) -> None:
    """The runtime passes no event of one adapter on to another that joins later: it is another event."""
    settings = {"plugins": {"good": {"events": EVENTS}}} if event is not REPEATED[0] else {}
    first = node.launch(settings)
    first.serves(event)
    end(first)
    node.launch(settings).serves(event)
    assert len(node.runs()) == 2


@pytest.mark.parametrize("end", [Daemon.end, Daemon.kill])
def test_one_that_has_waited_runs_plugins_at_an_event_like_an_earlier_one(
    node: Node, end: Callable[[Daemon], object]
) -> None:
    first = node.launch()
    first.serves(start("c1"))
    second = node.spawn().handshake(node.settings(), listed("c1", api.CONTAINER_RUNNING))
    second.logged("this one waits")
    end(first)
    second.serves(start("c1"))
    assert node.runs() == [("create", "c1")] * 2


def test_a_state_directory_that_is_removed_is_made_anew_and_no_second_adapter_serves(node: Node) -> None:
    first, second = node.launch(), node.launch()
    second.logged("this one waits")
    for daemon in (first, second):
        daemon.serves(start("c1"))
    shutil.rmtree(node.path / "state")
    for daemon in (first, second):
        daemon.serves(start("c2"))
    third = node.launch()
    third.logged("this one waits")
    second.kill()
    for daemon in (third, first):
        daemon.serves(stop("c1"), stop("c2"))
    assert node.runs() == [("create", "c1"), ("create", "c2"), ("delete", "c1"), ("delete", "c2")]


def test_a_journal_that_cannot_be_written_is_a_fault_until_it_can_be(node: Node) -> None:
    state = node.path / "state"
    daemon = node.launch()
    daemon.logged("registered with")
    (state / "journal.new").mkdir()
    (state / "journal").unlink()
    daemon.serves(start("c1"))
    [told] = ask(str(state))
    assert told["faults"] == [told["state_fault"]]
    assert told["state_fault"].startswith(f"{state}/journal.new: ")
    (state / "journal.new").rmdir()
    daemon.serves(start("c2"))
    [told] = ask(str(state))
    assert (told["faults"], told["state_fault"]) == ([], "")
    assert (state / "journal").read_bytes().count(b'"created"') == 2


def test_an_owner_that_finds_another_in_its_place_joins_again_and_waits(node: Node, listener: socket.socket) -> None:
    """Its directory was removed, and an adapter that was started then was faster than its next event."""
    first = node.external(listener=listener, fresh=True).handshake()
    first.serves(start("c1"))
    first.signal(signal.SIGSTOP)
    os.waitpid(first.pid, os.WUNTRACED)
    shutil.rmtree(node.path / "state")
    second = node.launch()
    second.logged("registered with")
    second.serves(start("c2"))
    first.signal(signal.SIGCONT)
    first.serves(start("c2"))
    first.logged("another adapter serves the events now")
    first.accept(listener)
    first.handshake()
    for daemon in (first, second):
        daemon.serves(start("c3"))
    second.kill()
    first.serves(stop("c3"))
    assert node.runs() == [("create", "c1"), ("create", "c2"), ("create", "c3"), ("delete", "c3")]
