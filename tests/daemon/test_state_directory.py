"""A state directory that is removed, or cannot be written, while adapters use it."""

from __future__ import annotations

import os
import shutil
import signal
import socket

import pytest

from adapter.monitoring.status import ask

from .harness import Node, start, stop


@pytest.fixture(autouse=True)
def shared(node: Node) -> None:
    node.configure("good")
    node.shared_state = "state"


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
