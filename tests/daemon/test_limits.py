"""Limits of a plugin's own, results before a plugin's end, and odd deadlines: each call is answered in time."""

from __future__ import annotations

import os
import signal

import pytest

from adapter.nri import api
from adapter.nri.events import PLUGIN
from adapter.proto import ttrpc_pb2
from adapter.wire import Code

from .harness import LATE, SAFETY, Daemon, Node, slow, start, stop, wait_for_run

ENOUGH = 1.0
"""Seconds of a call that a shell script's first line surely is done in."""


def send_with(daemon: Daemon, timeout_nano: int) -> int:
    """Sends a StartContainer with just that timeout; returns its stream id."""
    payload = start("ctr").SerializeToString()
    request = ttrpc_pb2.Request(service=PLUGIN, method="StartContainer", payload=payload, timeout_nano=timeout_nano)
    return daemon.send_envelope(request.SerializeToString())


# ---- limits of a plugin's own


def test_a_plugins_own_timeout_lets_the_rest_of_the_chain_have_its_turn_within_the_call(node: Node) -> None:
    gate = node.gate()
    slow(node, gate)
    node.configure("slow", "good")
    daemon = node.launch({"plugins": {"slow": {"timeout": LATE, "onFailure": "ignore"}}})
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    gate.arrival()
    assert node.runs("good") == [("create", "ctr")]
    daemon.logged("ERROR create of container default/web/ctr (ctr): plugin: slow: no result within ", "(tolerated)")
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
    daemon.logged("ERROR delete of container default/web/ctr (ctr): plugin: slow: no result within ", "(tolerated)")
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
    assert daemon.call("Synchronize").code == Code.OK
    reply = daemon.reply(send_with(daemon, 0))
    gate.arrival()
    assert reply.message.startswith("plugin: slow: no result within ")
    node.still_serves(daemon)
