"""How the daemon ends: what is under way is finished, within limits, and the exit code says how it was."""

from __future__ import annotations

import os
import signal

import pytest

from adapter.wire import Code

from .harness import OVER, Daemon, Gate, Node, patched, start, stop

LONG_ERROR = "printf '{\"error\":\"'; head -c 70000 /dev/zero | tr '\\0' x; printf '\"}'"
"""A plugin whose error fills a socket after a few answers."""


@pytest.fixture
def gate(node: Node) -> Gate:
    """Where the plugin `slow` waits, the first of two in conf.json."""
    gate = node.gate()
    node.plugin("slow", f"{gate.script}; {node.record('slow')}")
    node.configure("slow", "good")
    return gate


def begin(daemon: Daemon, gate: Gate) -> int:
    """Lets an event be under way; returns its stream id."""
    call = daemon.send("StartContainer", start("ctr"))
    gate.arrival()
    return call


def finished(node: Node, *states: str) -> bool:
    return node.runs("slow") == node.runs("good") == [(state, "ctr") for state in states]


def failed(daemon: Daemon, count: int) -> list[int]:
    """Lets events fail whose answers nobody reads; returns their stream ids."""
    calls = [daemon.send("StartContainer", start(f"ctr-{number}")) for number in range(count)]
    seen = {f"ERROR create of container default/web/ctr-{number} (ctr-{number}): " for number in range(count)}
    daemon.until(lambda: all(any(text in line for line in daemon.log) for text in seen), "all", read_trunk=False)
    assert daemon.replies.keys().isdisjoint(calls)
    return calls


# ---- the runtime goes


def test_when_the_runtime_goes_an_idle_daemon_ends_with_exit_code_0(node: Node) -> None:
    daemon = node.launch(by_process=True)
    daemon.end_runtime()
    assert daemon.ended() == 0
    assert daemon.log[-1].endswith("INFO the runtime has ended")


def test_when_the_runtime_goes_the_chain_under_way_and_the_delete_that_waits_for_it_are_finished(
    node: Node, gate: Gate
) -> None:
    daemon = node.launch(by_process=True)
    begin(daemon, gate)
    daemon.send("StopContainer", stop("ctr"))
    assert daemon.call("Nothing").code == Code.UNIMPLEMENTED  # it has read what came before
    daemon.end_runtime()
    daemon.logged("INFO the runtime has closed the connection")
    assert daemon.is_running()
    gate.let_on()
    gate.let_on()
    assert daemon.ended() == 0
    assert finished(node, "create", "delete")


def test_a_late_chain_is_finished_too(node: Node, gate: Gate) -> None:
    daemon = node.launch({"onFailure": "ignore"}, by_process=True)
    assert daemon.call("StartContainer", start("ctr"), OVER).code == Code.OK
    gate.arrival()
    daemon.end_runtime()
    daemon.logged("INFO the runtime has closed the connection")
    gate.let_on()
    assert daemon.ended() == 0
    assert finished(node, "create")


def test_a_runtime_that_goes_with_answers_unread_is_gone_and_that_is_all(node: Node) -> None:
    node.plugin("bad", LONG_ERROR)
    node.configure("bad")
    daemon = node.launch(by_process=True)
    failed(daemon, 5)
    daemon.end_runtime()
    assert daemon.ended() == 0


# ---- signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_daemon_with_exit_code_0(node: Node, number: signal.Signals) -> None:
    daemon = node.launch()
    daemon.signal(number)
    assert daemon.ended() == 0
    assert daemon.log[-1].endswith(f"INFO ending on {number.name}")


def test_a_signal_before_the_registration_is_accepted_ends_the_daemon(node: Node) -> None:
    daemon = node.spawn()
    daemon.request()
    daemon.signal(signal.SIGTERM)
    assert daemon.ended() == 0


def test_sigterm_lets_the_event_in_hand_be_finished_and_answered_also_with_a_failure(node: Node, gate: Gate) -> None:
    node.plugin("good", node.record("good", '{"error":"no luck"}'))
    daemon = node.launch()
    call = begin(daemon, gate)
    daemon.signal(signal.SIGTERM)
    daemon.logged("INFO ending on SIGTERM")
    assert call not in daemon.replies
    gate.let_on()
    assert daemon.reply(call).message == "plugin: good: no luck"
    assert daemon.ended() == 0
    assert finished(node, "create")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_daemon_at_once(node: Node, gate: Gate, second: signal.Signals) -> None:
    """Whoever presses Ctrl-C twice does not want to wait for a plugin."""
    daemon = node.launch()
    call = begin(daemon, gate)
    daemon.signal(signal.SIGTERM)
    daemon.logged("INFO ending on SIGTERM")
    daemon.signal(second)
    assert daemon.ended() == 0
    assert daemon.log[-1].endswith(f"WARNING ending at once on a second signal, {second.name}")
    assert call not in daemon.replies


@pytest.mark.parametrize("first", ["the runtime", "the signal"])
def test_a_signal_and_the_end_of_the_runtime_let_the_chain_be_finished(node: Node, gate: Gate, first: str) -> None:
    daemon = node.launch()
    begin(daemon, gate)
    for what in ("the runtime", "the signal") if first == "the runtime" else ("the signal", "the runtime"):
        if what == "the runtime":
            daemon.hang_up()
            daemon.logged("INFO the runtime has closed the connection")
        else:
            daemon.signal(signal.SIGTERM)
            daemon.logged("INFO ending on SIGTERM")
    assert daemon.is_running()
    gate.let_on()
    assert daemon.ended() == 0
    assert finished(node, "create")


def test_a_plugin_that_never_ends_holds_up_the_end_no_longer_than_its_grace(node: Node, gate: Gate) -> None:
    daemon = node.spawn(patched("daemon.GRACE = 0")).handshake(node.settings())
    call = daemon.send("StartContainer", start("ctr"))
    pid = gate.arrival()
    daemon.signal(signal.SIGTERM)
    assert daemon.ended() == 0
    assert daemon.log[-1].endswith("ERROR legacy plugins or the runtime were still busy after 0 s")
    assert call not in daemon.replies
    os.kill(pid, 0)  # it was left to finish
    assert node.runs("good") == []


def test_sigterm_does_not_lose_answers_that_the_runtime_has_not_read_yet(node: Node) -> None:
    node.plugin("bad", LONG_ERROR)
    node.configure("bad")
    daemon = node.launch()
    calls = failed(daemon, 5)
    daemon.signal(signal.SIGTERM)
    daemon.logged("INFO ending on SIGTERM")
    for call in calls:
        assert daemon.reply(call).message.startswith("plugin: bad: xxxx")
    assert daemon.ended() == 0


def test_a_plugin_that_was_left_behind_and_prints_later_is_not_killed_by_a_closed_pipe_while_the_daemon_runs(
    node: Node,
) -> None:
    gate = node.gate()
    node.plugin("slow", f"{gate.script}; echo '{{}}' && echo done >'{node.path}/done'; echo bye >&2")
    node.configure("slow")
    daemon = node.launch({"onFailure": "ignore", "lateLimit": 0})
    assert daemon.call("StartContainer", start("ctr"), OVER).code == Code.OK
    gate.arrival()
    gate.let_on()
    daemon.logged("slow: stderr: bye")
    daemon.logged("which was left running, has ended: exit code 0")
    assert (node.path / "done").exists()
