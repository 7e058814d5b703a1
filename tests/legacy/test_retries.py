"""Deletes whose programs cannot be started: tried again for as long as it takes, at a bounded rate, and told rarely."""

from __future__ import annotations

import logging

import pytest

from adapter.legacy.job import PluginJob
from adapter.legacy.plan import Plans
from adapter.owed.ledger import Ledger
from adapter.owed.pods import PodProcesses
from adapter.owed.retries import FIRST_RETRY, LAST_RETRY

from .node import Node

HOUR = 3600.0


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


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("a", "b", "c")])
def test_programs_that_are_away_for_hours_are_tried_at_most_every_ten_minutes_and_run_once_they_are_back(
    node: Node, names: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    node.plugins(**dict.fromkeys(names, "answer"))
    node.wait(node.create_pod(), node.create("c1"))
    uninstall(node, *names)
    node.wait(node.delete("c1"))
    pass_time(node, 2 * HOUR)
    before = failures(node)
    caplog.clear()
    pass_time(node, 2 * HOUR)
    assert failures(node) - before == len(names) * 2 * HOUR / LAST_RETRY
    for name in names:
        told = [record for record in caplog.records if f"plugin: {name}: not found" in record.getMessage()]
        assert len(told) == 2, "one line an hour"
    node.plugins(**dict.fromkeys(names, "answer"))
    node.loop.advance(LAST_RETRY)
    node.idle()
    assert node.runs[2 * len(names) :] == [f"{name} delete c1" for name in names]
    node.wait(node.delete_pod())


def test_many_containers_whose_plugin_is_away_are_one_line_an_hour(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
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


def test_a_container_that_lives_again_is_not_deleted_by_the_retry(node: Node) -> None:
    node.plugins(a="answer")
    node.wait(node.create("c1"))
    uninstall(node, "a")
    node.wait(node.delete("c1"))
    node.plugins(a="answer")
    node.wait(node.create("c1"))
    node.loop.advance(2 * LAST_RETRY)
    node.idle()
    assert node.runs == ["a create c1", "a create c1"]
    node.wait(node.delete("c1"))
    assert node.runs[2:] == ["a delete c1"]


def test_a_container_whose_next_create_waits_for_the_delete_is_not_deleted_by_the_retry(node: Node) -> None:
    node.plugins(a='[ "$state" = create ] || [ -e "$0.held" ] || { : >"$0.held"; hold; }; answer', b="answer")
    node.wait(node.create("c1"))
    uninstall(node, "b")
    stopped = node.delete("c1")
    node.hear("a delete c1 holds")
    node.configure("a")
    again = node.create("c1")
    node.release("a")
    node.wait(stopped, again)
    node.plugin("b")
    node.loop.advance(2 * LAST_RETRY)
    node.idle()
    assert node.runs[2:] == ["a delete c1", "a create c1"]
    node.wait(node.delete("c1"))
    assert sorted(node.runs[4:]) == ["a delete c1", "b delete c1"]


def test_the_next_event_of_the_container_is_the_retry(node: Node) -> None:
    node.plugins(a="answer")
    node.wait(node.create("c1"))
    uninstall(node, "a")
    node.wait(node.delete("c1"))
    node.plugins(a="answer")
    node.wait(node.delete("c1", event="RemoveContainer"))
    node.loop.advance(2 * LAST_RETRY)
    node.idle()
    assert node.runs == ["a create c1", "a delete c1"]


# No fault within the adapter leaves a job in the queue


def fail(*_: object) -> None:
    raise RuntimeError("a fault")


PLACES: list[tuple[type, str]] = [
    (PluginJob, "_on_not_started"),
    (PluginJob, "_on_done"),
    (Ledger, "take"),
    (Ledger, "put_back"),
    (Ledger, "deleted"),
    (Ledger, "forget"),
    (PodProcesses, "forget"),
    (Plans, "of_delete"),
]


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize(("owner", "name"), PLACES, ids=[f"{owner.__name__}.{name}" for owner, name in PLACES])
def test_a_fault_at_a_delete_leaves_no_job_and_holds_nobody_up(
    node: Node, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, away: bool
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
    node.plugins(a="answer", b="answer")
    again = node.create("c1"), node.delete_pod()
    node.wait(*again)
    assert not node.busy
