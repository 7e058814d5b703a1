"""Plugins that take longer than a call may: it is answered while they are provably still at it."""

from __future__ import annotations

import os
import signal

import pytest

from adapter.nri import api
from adapter.nri.events import PLUGIN
from adapter.proto import ttrpc_pb2
from adapter.wire import Code

from .harness import LATE, POD, SAFETY, Daemon, Gate, Node, start, stop

ENOUGH = 1.0
"""Seconds of a call that a shell script's first line surely is done in."""


def slow(node: Node, gate: Gate, name: str = "slow", when: str = "*") -> None:
    """Installs a plugin that waits at a gate, at every event or only at those `when` the request contains a text."""
    waiting = f"case \"$line\" in *'{when}'*) {gate.script};; esac" if when != "*" else gate.script
    node.plugin(
        name, f"IFS= read -r line; {waiting}; printf '%s\\n' \"$line\" >>'{node.path}/{name}.requests'; echo '{{}}'"
    )


def run_pod(pod: api.PodSandbox = POD) -> api.RunPodSandboxRequest:
    return api.RunPodSandboxRequest(pod=pod)


def stop_pod(pod: api.PodSandbox = POD) -> api.StopPodSandboxRequest:
    return api.StopPodSandboxRequest(pod=pod)


def wait_for_run(node: Node, daemon: Daemon, name: str, id_: str, state: str) -> None:
    """Waits until a chain that goes on behind its answer has run a recording plugin: the next event of that id waits.

    An event of the same id is answered only after the chains before it have ended.
    """
    assert daemon.call("StartContainer" if state == "delete" else "StopContainer", start(id_)).code == Code.OK
    assert (state, id_) in node.runs(name)


def send_with(daemon: Daemon, timeout_nano: int) -> int:
    """Sends a StartContainer with just that timeout; returns its stream id."""
    payload = start("ctr").SerializeToString()
    request = ttrpc_pb2.Request(service=PLUGIN, method="StartContainer", payload=payload, timeout_nano=timeout_nano)
    return daemon.send_envelope(request.SerializeToString())


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
    daemon.logged("ERROR create of container ctr: ", reply.message)
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
    daemon.logged("WARNING create of container ctr: no result within ", "it goes on behind the answer")
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
    daemon.logged("WARNING delete of container ctr: no result within ", "it goes on behind the answer")
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
    daemon.logged("WARNING delete of container ctr: waited for create of container ctr; it goes on behind the answer")
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
    assert reply.message == "plugin: good: not run: waited for create of sandbox pod-1"
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


# ---- limits of a plugin's own


def test_a_plugins_own_timeout_lets_the_rest_of_the_chain_have_its_turn_within_the_call(node: Node) -> None:
    gate = node.gate()
    slow(node, gate)
    node.configure("slow", "good")
    daemon = node.launch({"plugins": {"slow": {"timeout": LATE, "onFailure": "ignore"}}})
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    gate.arrival()
    assert node.runs("good") == [("create", "ctr")]
    daemon.logged("ERROR create of container ctr: plugin: slow: no result within ", "(tolerated)")
    node.still_serves(daemon)


def test_a_plugins_own_timeout_fails_a_create_that_may_not_fail(node: Node) -> None:
    gate = node.gate()
    slow(node, gate)
    node.configure("slow", "good")
    daemon = node.launch({"plugins": {"slow": {"timeout": LATE}}})
    reply = daemon.call("StartContainer", start("ctr"))
    gate.arrival()
    assert reply.message.startswith("plugin: slow: no result within ")
    assert node.runs("good") == []
    node.still_serves(daemon)


def test_a_late_plugin_is_killed_where_that_is_configured(node: Node) -> None:
    gate = node.gate()
    slow(node, gate)
    node.configure("slow")
    daemon = node.launch({"killOnTimeout": True})
    assert daemon.call("StartContainer", start("ctr"), LATE).code == Code.UNKNOWN
    line = daemon.logged("INFO slow: pid ", "which was left running, has ended: killed by signal 9")
    with pytest.raises(ProcessLookupError):
        os.kill(int(line.partition("pid ")[2].partition(",")[0]), 0)
    node.still_serves(daemon)


def test_the_chain_goes_on_behind_its_answer_without_a_plugin_that_hangs_too_long(node: Node) -> None:
    gate = node.gate()
    slow(node, gate, when='"delete"')
    node.configure("slow", "good")
    daemon = node.launch({"lateLimit": LATE + 0.1})
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    assert daemon.call("StopContainer", stop("ctr"), LATE).code == Code.OK
    gate.arrival()
    daemon.logged("ERROR delete of container ctr: plugin: slow: no result within ", "(tolerated)")
    daemon.logged("WARNING slow: pid ", "left to finish")
    node.configure("good")
    wait_for_run(node, daemon, "good", "ctr", "delete")


def test_of_more_than_32_processes_left_the_oldest_is_killed(node: Node) -> None:
    gate = node.gate()
    slow(node, gate)
    node.configure("slow")
    daemon = node.launch()
    calls = [daemon.send("StartContainer", start(f"ctr-{number}"), LATE) for number in range(33)]
    for call in calls:
        assert daemon.reply(call).code == Code.UNKNOWN
    daemon.logged("ERROR slow: more than 32 left: pid ", "the oldest, is killed")
    daemon.logged("INFO slow: pid ", "which was left running, has ended: killed by signal 9")
    assert len([line for line in daemon.log if "has ended" in line]) == 1
    node.still_serves(daemon)


# ---- a result before the end


def test_a_plugin_that_prints_its_result_and_works_on_has_succeeded_at_the_deadline(node: Node) -> None:
    gate = node.gate()
    node.plugin("busy", f'echo \'{{"plugin":"busy"}}\'; {gate.script}')
    node.configure("busy")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("ctr"), ENOUGH)[1:3] == (Code.OK, "")
    pid = gate.arrival()
    daemon.logged(f"INFO busy: pid {pid} works on after its result")
    node.still_serves(daemon)
    gate.let_on()
    daemon.logged(f"INFO busy: pid {pid}, which was left running, has ended: exit code 0")


def test_a_plugin_that_prints_its_result_and_works_on_lets_the_ignored_ones_behind_it_run_late(node: Node) -> None:
    gate = node.gate()
    node.plugin("busy", f'echo \'{{"plugin":"busy"}}\'; {gate.script}')
    node.configure("busy", "good")
    daemon = node.launch({"onFailure": "ignore"})
    assert daemon.call("StartContainer", start("ctr"), ENOUGH).code == Code.OK
    gate.arrival()
    stopped = daemon.send("StopContainer", stop("ctr"))
    gate.arrival()
    gate.let_on()
    gate.let_on()
    assert daemon.reply(stopped).code == Code.OK
    assert node.runs("good") == [("create", "ctr"), ("delete", "ctr")]
    assert node.requests("good")[0]["results"][0]["plugin"] == "busy"


def test_an_error_that_is_printed_counts_at_the_deadline_though_the_plugin_works_on(node: Node) -> None:
    gate = node.gate()
    node.plugin("busy", f'echo \'{{"error":"no luck"}}\'; {gate.script}')
    node.configure("busy")
    daemon = node.launch()
    reply = daemon.call("StartContainer", start("ctr"), ENOUGH)
    gate.arrival()
    assert (reply.code, reply.message) == (Code.UNKNOWN, "plugin: busy: no luck")
    node.still_serves(daemon)


def test_half_a_result_at_the_deadline_is_none(node: Node) -> None:
    gate = node.gate()
    node.plugin("busy", f"printf '{{'; {gate.script}; echo '}}'")
    node.configure("busy")
    daemon = node.launch()
    reply = daemon.call("StartContainer", start("ctr"), LATE)
    gate.arrival()
    assert reply.message.startswith("plugin: busy: no result within ")
    node.still_serves(daemon)


def test_a_plugin_that_prints_without_end_is_late_and_costs_nothing_else(node: Node) -> None:
    node.plugin("endless", "exec yes")
    node.configure("endless")
    daemon = node.launch({"killOnTimeout": True})
    reply = daemon.call("StartContainer", start("ctr"), LATE)
    assert reply.code == Code.UNKNOWN
    assert reply.message.startswith("plugin: endless: ")
    node.still_serves(daemon)


def test_a_stopped_plugin_is_late_like_any_other(node: Node) -> None:
    node.plugin("stopped", "kill -STOP $$; echo '{}'")
    node.configure("stopped")
    daemon = node.launch()
    reply = daemon.call("StartContainer", start("ctr"), LATE)
    assert reply.message.startswith("plugin: stopped: no result within ")
    node.still_serves(daemon)
    (pid,) = daemon.children()
    os.kill(pid, signal.SIGCONT)
    daemon.logged(f"INFO stopped: pid {pid}, which was left running, has ended: exit code 0")


# ---- odd deadlines


@pytest.mark.parametrize("timeout_nano", [-1, -(1 << 63), 1])
def test_a_call_whose_time_is_over_as_it_comes_is_answered(node: Node, timeout_nano: int) -> None:
    gate = node.gate()
    slow(node, gate)
    node.configure("slow")
    daemon = node.launch()
    reply = daemon.reply(send_with(daemon, timeout_nano))
    assert reply.message.startswith("plugin: slow: no")
    node.still_serves(daemon)


@pytest.mark.parametrize("timeout_nano", [(1 << 63) - 1, int(SAFETY * 1e9)])
def test_a_call_with_all_the_time_in_the_world_is_answered_when_it_is_done(node: Node, timeout_nano: int) -> None:
    gate = node.gate()
    slow(node, gate)
    node.configure("slow")
    daemon = node.launch()
    stream_id = send_with(daemon, timeout_nano)
    gate.arrival()
    node.still_serves(daemon)
    assert stream_id not in daemon.replies
    gate.let_on()
    assert daemon.reply(stream_id).code == Code.OK


def test_a_call_that_names_no_time_gets_what_configure_said(node: Node) -> None:
    gate = node.gate()
    slow(node, gate)
    node.configure("slow")
    daemon = node.spawn()
    daemon.registration()
    request = api.ConfigureRequest(config=node.settings(), request_timeout=int(LATE * 1000))
    assert daemon.call("Configure", request).code == Code.OK
    reply = daemon.reply(send_with(daemon, 0))
    gate.arrival()
    assert reply.message.startswith("plugin: slow: no result within ")
    node.still_serves(daemon)
