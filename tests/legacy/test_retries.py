"""Deletes whose program cannot be started, and faults of the adapter itself while it runs a delete or a create."""

from __future__ import annotations

import logging

import pytest

from v010_adapter.events.deletes import PodProcesses
from v010_adapter.events.work import PluginWork
from v010_adapter.legacy.plan import Plans
from v010_adapter.state.ledger import Ledger

from ..rig.node import Node
from .scenarios import Player

HOUR = 3600.0
FIRST_RETRY, LAST_RETRY = 10.0, 600.0

# Programs that cannot be started: tried again for as long as it takes, at a bounded rate, and told rarely


def uninstall(node: Node, *names: str) -> None:
    for name in names:
        (node.folder / name).unlink()


def pass_time(node: Node, seconds: float) -> None:
    """In steps that are shorter than the first wait."""
    end = node.loop.now + seconds
    while node.loop.now < end:
        node.loop.advance(FIRST_RETRY / 2)


def failures(node: Node) -> int:
    return node.counters.get("failures", 0)


def test_absent_programs_are_tried_every_ten_minutes_until_there(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.plugins(a="answer", b="answer")
    node.wait(node.create_pod(), node.create("c1"))
    uninstall(node, "a", "b")
    node.wait(node.delete("c1"))
    pass_time(node, 2 * HOUR)
    before = failures(node)
    caplog.clear()
    pass_time(node, 2 * HOUR)
    assert failures(node) - before == 2 * 2 * HOUR / LAST_RETRY
    for name in "ab":
        told = [record for record in caplog.records if f"plugin: {name}: not found" in record.getMessage()]
        assert len(told) == 2, "one line an hour"
    node.plugins(a="answer", b="answer")
    node.loop.advance(LAST_RETRY)
    node.idle()
    assert node.runs[4:] == ["a delete c1", "b delete c1"]
    node.wait(node.create("c1"))
    uninstall(node, "a", "b")
    node.wait(node.delete("c1"))
    node.plugins(a="answer", b="answer")
    node.loop.advance(FIRST_RETRY)  # the waits begin anew
    node.idle()
    assert node.runs[8:] == ["a delete c1", "b delete c1"]
    node.wait(node.delete_pod())


def test_a_delete_that_was_to_be_tried_again_comes_at_the_end_of_an_id_that_lives_again(node: Node) -> None:
    node.plugins(a="answer")
    node.wait(node.create_pod(), node.create("c1"))
    uninstall(node, "a")
    node.wait(node.delete("c1"))
    node.plugins(a="answer")
    node.wait(node.create("c1"))
    pass_time(node, HOUR)
    node.idle()
    assert node.runs == ["a create pod", "a create c1", "a create c1"]
    node.wait(node.delete("c1"), node.delete_pod())
    assert node.runs[3:] == ["a delete c1", "a delete pod"]


def test_containers_whose_plugin_is_away_are_one_line_an_hour(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.plugins(a="answer")
    ids = [f"c{number}" for number in range(20)]
    node.wait(*map(node.create, ids))
    uninstall(node, "a")
    node.wait(*map(node.delete, ids))
    caplog.clear()
    pass_time(node, HOUR)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert failures(node) > 20 * 5
    node.plugins(a="answer")
    node.loop.advance(LAST_RETRY)
    node.idle()
    assert sorted(node.runs[20:]) == sorted(f"a delete {id_}" for id_ in ids)


# Faults within the adapter: each event is answered, no job is left in the queue, and nobody waits for ever


def fail(*_: object) -> None:
    raise RuntimeError("a fault")


PLACES: list[tuple[type, str]] = [
    (PluginWork, "_on_not_started"),
    (PluginWork, "_on_done"),
    (Ledger, "begin_deletes"),
    (Ledger, "put_back"),
    (Ledger, "end_delete"),
    (Ledger, "forget"),
    (PodProcesses, "forget"),
    (Plans, "of_delete"),
]


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize(("owner", "name"), PLACES, ids=[f"{owner.__name__}.{name}" for owner, name in PLACES])
def test_a_fault_at_a_delete_leaves_no_job_and_holds_nobody_up(
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: type,
    name: str,
    away: bool,
) -> None:
    node.plugins(a="answer", b="answer")
    node.wait(node.create_pod(), node.create("c1"))
    if away:
        uninstall(node, "a")
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fail)
        stopped, pod = node.delete("c1"), node.delete_pod()
        node.wait(stopped, pod)
        node.idle()
    if away and name in ("_on_not_started", "put_back"):
        assert "delete of container c1: plugin: a: not found in" in caplog.text
    node.plugins(a="answer", b="answer")
    again = node.create("c1"), node.delete_pod()
    node.wait(*again)
    assert not node.busy


POINTS = ("legacy.find.Programs.program", "legacy.request.encode", "legacy.result.parse", "state.ledger.Ledger.add")


@pytest.mark.parametrize("point", POINTS)
def test_a_fault_at_a_create_fails_the_plugin_and_the_next_event_of_the_id_does_not_wait(
    node: Node, player: Player, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(f"v010_adapter.{point}", fail)
        player.play("plugins a=answer; create c1 -> plugin: a: ...")
        if point == "legacy.request.encode":
            assert "a bug: there is no request for a" in player.caplog.text
            player.play("stop c1 -> -")  # no plugin has got the create
    assert not node.busy
    player.play("create c1 -> ok")


def test_a_fault_at_a_late_plugin_delays_no_answer(node: Node, player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("v010_adapter.legacy.result.is_complete", fail)
    player.play("plugins a=hold; create c1; a holds; late; it is plugin: a: no result within...; let a; idle")
