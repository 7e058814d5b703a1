"""How the daemon ends: what is under way is finished, within limits, and the exit code says how it was.

And what is left of pods that have ended: nothing.
"""

from __future__ import annotations

import signal

import pytest
from google.protobuf.message import Message

from nri import api
from nri.wire import Code

from ..rig.daemon import OVER, Daemon
from ..rig.machine import Gate, Machine, container, start, stop
from ..rig.processes import NO_PROCESS
from ..rig.waiting import LIMIT

LONG_ERROR = "printf '{\"error\":\"'; head -c 70000 /dev/zero | tr '\\0' x; printf '\"}'"
"""A plugin with whose error an answer is as long as it can be."""


@pytest.fixture
def gate(node: Machine) -> Gate:
    """Where the plugin `slow` waits, the first of two in conf.json."""
    gate = node.slow()
    node.configure("slow", "good")
    return gate


def begin(daemon: Daemon, gate: Gate) -> int:
    """Lets an event be under way; returns its stream id."""
    call = daemon.send(start("ctr"))
    gate.arrival()
    return call


def finished(node: Machine, *states: str) -> bool:
    return node.runs("slow") == node.runs() == [(state, "ctr") for state in states]


def failed(node: Machine, daemon: Daemon) -> list[int]:
    """Lets events fail whose answers nobody reads; returns their stream ids."""
    node.plugin("bad", LONG_ERROR)
    node.configure("bad")
    calls = [daemon.send(start(f"ctr-{number}")) for number in range(5)]
    seen = {f"ERROR create of container default/web/ctr-{number} (ctr-{number}): " for number in range(5)}
    daemon.until(lambda: all(any(text in line for line in daemon.log) for text in seen), "all", read_trunk=False)
    assert daemon.replies.keys().isdisjoint(calls)
    return calls


# ---- the runtime goes


def test_when_the_runtime_goes_an_idle_daemon_ends_with_exit_code_0_though_answers_are_unread(node: Machine) -> None:
    for are_unread in (False, True):
        daemon = node.launch(by_process=True, is_narrow=are_unread)
        if are_unread:
            failed(node, daemon)
        daemon.end_runtime()
        daemon.logged("INFO the runtime has ended")
        assert daemon.ended() == 0


@pytest.mark.parametrize("is_late", [False, True])
def test_when_the_runtime_goes_what_is_under_way_is_finished(node: Machine, gate: Gate, is_late: bool) -> None:
    daemon = node.launch({"onFailure": "ignore"}, by_process=True)
    if is_late:
        daemon.serves(start("ctr"), timeout=OVER)
        gate.arrival()
    else:
        begin(daemon, gate)
        daemon.send(stop("ctr"))
        assert daemon.call("Nothing").code == Code.UNIMPLEMENTED  # it has read what came before
    daemon.end_runtime()
    daemon.logged("INFO the runtime has closed the connection")
    assert daemon.is_running()
    gate.let_on()
    gate.let_on()
    assert daemon.ended() == 0
    assert finished(node, "create", *([] if is_late else ["delete"]))


def test_when_the_runtime_has_ended_a_waiting_create_does_not_run_though_its_connection_is_open(
    node: Machine, gate: Gate
) -> None:
    """As long as a child of the runtime has inherited the socket."""
    daemon = node.launch(by_process=True)
    begin(daemon, gate)
    daemon.send(start("ctr"))  # it waits for the first
    assert daemon.call("Nothing").code == Code.UNIMPLEMENTED
    assert daemon.runtime is not None
    daemon.runtime.kill()
    daemon.logged("INFO the runtime has ended")
    gate.let_on()
    assert daemon.ended() == 0
    assert finished(node, "create")
    assert len([line for line in daemon.log if "the runtime has ended" in line]) == 1
    assert not [line for line in daemon.log if "still busy" in line]


# ---- signals


def test_sigterm_lets_the_event_in_hand_be_finished_and_answered_also_with_a_failure(node: Machine, gate: Gate) -> None:
    node.plugin("good", node.record("good", '{"error":"no luck"}'))
    daemon = node.launch()
    call = begin(daemon, gate)
    daemon.terminate()
    assert call not in daemon.replies
    gate.let_on()
    assert daemon.reply(call).message == "plugin: good: no luck"
    assert daemon.ended() == 0
    assert finished(node, "create")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_daemon_at_once(node: Machine, gate: Gate, second: signal.Signals) -> None:
    """Whoever presses Ctrl-C twice does not want to wait for a plugin."""
    daemon = node.launch()
    call = begin(daemon, gate)
    daemon.terminate()
    daemon.signal(second)
    assert daemon.ended() == 0
    assert daemon.log[-1].endswith(f"WARNING ending at once on a second signal, {second.name}")
    assert call not in daemon.replies


def test_a_plugin_that_does_not_end_holds_the_end_up_for_the_grace_only(node: Machine, gate: Gate) -> None:
    daemon = node.launch(patch="daemon.GRACE = 0.01")
    begin(daemon, gate)
    daemon.end()
    assert daemon.log[-1].endswith(" ERROR legacy plugins or the runtime were still busy after 0.01 s")


@pytest.mark.parametrize("is_first", ["the runtime", "the signal"])
def test_a_signal_and_the_end_of_the_runtime_let_the_chain_be_finished(
    node: Machine, gate: Gate, is_first: str
) -> None:
    daemon = node.launch()
    begin(daemon, gate)
    for is_signal in (False, True) if is_first == "the runtime" else (True, False):
        if is_signal:
            daemon.terminate()
        else:
            daemon.hang_up()
            daemon.logged("INFO the runtime has closed the connection")
    assert daemon.is_running()
    gate.let_on()
    assert daemon.ended() == 0
    assert finished(node, "create")


def test_sigterm_does_not_lose_answers_that_the_runtime_has_not_read_yet(node: Machine) -> None:
    daemon = node.launch(is_narrow=True, patch=f"daemon.GRACE = {LIMIT}")
    calls = failed(node, daemon)
    daemon.terminate()
    for call in calls:
        assert daemon.reply(call).message.startswith("plugin: bad: xxxx")
    assert daemon.ended() == 0


# ---- pods that have ended


COUNT = """
import gc
from v010_adapter.daemon.adapter import Adapter

def count(*_):
    gc.collect()
    kinds = [type(one) for one in gc.get_objects()]
    packages = ("nri.", "v010_adapter.", "google.")
    ours = [kind for kind in kinds if kind.__module__.startswith(packages) and kind.__name__ != "Timer"]
    logs.log.info("%d objects", len(ours))

Adapter.reload = count
"""


def life(number: int) -> list[Message]:
    ctr, pod = f"ctr-{number}", api.PodSandbox(id=f"pod-{number}", labels={"app": "web"}, pid=NO_PROCESS)
    return [
        api.RunPodSandboxRequest(pod=pod),
        start(ctr, {"some": "annotation"}, pod),
        stop(ctr, pod),
        api.RemoveContainerRequest(pod=pod, container=container(ctr, None, pod)),
        api.StopPodSandboxRequest(pod=pod),
        api.RemovePodSandboxRequest(pod=pod),
    ]


def test_lives_of_pods_leave_no_object_behind(node: Machine) -> None:
    """None of the adapter's classes or a message, counted on SIGHUP. Cancelled timers are searched for now and then."""
    node.plugin("quick", "echo '{}'")
    node.configure("quick")
    daemon = node.launch(patch=COUNT)
    counts = []
    for lives in (range(60), range(60, 120), range(120, 180)):
        for number in lives:
            for call in daemon.send_together(*life(number)):
                assert daemon.reply(call).code == Code.OK
        daemon.serves("CreateContainer", "CreateContainer")  # what it does behind its last answer is done by then
        daemon.log.clear()
        daemon.signal(signal.SIGHUP)
        counts.append(int(daemon.logged(" objects").split()[-2]))
    assert counts[2] <= counts[1] + 10, counts
