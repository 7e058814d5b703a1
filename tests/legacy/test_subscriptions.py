"""Which plugins have their turn at which event, and which are owed a delete."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.nri import api
from adapter.settings import PluginSettings

from .creations import configured, container, created, creating
from .node import Node, a_container, a_pod


def test_a_plugin_without_a_list_of_events_has_no_turn_at_others(node: Node) -> None:
    node.plugins(a="answer")
    answer = creating(node)
    assert answer.outcome == "nothing to do"
    assert answer.reply is None


def test_a_list_of_events_replaces_the_usual_four(node: Node) -> None:
    configured(node, "CreateContainer", plugins="a").plugins(a="answer", b="answer")
    created(node)
    node.wait(node.create_pod(), node.create("c1"))
    node.wait(node.delete("c1"), node.delete_pod())
    assert node.runs == ["a create c1", "b create pod", "b create c1", "b delete c1", "b delete pod"]


EVENTS = [
    ("PostCreateContainer", api.PostCreateContainerRequest(pod=a_pod(), container=container()), "create c1"),
    ("PostStartContainer", api.PostStartContainerRequest(pod=a_pod(), container=container()), "create c1"),
    ("UpdateContainer", api.UpdateContainerRequest(pod=a_pod(), container=container()), "update c1"),
    ("PostUpdateContainer", api.PostUpdateContainerRequest(pod=a_pod(), container=container()), "update c1"),
    ("UpdatePodSandbox", api.UpdatePodSandboxRequest(pod=a_pod()), "update pod"),
    ("PostUpdatePodSandbox", api.PostUpdatePodSandboxRequest(pod=a_pod()), "update pod"),
    ("RemoveContainer", api.RemoveContainerRequest(pod=a_pod(), container=container()), "delete c1"),
    ("RemovePodSandbox", api.RemovePodSandboxRequest(pod=a_pod()), "delete pod"),
]


@pytest.mark.parametrize(("event", "request_", "run"), EVENTS, ids=[event for event, *_ in EVENTS])
def test_every_event_can_be_listed(node: Node, event: str, request_: Any, run: str) -> None:
    configured(node, event).plugins(a="answer")
    answer = node.handle(event, request_)
    node.wait(answer)
    assert answer.outcome == "ok"
    assert node.runs == [f"a {run}"]
    [request] = node.requests("a")
    assert request["event"] == event
    assert request["pod"]["id"] == "pod"
    assert ("container" in request) == run.endswith("c1")


# Exactly one delete for a create, whatever the list


def test_a_create_at_creation_is_owed_its_stop(node: Node) -> None:
    configured(node, "CreateContainer", "StopContainer").plugins(a="answer")
    created(node)
    node.wait(node.delete("c1"))
    node.delete("c1")
    node.delete("c1", event="RemoveContainer")
    node.delete("c2")
    node.idle()
    assert node.runs == ["a create c1", "a delete c1"]


def test_two_creates_of_one_container_are_owed_one_stop_with_the_pid_of_the_later(node: Node) -> None:
    configured(node, "CreateContainer", "StartContainer", "StopContainer").plugins(a="answer")
    created(node)
    node.wait(node.create("c1", pid=33))
    node.wait(node.delete("c1"))
    assert node.runs == ["a create c1", "a create c1", "a delete c1"]
    assert node.requests("a")[-1]["pid"] == 33


def test_a_plugin_that_has_no_turn_at_creates_gets_every_stop(node: Node) -> None:
    configured(node, "StopContainer").plugins(a="answer")
    node.wait(node.delete("c1"))
    assert node.runs == ["a delete c1"]
    assert "event" not in node.requests("a")[0]


def test_a_missed_stop_is_made_up_for_by_a_removal_that_is_listed_itself(node: Node) -> None:
    configured(node, "StartContainer", "StopContainer", "RemoveContainer", plugins="a").plugins(a="answer", b="answer")
    node.wait(node.create("c1"))
    node.wait(node.delete("c1", event="RemoveContainer"))
    assert node.runs == ["a create c1", "b create c1", "a delete c1", "b delete c1"]
    for name in "ab":
        assert "event" not in node.requests(name)[-1], "it is the delete that the create is owed"


def test_pods_have_their_creates_and_stops_likewise(node: Node) -> None:
    settings = {
        name: PluginSettings(events=frozenset([event]))
        for name, event in (("a", "RunPodSandbox"), ("b", "StopPodSandbox"))
    }
    node.build(plugins=settings)
    node.plugins(a="answer", b="answer")
    node.wait(node.create_pod(), node.delete_pod())
    assert node.runs == ["a create pod", "b delete pod"]


def test_what_containerd_runs_for_pods_itself_is_left_to_it_whatever_is_listed(node: Node) -> None:
    node.build(
        plugins={"a": PluginSettings(events=frozenset(["StopPodSandbox", "RemovePodSandbox"]))}, sandboxes="never"
    )
    node.plugins(a="answer")
    assert node.delete_pod().outcome == "nothing to do"
    node.wait(node.handle("RemovePodSandbox", api.RemovePodSandboxRequest(pod=a_pod())))
    assert node.runs == ["a delete pod"]


def test_what_runs_at_the_start_is_owed_a_stop_by_those_that_have_a_turn_then(node: Node) -> None:
    lists = {"a": ["CreateContainer", "StopContainer"], "b": ["CreateContainer"]}
    node.build(plugins={name: PluginSettings(events=frozenset(events)) for name, events in lists.items()})
    node.plugins(a="answer", b="answer", c="answer")
    node.bridge.synchronize([], [a_container("c1", state=api.CONTAINER_RUNNING, pod_sandbox_id="pod")])
    node.wait(node.delete("c1"))
    assert node.runs == ["a delete c1", "c delete c1"]


def test_before_there_is_a_container_its_process_is_not_looked_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapter.legacy.cgroup.find_pid", lambda path: 77)
    configured(node, "CreateContainer", "StartContainer").plugins(a="answer")
    created(node)
    node.wait(node.create("c1", pid=0))
    assert [request.get("pid") for request in node.requests("a")] == [None, 77]
