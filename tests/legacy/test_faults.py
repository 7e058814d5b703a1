"""Faults within the adapter, at each point of a program's run: its event is answered, and nobody waits for ever."""

from __future__ import annotations

import pytest

from adapter.legacy.job import PluginJob
from adapter.legacy.ledger import Ledger
from adapter.nri.stub import RESERVE

from .node import Node

LIMIT = 2.0 - RESERVE


def fail(*_: object) -> None:
    raise RuntimeError("a fault")


@pytest.mark.parametrize(
    ("owner", "name"), [(PluginJob, "_spawn"), (PluginJob, "_request"), (PluginJob, "_result"), (Ledger, "add")]
)
def test_a_fault_fails_the_plugin_and_the_next_event_of_the_id_does_not_wait(
    node: Node, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    node.plugins(a="answer")
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fail)
        answer = node.create("c1")
        node.wait(answer)
    assert answer.outcome.startswith("plugin: a: ")
    assert not node.busy
    again = node.create("c1")
    node.wait(again)
    assert again.outcome == "ok"


def test_a_create_whose_request_could_not_be_made_is_owed_no_delete(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.plugins(a="answer")
    monkeypatch.setattr(PluginJob, "_request", fail)
    node.wait(node.create("c1"))
    assert node.delete("c1").outcome == "nothing to do"


def test_a_fault_in_the_look_at_what_a_late_plugin_has_printed_holds_up_no_answer(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.plugins(a="hold; answer")
    monkeypatch.setattr(PluginJob, "_has_result", fail)
    answer = node.create("c1")
    node.hear("a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome.startswith("plugin: a: no result within")
    assert not node.busy
