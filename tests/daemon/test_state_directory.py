"""A state directory that is removed, or cannot be written, while adapters use it."""

from __future__ import annotations

import shutil
import socket

import pytest

from adapter.monitoring.status import ask

from ..processes import impatience
from .harness import Node, start, stop


@pytest.fixture(autouse=True)
def shared(node: Node) -> None:
    node.configure("good")
    node.shared_state = "state"


def test_a_record_that_cannot_be_written_is_a_fault_until_it_can_be(node: Node) -> None:
    state = node.path / "state"
    daemon = node.launch()
    daemon.logged("registered with")
    [own] = state.glob("test.*")
    (own / "+pod-1+c1").mkdir()
    daemon.serves(start("c1"))
    [told] = ask(str(state))
    assert told["faults"] == [told["state_fault"]]
    assert told["state_fault"].startswith(f"{own}/+pod-1+c1: Is a directory: what is owed is forgotten")
    (own / "+pod-1+c1").rmdir()
    daemon.logged("the records have all that is owed again")
    [told] = ask(str(state))
    assert (told["faults"], told["state_fault"]) == ([], "")
    assert (own / "+pod-1+c1").read_bytes().count(b'"created"') == 1


def test_adapters_find_each_other_again_and_owe_what_they_owed_in_a_directory_that_was_removed(
    node: Node, listener: socket.socket
) -> None:
    first = node.external(listener=listener, fresh=True).handshake()
    first.serves(start("c1"))
    shutil.rmtree(node.path / "state")
    second = node.launch()
    second.logged("registered with")
    for daemon in (first, second):
        daemon.serves(start("c2"))
    first.logged("was removed or replaced: it is in use again")
    for daemon in (second, first):
        daemon.serves(start("c3"), stop("c1"))
    second.kill()
    first.serves(stop("c2"), stop("c3"))
    assert sorted(node.runs()) == sorted((state, id_) for id_ in ("c1", "c2", "c3") for state in ("create", "delete"))


def test_a_directory_that_is_removed_while_an_adapter_is_alone_is_made_again_with_what_is_owed(node: Node) -> None:
    first = node.launch()
    first.serves(start("c1"))
    shutil.rmtree(node.path / "state")
    first.serves(start("c2"))
    first.logged("was removed or replaced: it is in use again")
    with impatience("the records are not written again"):
        while len(list(node.path.glob("state/test.*/+*"))) < 2:
            first.serves(start("c2"))
    first.kill()
    node.launch().serves(stop("c1"), stop("c2"))
    assert {run for run in node.runs() if run[0] == "delete"} == {("delete", "c1"), ("delete", "c2")}
