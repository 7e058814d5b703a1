"""Which plugins have their turn at which event, and which are owed a delete: by their lists, or as what ran before."""

from __future__ import annotations

import pytest

from nri import api

from ..rig.node import Node, a_container, a_pod, configured, container, created
from ..rig.processes import NO_PROCESS
from .scenarios import Player

BOTH = {"a": "answer", "b": "answer"}


LISTS = {
    "a list of events replaces the usual four": (
        "with a.events=CreateContainer; plugins a=answer b=answer; prepare c1 -> ok; create pod -> ok;"
        "create c1 -> ok; stop c1 -> ok; stop pod -> ok;"
        "ran a create c1, b create pod, b create c1, b delete c1, b delete pod"
    ),
    "a create at creation is owed its stop, and only one": (
        "with a.events=CreateContainer,StopContainer; plugins a=answer; prepare c1 -> ok; stop c1 -> ok; stop c1;"
        "remove c1; stop c2; idle; ran a create c1, a delete c1"
    ),
    "the create of a pod may be listed without its delete, and the other way round": (
        "with a.events=RunPodSandbox b.events=StopPodSandbox; plugins a=answer b=answer; create pod -> ok;"
        "stop pod -> ok; ran a create pod, b delete pod"
    ),
    "what containerd runs for pods itself is left to it, whatever is listed": (
        "with sandboxes=never a.events=StopPodSandbox,RemovePodSandbox; plugins a=answer; stop pod -> -;"
        "remove pod -> ok; ran a delete pod"
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_what_a_scenario_says_happens(name: str, player: Player) -> None:
    player.play(LISTS[name])


EVENTS = {
    **dict.fromkeys(("PostCreateContainer", "PostStartContainer"), "create c1"),
    **dict.fromkeys(("UpdateContainer", "PostUpdateContainer"), "update c1"),
    **dict.fromkeys(("UpdatePodSandbox", "PostUpdatePodSandbox"), "update pod"),
    **{"RemoveContainer": "delete c1", "RemovePodSandbox": "delete pod"},
}


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_can_be_listed(node: Node, event: str) -> None:
    about = {"container": container()} if event.endswith("Container") else {}
    configured(node, event).plugins(a="answer")
    answer = node.handle(event, getattr(api, f"{event}Request")(pod=a_pod(), **about))
    node.wait(answer)
    assert (answer.outcome, node.runs) == ("ok", [f"a {EVENTS[event]}"])
    [request] = node.requests("a")
    assert (request["event"], request["pod"]["id"], "container" in request) == (event, "pod", bool(about))


def test_before_there_is_a_container_its_process_is_not_looked_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.cgroup.find_pid", lambda path: 77)
    configured(node, "CreateContainer", "StartContainer").plugins(a="answer")
    created(node)
    node.wait(node.create("c1", pid=0))
    assert [request.get("pid") for request in node.requests("a")] == [None, 77]


# What ran before us counts as created: it gets its deletes, and nothing else does

RUNNING = api.CONTAINER_RUNNING
C1 = a_container("c1", pod_sandbox_id="pod", state=RUNNING)
C1_DELETES = "stop c1 -> ok; ran a delete c1, b delete c1; stop c1 -> -"


@pytest.fixture
def two(node: Node) -> Node:
    """A node with two plugins."""
    node.plugins(**BOTH)
    return node


def test_a_running_container_gets_its_deletes_with_what_is_known_of_it(two: Node, player: Player) -> None:
    two.serving.synchronize([a_pod()], [C1])
    player.play(f"ran; {C1_DELETES}")  # a create is not made up for
    [request] = two.requests("a")
    assert (request["pid"], request["sandboxID"], request["labels"]) == (NO_PROCESS, "pod", {"of": "pod"})
    assert request["spec"]["cgroupsPath"] == "/c1"


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED", "CREATED", "STOPPED", "UNKNOWN"])
def test_only_running_and_paused_containers_count(two: Node, player: Player, state: str) -> None:
    """A CREATED one has its create still to come, and a pod without a process lives by its containers."""
    listed = a_container("c1", pod_sandbox_id="pod", state=f"CONTAINER_{state}")
    two.serving.synchronize([a_pod(pid=0)], [listed])
    outcome = "ok" if state in ("RUNNING", "PAUSED") else "-"
    player.play(f"stop c1 -> {outcome}; stop pod -> {outcome}")
    if outcome == "-":
        player.play(f"create c1 -> ok; ran a create c1, b create c1; {C1_DELETES}")


def test_a_container_whose_pod_is_not_told_counts(two: Node, player: Player) -> None:
    two.serving.synchronize([], [a_container("c1", pod_sandbox_id="elsewhere", state=RUNNING)])
    player.play(C1_DELETES)
    assert two.requests("a")[0]["sandboxID"] in ("elsewhere", "pod")


@pytest.mark.parametrize("is_broken", [False, True])
def test_without_plugins_or_with_a_broken_conf_json_nobody_is_owed_anything(
    node: Node, player: Player, is_broken: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if is_broken:
        node.conf_json.write_text("{")
    node.serving.synchronize([a_pod()], [C1])
    assert len(node.serving.ledger.ids()) == 0
    if is_broken:
        assert caplog.messages == [f"{node.conf_json}:1:2: unexpected end; no plugin can run"]
    else:
        player.play("plugins a=answer; stop c1 -> -")


def test_those_that_have_no_turn_at_creates_are_owed_none(node: Node, player: Player) -> None:
    lists = "with a.events=CreateContainer,StopContainer b.events=CreateContainer"
    player.play(f"{lists}; plugins a=answer b=answer c=answer")
    node.serving.synchronize([], [C1])
    player.play("stop c1 -> ok; ran a delete c1, c delete c1")
