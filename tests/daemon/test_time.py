"""Plugins that take longer than a call may: it is answered while they are provably still at it."""

from __future__ import annotations

import pytest

from adapter.nri import api
from adapter.wire import Code

from .harness import LATE, POD, SAFETY, Node, slow, start, stop, wait_for_run


def run_pod(pod: api.PodSandbox = POD) -> api.RunPodSandboxRequest:
    return api.RunPodSandboxRequest(pod=pod)


def stop_pod(pod: api.PodSandbox = POD) -> api.StopPodSandboxRequest:
    return api.StopPodSandboxRequest(pod=pod)


# ---- creates


def test_a_create_that_takes_too_long_fails_in_time_by_name_and_its_process_is_left_to_finish(node: Node) -> None:
    gate = node.gate()
    slow(node, gate)
    node.configure("slow", "good")
    daemon = node.launch()
    reply = daemon.call("StartContainer", start("ctr"), LATE)
    pid = gate.arrival()  # and it is blocked still
    assert reply.code == Code.UNKNOWN
    assert reply.message.startswith("plugin: slow: no result within ")
    daemon.logged("ERROR create of container default/web/ctr (ctr): ", reply.message)
    daemon.logged(f"WARNING slow: pid {pid} ", "left to finish")
    node.still_serves(daemon)
    gate.let_on()
    daemon.logged(f"INFO slow: pid {pid}, which was left running, has ended: exit code 0")
    assert node.runs("slow") == [("create", "ctr")]
    node.still_serves(daemon)
    assert ("create", "ctr") not in node.runs("good"), "the chain ended with its failure"


def test_a_create_that_fails_for_lateness_still_gets_its_delete(node: Node) -> None:
    gate = node.gate()
    slow(node, gate, when='"create"')
    node.configure("slow")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("ctr"), LATE).code == Code.UNKNOWN
    assert daemon.call("StopContainer", stop("ctr")).code == Code.OK
    gate.arrival()
    assert node.runs("slow") == [("delete", "ctr")]
    node.still_serves(daemon)


def test_a_create_whose_failure_is_ignored_succeeds_in_time_and_the_chain_goes_on_behind_it(node: Node) -> None:
    gate = node.gate()
    slow(node, gate)
    node.configure("slow", "good")
    daemon = node.launch({"onFailure": "ignore"})
    assert daemon.call("StartContainer", start("ctr"), LATE).code == Code.OK
    gate.arrival()
    daemon.logged(
        "WARNING create of container default/web/ctr (ctr): plugin: slow: no result within ",
        "it goes on behind the answer",
    )
    assert node.runs("good") == []
    gate.let_on()
    gate.let_on()  # for its delete
    wait_for_run(node, daemon, "good", "ctr", "create")
    assert node.runs("slow") == node.runs("good") == [("create", "ctr"), ("delete", "ctr")]
    node.still_serves(daemon)


def test_a_plugin_whose_lateness_is_ignored_does_not_save_one_behind_it_whose_is_not(node: Node) -> None:
    gate = node.gate()
    slow(node, gate)
    node.configure("slow", "good")
    daemon = node.launch({"plugins": {"slow": {"onFailure": "ignore"}}})
    reply = daemon.call("StartContainer", start("ctr"), LATE)
    gate.arrival()
    assert reply.message.startswith("plugin: good: not run: slow: no result within ")
    node.still_serves(daemon)
    assert ("create", "ctr") not in node.runs("good")


def test_a_late_plugins_result_reaches_the_plugins_behind_it(node: Node) -> None:
    gate = node.gate()
    node.plugin("slow", f'{gate.script}; echo \'{{"plugin":"slow","metadata":{{"a":"b"}}}}\'')
    node.configure("slow", "good")
    daemon = node.launch({"onFailure": "ignore"})
    assert daemon.call("StartContainer", start("ctr"), LATE).code == Code.OK
    gate.arrival()
    gate.let_on()
    gate.let_on()  # for its delete
    wait_for_run(node, daemon, "good", "ctr", "create")
    expected = {"plugin": "slow", "version": "", "error": "", "metadata": {"a": "b"}}
    assert node.requests("good")[0]["results"] == [expected]


# ---- the moment of the answer. Both of two events are measured by the daemon's own clock, and came in one piece: what
# the machine does besides cannot change their order.


@pytest.mark.parametrize(("first", "limit"), [("call", 0.95), ("limit", 0.81)], ids=["not later", "not much earlier"])
def test_the_answer_goes_out_a_tenth_of_a_second_before_the_calls_deadline(
    node: Node, first: str, limit: float
) -> None:
    """A delete with a second's time beside a create whose plugin has a limit of its own: each has only one of them."""
    slow(node, node.gate("a"), "unlimited", when='"delete"')
    slow(node, node.gate("b"), "limited")
    node.configure("unlimited")
    daemon = node.launch({"plugins": {"limited": {"timeout": limit}}})
    assert daemon.call("StartContainer", start("ctr-a")).code == Code.OK
    node.configure("limited")
    call, limited = ("StopContainer", stop("ctr-a"), 1.0), ("StartContainer", start("ctr-b"), SAFETY)
    calls = daemon.send_together(*((call, limited) if first == "call" else (limited, call)))
    codes = [daemon.reply(sent).code for sent in calls]
    assert codes == ([Code.OK, Code.UNKNOWN] if first == "call" else [Code.UNKNOWN, Code.OK])
    assert [sent for sent in daemon.replies if sent in calls] == calls


# ---- deletes


@pytest.mark.parametrize("policy", ["ignore", "fail"])
def test_a_delete_that_takes_too_long_succeeds_in_time_whatever_the_policy_and_finishes_behind_it(
    node: Node, policy: str
) -> None:
    gate = node.gate()
    slow(node, gate, when='"delete"')
    node.configure("slow", "good")
    daemon = node.launch({"onDeleteFailure": policy})
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    assert daemon.call("StopContainer", stop("ctr"), LATE).code == Code.OK
    gate.arrival()
    assert node.runs("slow") == node.runs("good") == [("create", "ctr")]
    daemon.logged(
        "WARNING delete of container default/web/ctr (ctr): plugin: slow: no result within ",
        "it goes on behind the answer",
    )
    node.still_serves(daemon)
    gate.let_on()
    node.configure("good")
    wait_for_run(node, daemon, "good", "ctr", "delete")
    assert node.runs("slow") == [("create", "ctr"), ("delete", "ctr")]


def test_a_delete_that_comes_while_its_create_is_under_way_is_answered_and_done_after_it_once(node: Node) -> None:
    gate = node.gate()
    slow(node, gate, when='"create"')
    node.configure("slow")
    daemon = node.launch({"onFailure": "ignore"})
    assert daemon.call("StartContainer", start("ctr"), LATE).code == Code.OK
    gate.arrival()
    assert daemon.call("StopContainer", stop("ctr"), LATE).code == Code.OK
    daemon.logged(
        "WARNING delete of container default/web/ctr (ctr): waited for create of container default/web/ctr (ctr); ",
        "it goes on behind the answer",
    )
    removal = api.RemoveContainerRequest(pod=POD, container=api.Container(id="ctr", pod_sandbox_id=POD.id))
    assert daemon.call("RemoveContainer", removal).code == Code.OK
    assert node.runs("slow") == []
    gate.let_on()
    node.configure()
    assert daemon.call("StopPodSandbox", stop_pod()).code == Code.OK
    node.configure("slow")
    again = daemon.send("StartContainer", start("ctr"))  # waits for the delete
    gate.arrival()
    gate.let_on()
    assert daemon.reply(again).code == Code.OK
    assert node.runs("slow") == [("create", "ctr"), ("delete", "ctr"), ("create", "ctr")]


# ---- who waits for whom


def test_a_container_waits_for_its_pod_and_the_end_of_a_pod_for_its_containers_and_nobody_else_waits(
    node: Node,
) -> None:
    pods, containers = node.gate("pods"), node.gate("containers")
    slow(node, pods, "pod-slow", when='"create","id":"pod-1"')
    slow(node, containers, "ctr-slow", when='"delete","id":"ctr"')
    node.configure("pod-slow", "ctr-slow", "good")
    daemon = node.launch({"onFailure": "ignore"})
    assert daemon.call("RunPodSandbox", run_pod(), LATE).code == Code.OK
    pods.arrival()
    first = daemon.send("StartContainer", start("ctr"))
    other = api.PodSandbox(id="pod-2")
    assert daemon.call("RunPodSandbox", run_pod(other)).code == Code.OK
    assert daemon.call("StartContainer", start("other", pod=other)).code == Code.OK
    assert first not in daemon.replies
    assert node.runs("good") == [("create", "pod-2"), ("create", "other")]
    pods.let_on()
    assert daemon.reply(first).code == Code.OK
    assert node.runs("good")[2:] == [("create", "pod-1"), ("create", "ctr")]

    assert daemon.call("StopContainer", stop("ctr"), LATE).code == Code.OK
    containers.arrival()
    last = daemon.send("StopPodSandbox", stop_pod())
    assert daemon.call("StopContainer", stop("other", pod=other)).code == Code.OK
    assert daemon.call("StopPodSandbox", stop_pod(other)).code == Code.OK
    assert last not in daemon.replies
    containers.let_on()
    assert daemon.reply(last).code == Code.OK
    assert node.runs("good")[4:] == [("delete", "other"), ("delete", "pod-2"), ("delete", "ctr"), ("delete", "pod-1")]


def test_a_create_that_waits_too_long_for_its_pod_fails_in_time_and_says_for_what(node: Node) -> None:
    gate = node.gate()
    slow(node, gate)
    node.configure("slow")
    daemon = node.launch({"plugins": {"slow": {"onFailure": "ignore"}}})
    assert daemon.call("RunPodSandbox", run_pod(), LATE).code == Code.OK
    gate.arrival()
    node.configure("good")
    reply = daemon.call("StartContainer", start("ctr"), LATE)
    assert reply.code == Code.UNKNOWN
    assert reply.message == "plugin: good: not run: waited for create of sandbox default/web (pod-1)"
    gate.let_on()
    assert daemon.call("StopPodSandbox", stop_pod(), LATE).code == Code.OK
    gate.let_on()
    assert node.runs("good") == []


def test_events_are_answered_in_the_order_of_their_ends_not_of_their_coming(node: Node) -> None:
    gate = node.gate()
    slow(node, gate, when='"id":"first"')
    node.configure("slow")
    daemon = node.launch()
    first = daemon.send("StartContainer", start("first"))
    gate.arrival()
    second = daemon.send("StartContainer", start("second"))
    assert daemon.reply(second).code == Code.OK
    assert first not in daemon.replies
    gate.let_on()
    assert daemon.reply(first).code == Code.OK
