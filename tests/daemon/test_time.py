"""Plugins that take longer than a call may, with real processes; tests/legacy has every case on a stepped clock."""

from __future__ import annotations

import os

import pytest

from adapter.nri import api
from adapter.nri.events import PLUGIN
from adapter.proto import ttrpc_pb2
from adapter.wire import Code

from .harness import LATE, OVER, POD, SAFETY, Daemon, Gate, Node, slow, start, stop, wait_for_run


@pytest.fixture
def gate(node: Node) -> Gate:
    """Where the plugin `slow` waits."""
    gate = node.gate()
    slow(node, gate)
    return gate


@pytest.mark.deadline
def test_a_late_create_fails_by_name_before_its_deadline_its_process_may_finish_and_its_delete_comes(
    node: Node, gate: Gate
) -> None:
    node.configure("slow", "good")
    daemon = node.launch()
    reply = daemon.call("StartContainer", start("ctr"), LATE)
    pid = gate.arrival()  # and it is blocked still
    assert (reply.code, reply.message.startswith("plugin: slow: no result within ")) == (Code.UNKNOWN, True)
    daemon.logged("ERROR create of container default/web/ctr (ctr): ", reply.message)
    daemon.logged(f"WARNING slow: pid {pid} ", "left to finish")
    node.still_serves(daemon)
    gate.let_on()
    daemon.logged(f"INFO slow: pid {pid}, which was left running, has ended: exit code 0")
    gate.let_on()
    node.configure("slow")
    assert daemon.call("StopContainer", stop("ctr")).code == Code.OK
    assert node.runs("slow") == [("create", "ctr"), ("delete", "ctr")]
    assert ("create", "ctr") not in node.runs("good"), "the chain ended with its failure"


@pytest.mark.deadline
def test_a_late_plugin_is_killed_where_that_is_configured(node: Node, gate: Gate) -> None:
    node.configure("slow")
    daemon = node.launch({"killOnTimeout": True})
    assert daemon.call("StartContainer", start("ctr"), LATE).code == Code.UNKNOWN
    line = daemon.logged("INFO slow: pid ", "which was left running, has ended: killed by signal 9")
    with pytest.raises(ProcessLookupError):
        os.kill(int(line.partition("pid ")[2].partition(",")[0]), 0)
    node.still_serves(daemon)


@pytest.mark.deadline
def test_a_result_that_was_printed_counts_at_the_deadline_though_the_plugin_works_on(node: Node) -> None:
    gate = node.gate()
    node.plugin("busy", f'echo \'{{"plugin":"busy"}}\'; {gate.script}')
    node.configure("busy")
    daemon = node.launch({"plugins": {"busy": {"timeout": 1}}})
    assert daemon.call("StartContainer", start("ctr"))[1:3] == (Code.OK, "")
    pid = gate.arrival()
    daemon.logged(f"INFO busy: pid {pid} works on after its result")
    node.still_serves(daemon)
    gate.let_on()
    daemon.logged(f"INFO busy: pid {pid}, which was left running, has ended: exit code 0")


def test_a_chain_whose_failures_are_ignored_goes_on_behind_the_answer_of_a_call_that_is_over(
    node: Node, gate: Gate
) -> None:
    node.configure("slow", "good")
    daemon = node.launch({"onFailure": "ignore"})
    for method, request in (("StartContainer", start("ctr")), ("StopContainer", stop("ctr"))):
        assert daemon.call(method, request, OVER).code == Code.OK
    daemon.logged("WARNING create of container default/web/ctr (ctr): ", "it goes on behind the answer")
    daemon.logged("WARNING delete of container default/web/ctr (ctr): waited for create of", "behind the answer")
    gate.arrival()
    assert node.runs("good") == []
    gate.let_on()
    gate.let_on()  # for its delete
    node.configure("good")
    wait_for_run(node, daemon, "good", "ctr", "delete")
    assert node.runs("slow") == node.runs("good")[:2] == [("create", "ctr"), ("delete", "ctr")]


def test_a_container_waits_for_its_pod_and_the_end_of_a_pod_for_its_containers_and_nobody_else_waits(
    node: Node,
) -> None:
    pods, containers = node.gate("pods"), node.gate("containers")
    slow(node, pods, "pod-slow", when='"create","id":"pod-1"')
    slow(node, containers, "ctr-slow", when='"delete","id":"ctr"')
    node.configure("pod-slow", "ctr-slow", "good")
    daemon = node.launch({"onFailure": "ignore"})
    assert daemon.call("RunPodSandbox", api.RunPodSandboxRequest(pod=POD), OVER).code == Code.OK
    pods.arrival()
    first = daemon.send("StartContainer", start("ctr"))
    other = api.PodSandbox(id="pod-2")
    assert daemon.call("RunPodSandbox", api.RunPodSandboxRequest(pod=other)).code == Code.OK
    assert daemon.call("StartContainer", start("other", pod=other)).code == Code.OK
    assert first not in daemon.replies
    pods.let_on()
    assert daemon.reply(first).code == Code.OK
    assert daemon.call("StopContainer", stop("ctr"), OVER).code == Code.OK
    containers.arrival()
    last = daemon.send("StopPodSandbox", api.StopPodSandboxRequest(pod=POD))
    assert daemon.call("StopContainer", stop("other", pod=other)).code == Code.OK
    assert daemon.call("StopPodSandbox", api.StopPodSandboxRequest(pod=other)).code == Code.OK
    assert last not in daemon.replies
    containers.let_on()
    assert daemon.reply(last).code == Code.OK
    creates, deletes = node.runs("good")[:4], node.runs("good")[4:]
    assert [id_ for _, id_ in creates] == ["pod-2", "other", "pod-1", "ctr"]
    assert [id_ for _, id_ in deletes] == ["other", "pod-2", "ctr", "pod-1"]


def send_with(daemon: Daemon, timeout_nano: int) -> int:
    """Sends a StartContainer with just that timeout; returns its stream id."""
    payload = start("ctr").SerializeToString()
    request = ttrpc_pb2.Request(service=PLUGIN, method="StartContainer", payload=payload, timeout_nano=timeout_nano)
    return daemon.send_envelope(request.SerializeToString())


def test_a_call_whose_time_is_over_as_it_comes_is_answered(node: Node, gate: Gate) -> None:
    node.configure("slow")
    daemon = node.launch()
    for timeout_nano in (-1, -(1 << 63), 1):
        reply = daemon.reply(send_with(daemon, timeout_nano))
        assert reply.message.startswith("plugin: slow: no"), timeout_nano
        node.still_serves(daemon)
        node.configure("slow")


def test_a_call_with_all_the_time_in_the_world_is_answered_when_it_is_done(node: Node, gate: Gate) -> None:
    daemon = node.launch()
    for timeout_nano in ((1 << 63) - 1, int(SAFETY * 1e9)):
        node.configure("slow")
        stream_id = send_with(daemon, timeout_nano)
        gate.arrival()
        node.still_serves(daemon)
        assert stream_id not in daemon.replies
        gate.let_on()
        assert daemon.reply(stream_id).code == Code.OK


@pytest.mark.deadline
def test_a_call_that_names_no_time_gets_what_configure_said(node: Node, gate: Gate) -> None:
    node.configure("slow")
    daemon = node.spawn()
    daemon.registration()
    request = api.ConfigureRequest(config=node.settings(), request_timeout=int(LATE * 1000))
    assert daemon.call("Configure", request).code == Code.OK
    assert daemon.call("Synchronize").code == Code.OK
    assert daemon.reply(send_with(daemon, 0)).message.startswith("plugin: slow: no result within ")
