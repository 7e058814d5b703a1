"""What ran before us counts as created: it gets its deletes, and nothing else does."""

from __future__ import annotations

import pytest

from adapter.legacy.uncounted import SLICE
from adapter.nri import api

from .node import Node, a_container, a_pod

RUNNING, PAUSED = api.CONTAINER_RUNNING, api.CONTAINER_PAUSED


@pytest.fixture
def node_with_plugins(node: Node) -> Node:
    node.plugins(a="answer", b="answer")
    return node


def runs_of_delete(node: Node, id_: str) -> list[str]:
    before = len(node.runs)
    answer = node.delete(id_)
    if answer.outcome != "nothing to do":
        node.wait(answer)
        assert answer.outcome == "ok"
    return node.runs[before:]


def test_a_running_container_gets_its_deletes_with_what_is_known_of_it(node_with_plugins: Node) -> None:
    node = node_with_plugins
    node.bridge.synchronize([a_pod()], [a_container("c1", pod_sandbox_id="pod", state=RUNNING)])
    assert node.runs == [], "a create is not made up for"
    assert runs_of_delete(node, "c1") == ["a delete c1", "b delete c1"]
    [request] = node.requests("a")
    assert request["pid"] == 22
    assert request["sandboxID"] == "pod"
    assert request["labels"] == {"of": "pod"}
    assert request["spec"]["cgroupsPath"] == "/c1"
    assert runs_of_delete(node, "c1") == []


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        (RUNNING, True),
        (PAUSED, True),
        (api.CONTAINER_CREATED, False),
        (api.CONTAINER_STOPPED, False),
        (api.CONTAINER_UNKNOWN, False),
    ],
)
def test_only_running_and_paused_containers_count(
    node_with_plugins: Node, state: api.ContainerState.ValueType, counts: bool
) -> None:
    """A CREATED one has its create still to come."""
    node = node_with_plugins
    node.bridge.synchronize([a_pod(pid=0)], [a_container("c1", pod_sandbox_id="pod", state=state)])
    assert bool(runs_of_delete(node, "c1")) is counts
    assert bool(runs_of_delete(node, "pod")) is counts, "a pod without a process lives by its containers"


def test_a_pod_with_a_process_counts_and_one_without_is_not_ready(node_with_plugins: Node) -> None:
    node = node_with_plugins
    node.bridge.synchronize([a_pod("ready"), a_pod("not-ready", pid=0)], [])
    assert runs_of_delete(node, "ready") == ["a delete ready", "b delete ready"]
    assert runs_of_delete(node, "not-ready") == []


def test_a_container_whose_pod_is_not_told_counts(node_with_plugins: Node) -> None:
    node = node_with_plugins
    node.bridge.synchronize([], [a_container("c1", pod_sandbox_id="elsewhere", state=RUNNING)])
    assert runs_of_delete(node, "c1") == ["a delete c1", "b delete c1"]
    assert node.requests("a")[0]["sandboxID"] in ("elsewhere", "pod")


def test_a_created_container_gets_its_create_later(node_with_plugins: Node) -> None:
    node = node_with_plugins
    node.bridge.synchronize([a_pod()], [a_container("c1", pod_sandbox_id="pod", state=api.CONTAINER_CREATED)])
    answer = node.create("c1")
    node.wait(answer)
    assert node.runs == ["a create c1", "b create c1"]
    assert runs_of_delete(node, "c1") == ["a delete c1", "b delete c1"]


def test_sandboxes_that_are_not_ours_do_not_count(node: Node) -> None:
    node.build(sandboxes="never")
    node.plugins(a="answer")
    node.bridge.synchronize([a_pod()], [a_container("c1", pod_sandbox_id="pod", state=RUNNING)])
    assert runs_of_delete(node, "pod") == []
    assert runs_of_delete(node, "c1") == ["a delete c1"]


def test_the_plugins_of_the_moment_are_owed_the_deletes(node_with_plugins: Node) -> None:
    """Those that come into conf.json later never had a create."""
    node = node_with_plugins
    node.bridge.synchronize([], [a_container("c1", pod_sandbox_id="pod", state=RUNNING)])
    node.plugin("c")
    node.configure("c", "a")
    assert runs_of_delete(node, "c1") == ["b delete c1", "a delete c1"], "first the one that is configured no more"


def test_without_plugins_nobody_is_owed_anything(node: Node) -> None:
    node.bridge.synchronize([a_pod()], [a_container("c1", pod_sandbox_id="pod", state=RUNNING)])
    node.plugins(a="answer")
    assert runs_of_delete(node, "c1") == []
    assert len(node.bridge.ledger) == 0


def test_a_broken_conf_json_is_logged_and_nobody_is_owed_anything(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.conf_json.write_text("{")
    node.bridge.synchronize([a_pod()], [a_container("c1", pod_sandbox_id="pod", state=RUNNING)])
    assert len(node.bridge.ledger) == 0
    assert caplog.messages == [f"{node.conf_json}:1: unexpected end; no plugin can run"]


def test_to_be_told_again_changes_nothing(node_with_plugins: Node) -> None:
    """After a reconnection everything is told again."""
    node = node_with_plugins
    answer = node.create("c1", pid=33)
    node.wait(answer)
    for _ in range(2):
        node.bridge.synchronize([], [a_container("c1", pod_sandbox_id="pod", state=RUNNING, pid=44)])
    assert runs_of_delete(node, "c1") == ["a delete c1", "b delete c1"]
    assert node.requests("a")[-1]["pid"] == 33
    assert runs_of_delete(node, "c1") == []


def test_thousands_are_counted_in_slices_and_what_an_event_names_at_once(node_with_plugins: Node) -> None:
    node = node_with_plugins
    many = [a_container(f"c{number}", pod_sandbox_id=f"p{number}", state=RUNNING) for number in range(1000)]
    node.bridge.synchronize([], many)
    assert len(node.bridge.ledger) == SLICE
    assert runs_of_delete(node, "c999") == ["a delete c999", "b delete c999"]
    node.loop.until(lambda: len(node.bridge.ledger) == 999, "the others count, too")


def test_a_handover_leaves_nothing_uncounted(node_with_plugins: Node) -> None:
    node = node_with_plugins
    many = [a_container(f"c{number}", pod_sandbox_id=f"p{number}", state=RUNNING) for number in range(1000)]
    node.bridge.synchronize([], many)
    node.bridge.release()
    assert len(node.bridge.ledger) == 1000
