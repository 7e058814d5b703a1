"""Events under the embedded runtime: who gets which, whose errors count, what becomes of the answers."""

from __future__ import annotations

import os
import re
import signal

import pytest
from google.protobuf.message import Message

from adapter.nri import api, events
from adapter.runtime.merge import Merge
from adapter.wire import Code

from .fixtures import CONTAINER, CREATE, POD, START, WILLING, Plugins, dropped, gone, patient, serves

DEDICATED, STATE_CHANGE = "v0.12.3", "v0.11.0"
"""Versions of NRI with a call for each event, and with StateChange."""
EVENTS = [call.method for call in events.BY_EVENT.values() if call.method != "ValidateContainerAdjustment"]
OWN_CALL_EVER_SINCE = {"CreateContainer", "UpdateContainer", "StopContainer", "UpdatePodSandbox"}

OLD = """
def answer(plugin, request):
    if request.method == "StateChange":
        change = api.StateChangeEvent.FromString(request.payload)
        with open(sys.argv[0] + ".changes", "a") as changes:
            print(change.event, change.pod.id, change.container.id, file=changes)
    elif request.method not in ("Configure", "Synchronize"):
        raise CallError(12, "never heard of it")
    return b""
raw.run(answer)
"""


def request_of(method: str) -> Message:
    request = events.CALLS[method].request()
    for name, value in (("pod", POD), ("container", CONTAINER)):
        if name in request.DESCRIPTOR.fields_by_name:
            getattr(request, name).CopyFrom(value)
    return request


# ---- who gets which


@pytest.mark.parametrize("nri", [DEDICATED, STATE_CHANGE])
def test_a_plugin_gets_the_events_it_asked_for_in_either_generation(plugins: Plugins, nri: str) -> None:
    asked = ["StartContainer", "StopPodSandbox", "UpdateContainer"]
    runtime, _ = plugins.launch("00-p", WILLING.format(events=events.mask(asked)), patient(nri=nri))
    assert {method for method in EVENTS if runtime.event(method, request_of(method)).answers} == {*asked}
    runtime, plugin = plugins.launch("01-all", WILLING.format(events=events.mask(EVENTS)), patient(nri=nri))
    assert plugin.state_change is (nri == STATE_CHANGE)
    assert not [method for method in EVENTS if runtime.event(method, request_of(method)).error]
    own_calls = {*EVENTS} if nri == DEDICATED else OWN_CALL_EVER_SINCE
    calls = [method if method in own_calls else "StateChange" for method in EVENTS]
    assert plugins.calls("01-all") == ["Configure", "Synchronize", *calls]


def test_a_plugin_that_turns_out_to_be_old_gets_state_changes_from_then_on(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-old", OLD)
    assert runtime.event("CreateContainer", CREATE).error == "never heard of it", "it always was a call of its own"
    assert not plugin.state_change
    for method in ("RunPodSandbox", "StartContainer", "RemoveContainer"):
        assert runtime.event(method, request_of(method)).error == ""
    assert plugin.state_change
    assert plugins.calls("00-old")[3:] == ["RunPodSandbox", "StateChange", "StateChange", "StateChange"]
    assert (plugins.path / "00-old.changes").read_text() == "1 pod \n6 pod ctr\n11 pod ctr\n"


@pytest.mark.parametrize("code", [Code.UNKNOWN, Code.DEADLINE_EXCEEDED])
def test_an_error_ends_any_event_and_is_no_reason_to_drop(plugins: Plugins, code: Code) -> None:
    plugins.write("00-fails", serves(f"raise CallError({code:d}, 'refused')", *EVENTS))
    plugins.write("01-later", WILLING.format(events=0))
    runtime = plugins.start()
    for method in EVENTS:
        outcome = runtime.event(method, request_of(method))
        assert (outcome.error, [answer.plugin for answer in outcome.answers]) == ("refused", ["00-fails"])
    assert [plugin.name for plugin in runtime.plugins] == ["00-fails", "01-later"]


def test_an_event_beyond_four_mebibytes_fails_and_leaves_the_plugin_alone(plugins: Plugins) -> None:
    runtime, _ = plugins.launch("00-p", WILLING.format(events=0))
    large = api.StartContainerRequest(pod=api.PodSandbox(annotations={"x": "x" * (4 << 20)}))
    assert "at most 4194304" in runtime.event("StartContainer", large).error
    assert runtime.event("StartContainer", START).error == ""


def test_only_events_with_their_own_requests_are_sent(plugins: Plugins) -> None:
    for method, request in (("StartContainer", CREATE), ("Configure", api.ConfigureRequest())):
        with pytest.raises(TypeError):
            plugins.runtime().event(method, request)


# ---- plugins that are late, die, or break the protocol


def test_a_late_plugin_is_dropped_and_killed_and_the_event_goes_on(plugins: Plugins) -> None:
    runtime, late = plugins.launch("00-stuck", serves("return None"))
    outcome = runtime.event("StartContainer", START, timeout=0.05)  # no answer comes, however long the runtime waits
    (answer,) = outcome.answers
    assert (outcome.error, answer.reply) == ("", None)
    assert answer.error == "plugin 00-stuck failed to handle StartContainer request: no answer in 0.05 s"
    assert dropped(runtime) == [late]
    assert gone(late)


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("os._exit(7)", "connection closed by the plugin"),
        (r'plugin.trunk.send(b"\0\0\0\1\xff\xff\xff\xff")', "a frame of 4294967295 bytes"),
    ],
)
def test_a_plugin_that_dies_or_breaks_the_protocol_is_dropped_at_once(plugins: Plugins, does: str, reason: str) -> None:
    plugins.write("00-bad", serves(does))
    plugins.write("01-later", WILLING.format(events=0))
    runtime = plugins.start()
    outcome = runtime.event("StartContainer", START)
    assert outcome.error == ""
    assert reason in outcome.answers[0].error
    (bad,) = dropped(runtime)
    assert gone(bad)
    assert [answer.plugin for answer in runtime.event("StartContainer", START).answers] == ["01-later"]


def test_a_plugin_that_died_between_events_fails_none_of_them_and_holds_nobody_up(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-dies", serves("pass"))
    other = runtime.launch(plugins.file(plugins.write("01-dies", serves("pass"))))
    assert plugin.process
    assert other.process
    os.kill(plugin.process.pid, signal.SIGTERM)
    os.waitid(os.P_PID, plugin.process.pid, os.WEXITED | os.WNOWAIT)
    outcome = runtime.event("StartContainer", START)
    assert ([answer.plugin for answer in outcome.answers], outcome.error) == (["01-dies"], "")
    assert dropped(runtime) == [plugin]
    os.kill(other.process.pid, signal.SIGKILL)
    assert runtime.serve(lambda: bool(other.closed), 60)
    assert not runtime.serve(lambda: False, 0.01)


def test_an_undecodable_answer_fails_its_event_and_the_plugin_stays(plugins: Plugins) -> None:
    methods = ("StartContainer", "CreateContainer")
    runtime, plugin = plugins.launch("00-p", serves(r'return b"\xff"', *methods))
    for method in methods:
        assert f"undecodable {method}Response" in runtime.event(method, request_of(method)).error
    assert runtime.plugins == [plugin]


# ---- what plugins call


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ('*wanted("a", "b")', "^$"),
        ('"Nonsense", b""', "no method .*/Nonsense"),
        (r'"UpdateContainers", b"\xff"', "undecodable UpdateContainers"),
    ],
)
def test_a_plugin_is_served_while_it_handles_an_event(plugins: Plugins, call: str, error: str) -> None:
    runtime, _ = plugins.launch("00-p", serves(f"raise CallError(2, plugin.call({call}).message)"))
    assert re.search(error, runtime.event("StartContainer", START).error)
    if error == "^$":
        assert runtime.updates == [("00-p", [api.ContainerUpdate(container_id=one) for one in "ab"])]


def test_a_plugin_is_served_between_events_and_while_nothing_happens(plugins: Plugins) -> None:
    """It asks at Synchronize, and once the test says so: the runtime has nothing else to do then."""
    gate = plugins.path.parent / "gate"
    os.mkfifo(gate)
    later = f"""
        plugin.answer(request.stream_id)
        open({str(gate)!r}).read()
        plugin.ask(*wanted("later"))
        return None
    if request.method == "Synchronize":
        plugin.ask(*wanted("early"))"""
    runtime, _ = plugins.launch("00-p", serves(later))
    assert runtime.serve(lambda: bool(runtime.updates), 60)
    assert runtime.event("StartContainer", START).error == ""
    gate.write_text("go")
    assert runtime.serve(lambda: len(runtime.updates) == 2, 60)
    assert runtime.updates == [("00-p", [api.ContainerUpdate(container_id=one)]) for one in ("early", "later")]


def test_the_request_itself_stays_as_it_is() -> None:
    request = api.CreateContainerRequest(container=api.Container(id="ctr", annotations={"k": "own"}))
    merge = Merge(request)
    merge.apply("00-a", api.CreateContainerResponse(adjust=api.ContainerAdjustment(annotations={"k": "v"})))
    assert merge.request.container.annotations == {"k": "v"}
    assert request.container.annotations == {"k": "own"}


def test_evictions_and_answers_to_other_events_come_to_nothing() -> None:
    merge = Merge(api.StopContainerRequest(container=CONTAINER))
    merge.apply("00-a", api.UpdateContainerResponse(evict=[api.ContainerEviction(container_id="x")]))
    assert merge.update == []
    merge = Merge(api.StartContainerRequest())
    merge.apply("00-a", api.StartContainerResponse())
    assert (merge.adjust, merge.update) == (None, [])


# ---- through the runtime

# Sets an annotation and a variable of a name, says in the annotation which variables it sees, and asks for an update.
ADJUSTS = """
class Mine(Plugin):
    def create_container(self, request, context):
        adjust = api.ContainerAdjustment(annotations={{{key!r}: " ".join(request.container.env)}})
        adjust.env.add(key={key!r}, value={name!r})
        return api.CreateContainerResponse(adjust=adjust, update=[api.ContainerUpdate(container_id={name!r})])
run(Mine())
"""
VALIDATES = """
class Judge(Plugin):
    def configure(self, request, context):
        return api.ConfigureResponse(events=events.mask(["ValidateContainerAdjustment"]))
    def validate_container_adjustment(self, request, context):
        seen = [one.index + one.name for one in request.plugins], dict(request.adjust.annotations), len(request.update)
        owner = request.owners.owners["ctr"].compound[api.Annotations].owners["by"]
        {verdict}
run(Judge())
"""
SEEN = "(['10a', '20judge'], {'by': ''}, 1) 10-a"
RETURNS = 'return api.ValidateContainerAdjustmentResponse(reject={}, reason=f"{{seen}} {{owner}}")'


def test_what_plugins_want_of_a_container_is_merged_and_each_sees_what_the_earlier_ones_did(plugins: Plugins) -> None:
    for name, key in (("10-a", "a"), ("20-b", "b")):
        plugins.write(name, ADJUSTS.format(name=name, key=key))
    outcome = plugins.start().event("CreateContainer", CREATE)
    assert outcome.adjust is not None
    assert outcome.adjust.annotations == {"a": "", "b": "a=10-a"}
    assert [(variable.key, variable.value) for variable in outcome.adjust.env] == [("a", "10-a"), ("b", "20-b")]
    assert [update.container_id for update in outcome.update] == ["10-a", "20-b"]


VERDICTS = [
    (RETURNS.format(False), ""),
    (RETURNS.format(True), "validator 20-judge rejected container adjustment, reason: " + SEEN),
    ('raise RuntimeError("confused")', "validator plugin 20-judge failed: confused"),
]


@pytest.mark.parametrize(("verdict", "error"), VERDICTS)
def test_a_validator_judges_what_the_others_want(plugins: Plugins, verdict: str, error: str) -> None:
    plugins.write("10-a", ADJUSTS.format(name="10-a", key="by"))
    plugins.write("20-judge", VALIDATES.format(verdict=verdict))
    assert plugins.start().event("CreateContainer", CREATE).error == error
