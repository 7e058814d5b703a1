"""Deletes in histories that are rare: which are owed, with which configuration, in which order, with which pid."""

from __future__ import annotations

from adapter.nri import api
from adapter.nri.stub import RESERVE
from adapter.settings import PluginSettings

from .creations import configured
from .node import Answer, Node, a_container, a_pod

LIMIT = 2.0 - RESERVE


def listed(node: Node, **events: list[str]) -> None:
    """Configures lists of events, by plugin."""
    node.build(plugins={name: PluginSettings(events=frozenset(of)) for name, of in events.items()})


def post_start(node: Node, id_: str = "c1") -> Answer:
    request = api.PostStartContainerRequest(pod=a_pod(), container=a_container(id_))
    return node.handle("PostStartContainer", request)


def test_a_create_queued_behind_a_late_delete_gets_its_delete(node: Node) -> None:
    listed(node, a=["StartContainer", "PostStartContainer", "StopContainer"])
    node.plugins(a='[ "$state" = create ] || [ -e "$0.held" ] || { : >"$0.held"; hold; }; answer')
    node.wait(node.create("c1"))
    stopped = node.delete("c1")
    node.hear("a delete c1 holds")
    node.loop.advance(LIMIT)
    assert stopped.outcome == "ok"
    queued = post_start(node)
    removed = node.delete("c1", event="RemoveContainer")
    assert removed.pending, "it waits for the create that is queued"
    node.release("a")
    node.wait(queued, removed)
    assert node.runs == ["a create c1", "a delete c1", "a create c1", "a delete c1"]
    assert len(node.bridge.ledger) == 0


def test_what_a_runtime_says_is_running_gets_its_delete_though_an_earlier_delete_is_under_way(node: Node) -> None:
    node.plugins(a='[ "$state" = create ] || [ -e "$0.held" ] || { : >"$0.held"; hold; }; answer')
    node.wait(node.create("c1"))
    stopped = node.delete("c1")
    node.hear("a delete c1 holds")
    node.loop.advance(LIMIT)
    assert stopped.outcome == "ok"
    node.bridge.runtime_is_gone()
    node.bridge.synchronize([a_pod()], [a_container("c1", pod_sandbox_id="pod", state=api.CONTAINER_RUNNING)])
    again = node.delete("c1")
    assert again.pending, "it waits for the delete that is under way"
    node.release("a")
    node.wait(again)
    assert node.runs == ["a create c1", "a delete c1", "a delete c1"]
    assert node.bridge.ledger.take("c1") == ()


def test_a_delete_queued_behind_an_update_is_not_taken_twice(node: Node) -> None:
    listed(node, a=["StartContainer", "UpdateContainer", "StopContainer"])
    node.plugins(a='[ "$state" != delete ] || hold; answer')
    node.wait(node.create("c1"))
    stopped = node.delete("c1")
    node.hear("a delete c1 holds")
    updated = node.handle("UpdateContainer", api.UpdateContainerRequest(pod=a_pod(), container=a_container("c1")))
    assert node.delete("c1", event="RemoveContainer").outcome == "nothing to do"
    node.release("a")
    node.wait(stopped, updated)
    assert node.runs == ["a create c1", "a delete c1", "a update c1"]


def test_the_one_delete_has_the_configuration_of_its_create_whichever_event_brings_it(node: Node) -> None:
    listed(node, a=["StartContainer", "StopContainer", "RemoveContainer"])
    node.plugin("a")
    node.configure(("a", "of the create"))
    node.wait(node.create("c1"))
    node.configure(("a", "of now"))
    node.wait(node.delete("c1", event="RemoveContainer"))
    request = node.requests("a")[-1]
    assert (request["state"], request["conf"]) == ("delete", "of the create")
    assert "event" not in request, "it is the delete that the original would have sent"
    assert node.runs == ["a create c1", "a delete c1"]


def test_a_listed_removal_runs_with_the_configuration_of_now_when_no_delete_is_owed(node: Node) -> None:
    listed(node, a=["StartContainer", "StopContainer", "RemoveContainer"])
    node.plugin("a")
    node.configure(("a", "of the create"))
    node.wait(node.create("c1"), node.delete("c1"))
    node.configure(("a", "of now"))
    node.wait(node.delete("c1", event="RemoveContainer"))
    request = node.requests("a")[-1]
    assert (request["event"], request["conf"]) == ("RemoveContainer", "of now")
    assert node.runs == ["a create c1", "a delete c1", "a delete c1"]


def test_deletes_run_in_the_order_of_conf_json_whoever_is_owed_one(node: Node) -> None:
    listed(node, a=["StopContainer"])
    node.plugins(a="answer", b="answer")
    node.wait(node.create("c1"), node.delete("c1"))
    assert node.runs == ["b create c1", "a delete c1", "b delete c1"]


def test_deletes_of_plugins_that_conf_json_names_no_more_come_first(node: Node) -> None:
    node.plugins(x="answer", a="answer", b="answer", y="answer")
    node.wait(node.create("c1"))
    node.configure("b", "a")
    node.wait(node.delete("c1"))
    assert node.runs[4:] == [f"{name} delete c1" for name in "xyba"]


def test_a_removal_has_the_pid_that_the_create_had_though_no_delete_is_owed(node: Node) -> None:
    configured(node, "StartContainer", "RemoveContainer").plugins(a="answer")
    node.wait(node.create("c1", pid=33))
    node.wait(node.delete("c1", event="RemoveContainer"))
    assert [request.get("pid") for request in node.requests("a")] == [33, 33]


def test_a_removal_behind_the_stop_has_the_pid_too(node: Node) -> None:
    configured(node, "StartContainer", "StopContainer", "RemoveContainer").plugins(a="answer")
    node.wait(node.create("c1", pid=33))
    node.wait(node.delete("c1"), node.delete("c1", event="RemoveContainer"))
    assert [request.get("pid") for request in node.requests("a")] == [33, 33, 33]


def test_what_a_create_knew_is_forgotten_with_the_delete_if_no_plugin_runs_at_removals(node: Node) -> None:
    node.plugins(a="answer")
    node.wait(node.create("c1"), node.delete("c1"))
    assert node.bridge.ledger.target("c1") is None


def test_what_a_create_knew_is_forgotten_with_the_removal(node: Node) -> None:
    listed(node, b=["RemoveContainer"])
    node.plugins(a="answer")
    node.wait(node.create_pod(), node.create("c1"))
    assert node.bridge.ledger.target("c1") is not None
    node.wait(node.delete("c1"))
    assert node.delete("c1", event="RemoveContainer").outcome == "nothing to do"
    node.wait(node.delete_pod(event="RemovePodSandbox"))
    assert node.bridge.ledger.target("c1") is None
    assert node.bridge.ledger.target("pod") is None


def test_what_a_create_knew_outlives_a_removal_until_the_last_job_has_ended(node: Node) -> None:
    node.plugins(a='[ "$state" = delete ] || hold; answer')
    node.build(fail_create=False)
    created = node.create("c1", pid=33)
    node.hear("a create c1 holds")
    node.loop.advance(LIMIT)
    stopped = node.delete("c1")
    assert node.delete("c1", event="RemoveContainer").outcome == "nothing to do"
    node.release("a")
    node.wait(created, stopped)
    assert [request.get("pid") for request in node.requests("a")] == [33, 33]
    assert node.bridge.ledger.target("c1") is None


# conf.json is looked at for every event


def test_a_version_of_conf_json_counts_though_no_plugin_had_a_turn_while_it_was_there(node: Node) -> None:
    node.plugins(a="answer")
    assert node.delete("c0").outcome == "nothing to do"
    node.conf_json.write_text("{")
    answer = node.create("c1")
    node.wait(answer)
    assert answer.outcome == "ok"
    assert node.runs == ["a create c1"], "the last good version stays in force"


def test_what_is_owed_to_a_container_comes_with_its_pods_removal_at_the_latest(node: Node) -> None:
    """CRI-O tells no end of a container that another NRI plugin has refused."""
    node.plugins(a="answer")
    for id_, pod in (("c1", "p1"), ("c2", "p2")):
        node.wait(node.create(id_, pod))
    node.delete_pod("p1", event="RemovePodSandbox")
    node.idle()
    assert node.runs == ["a create c1", "a create c2", "a delete c1"]
    assert (node.bridge.ledger.target("c1"), node.bridge.updates.known) == (None, {"c2"})
