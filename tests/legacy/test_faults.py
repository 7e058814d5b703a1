"""Faults within the adapter, at each point of a program's run: its event is answered, and nobody waits for ever."""

from __future__ import annotations

import pytest

from .node import Node
from .scenarios import Player


def fail(*_: object) -> None:
    raise RuntimeError("a fault")


POINTS = ("programs.find.Programs.spawn", "legacy.request.encode", "legacy.result.parse", "owed.ledger.Ledger.add")


@pytest.mark.parametrize("point", POINTS)
def test_a_fault_fails_the_plugin_and_the_next_event_of_the_id_does_not_wait(
    node: Node, player: Player, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(f"adapter.{point}", fail)
        player.play("plugins a=answer; create c1 -> plugin: a: ...")
    assert not node.busy
    player.play("create c1 -> ok")


def test_a_create_whose_request_could_not_be_made_is_owed_no_delete(
    player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapter.legacy.request.encode", fail)
    player.play("plugins a=answer; create c1 -> plugin: a: ...; stop c1 -> -")


def test_a_fault_in_the_look_at_what_a_late_plugin_has_printed_holds_up_no_answer(
    node: Node, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapter.legacy.result.is_complete", fail)
    player.play("plugins a=hold; create c1; a holds; late; it is plugin: a: no result within...")
    assert not node.busy
