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
from adapter.wire import Code

from .harness import Node
from .messages import POD, container, start, stop
from .process import Daemon

EVENTS = ["CreateContainer", "StartContainer", "UpdateContainer", "StopContainer"]
REPEATED: dict[str, Message] = {
    "StartContainer": start("c1"),
    "CreateContainer": api.CreateContainerRequest(pod=POD, container=container("c1")),
    "UpdateContainer": api.UpdateContainerRequest(pod=POD, container=container("c1")),
}


def states(node: Node) -> list[str]:
    return [state for state, _ in node.runs("good")]


def end(daemon: Daemon) -> None:
    daemon.signal(signal.SIGTERM)
    daemon.ended()


def kill(daemon: Daemon) -> None:
    daemon.kill()
    daemon.ended()


@pytest.mark.parametrize("ends", [end, kill])
@pytest.mark.parametrize("event", REPEATED)
def test_the_first_event_after_a_restart_runs_plugins_though_it_is_the_last_before(
    event: str, ends: Callable[[Daemon], object], node: Node
) -> None:
    """The runtime passes no event of one adapter on to another that joins later: it is another event."""
    node.configure("good")
    node.shared_state = "state"
    settings = {"plugins": {"good": {"events": EVENTS}}} if event != "StartContainer" else {}
    first = node.launch(settings)
    assert first.call(event, REPEATED[event]).code == Code.OK
    ends(first)
    assert node.launch(settings).call(event, REPEATED[event]).code == Code.OK
    assert len(states(node)) == 2


@pytest.mark.parametrize("is_killed", [True, False])
def test_an_adapter_that_has_waited_runs_plugins_at_an_event_like_one_from_before_it_joined(
    node: Node, is_killed: bool
) -> None:
    node.configure("good")
    node.shared_state = "state"
    first = node.launch()
    assert first.call("StartContainer", start("c1")).code == Code.OK
    second = node.spawn()
    second.registration()
    second.configure(node.settings())
    running = container("c1")
    running.state = api.CONTAINER_RUNNING
    listed = api.SynchronizeRequest(pods=[POD], containers=[running])
    assert second.call("Synchronize", listed).code == Code.OK
    second.logged("this one waits")
    kill(first) if is_killed else end(first)
    assert second.call("StartContainer", start("c1")).code == Code.OK
    assert states(node) == ["create", "create"]


def test_a_state_directory_that_is_removed_is_made_anew_and_no_second_adapter_serves(node: Node) -> None:
    node.configure("good")
    node.shared_state = "state"
    state = node.path / "state"
    first, second = node.launch(), node.launch()
    second.logged("this one waits")
    for daemon in (first, second):
        assert daemon.call("StartContainer", start("c1")).code == Code.OK
    shutil.rmtree(state)
    for daemon in (second, first, second):
        assert daemon.call("StartContainer", start("c2")).code == Code.OK
    third = node.launch()
    third.logged("this one waits")
    kill(first)
    for daemon in (third, second):
        for id_ in ("c1", "c2"):
            assert daemon.call("StopContainer", stop(id_)).code == Code.OK
    assert node.runs("good") == [("create", "c1"), ("create", "c2"), ("delete", "c1"), ("delete", "c2")]


def test_a_journal_that_cannot_be_written_is_a_fault_until_it_can_be(node: Node) -> None:
    node.configure("good")
    node.shared_state = "state"
    state = node.path / "state"
    daemon = node.launch()
    daemon.logged("registered with")
    (state / "journal.new").mkdir()
    (state / "journal").unlink()
    assert daemon.call("StartContainer", start("c1")).code == Code.OK
    [told] = ask(str(state))
    assert told["faults"] == [told["state_fault"]]
    assert told["state_fault"].startswith(f"{state}/journal.new: ")
    (state / "journal.new").rmdir()
    assert daemon.call("StartContainer", start("c2")).code == Code.OK
    [told] = ask(str(state))
    assert (told["faults"], told["state_fault"]) == ([], "")
    assert (state / "journal").read_bytes().count(b'"created"') == 2


def test_an_owner_that_finds_another_in_its_place_joins_again_and_waits(node: Node, listener: socket.socket) -> None:
    """Its directory was removed, and an adapter that was started then was faster than its next event."""
    node.configure("good")
    node.shared_state = "state"
    config = node.path / "adapter.yaml"
    config.write_text(node.settings())
    first = node.external(
        "-config", config, "-socket", node.path / "nri.sock", listener=listener, fresh=True
    ).handshake()
    assert first.call("StartContainer", start("c1")).code == Code.OK
    first.signal(signal.SIGSTOP)
    os.waitpid(first.pid, os.WUNTRACED)
    shutil.rmtree(node.path / "state")
    second = node.launch()
    second.logged("registered with")
    assert second.call("StartContainer", start("c2")).code == Code.OK
    first.signal(signal.SIGCONT)
    assert first.call("StartContainer", start("c2")).code == Code.OK
    first.logged("another adapter serves the events now")
    first.accept(listener)
    first.handshake()
    for daemon in (first, second):
        assert daemon.call("StartContainer", start("c3")).code == Code.OK
    kill(second)
    assert first.call("StopContainer", stop("c3")).code == Code.OK
    assert node.runs("good") == [("create", "c1"), ("create", "c2"), ("create", "c3"), ("delete", "c3")]
