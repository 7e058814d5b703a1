"""Events under the embedded runtime: which plugins get which, in which generation, and whose errors count."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from adapter.nri import api, events
from adapter.wire import Code

from .fixtures import CONTAINER, CREATE, DEDICATED, POD, START, STATE_CHANGE, WILLING, Plugins, dropped, patient


def request_of(method: str) -> Message:
    request = events.CALLS[method].request()
    for name, value in (("pod", POD), ("container", CONTAINER)):
        if name in request.DESCRIPTOR.fields_by_name:
            getattr(request, name).CopyFrom(value)
    return request


EVENTS = [call.method for call in events.BY_EVENT.values() if call.method != "ValidateContainerAdjustment"]
OWN_CALL_EVER_SINCE = {"CreateContainer", "UpdateContainer", "StopContainer", "UpdatePodSandbox"}


@pytest.mark.parametrize("nri", [DEDICATED, STATE_CHANGE])
def test_a_plugin_gets_the_events_it_asked_for_and_no_others(plugins: Plugins, nri: str) -> None:
    asked = ["StartContainer", "StopPodSandbox", "UpdateContainer"]
    runtime, _ = plugins.launch("00-p", WILLING.format(events=events.mask(asked)), patient(nri=nri))
    assert {method for method in EVENTS if runtime.event(method, request_of(method)).answers} == {*asked}


@pytest.mark.parametrize("nri", [DEDICATED, STATE_CHANGE])
def test_the_newer_generation_has_a_call_for_each_event_and_the_older_one_sends_most_as_state_changes(
    plugins: Plugins, nri: str
) -> None:
    expected = [*EVENTS]
    if nri == DEDICATED:
        expected.insert(EVENTS.index("CreateContainer") + 1, "ValidateContainerAdjustment")  # which comes uncalled for
    else:
        expected = [method if method in OWN_CALL_EVER_SINCE else "StateChange" for method in EVENTS]
    mask = 0 if nri == DEDICATED else 0x1FFF
    runtime, plugin = plugins.launch("00-p", WILLING.format(events=mask), patient(nri=nri))
    assert plugin.state_change is (nri == STATE_CHANGE)
    assert [runtime.event(method, request_of(method)).error for method in EVENTS] == [""] * len(EVENTS)
    assert plugins.calls("00-p") == ["Configure", "Synchronize", *expected]


@pytest.mark.parametrize("nri", [DEDICATED, STATE_CHANGE])
def test_both_generations_tell_a_stub_the_same(plugins: Plugins, nri: str) -> None:
    source = """
    class Mine(Plugin):
        def start_container(self, request, context):
            raise RuntimeError(f"{context.method} {request.pod.id} {request.container.id}")
        def stop_pod_sandbox(self, request, context):
            raise RuntimeError(f"{context.method} {request.pod.id}")
    run(Mine())
    """
    runtime, _ = plugins.launch("00-p", source, patient(nri=nri))
    assert runtime.event("StartContainer", START).error == "StartContainer pod ctr"
    assert runtime.event("StopPodSandbox", request_of("StopPodSandbox")).error == "StopPodSandbox pod"


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


def test_a_plugin_that_turns_out_to_be_old_gets_state_changes_from_then_on(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-old", OLD, patient(nri=DEDICATED))
    for method in ("RunPodSandbox", "StartContainer", "RemoveContainer"):
        assert runtime.event(method, request_of(method)).error == ""
    assert plugin.state_change
    assert plugins.calls("00-old")[2:] == ["RunPodSandbox", "StateChange", "StateChange", "StateChange"]
    assert (plugins.path / "00-old.changes").read_text() == "1 pod \n6 pod ctr\n11 pod ctr\n"


def test_unimplemented_is_an_ordinary_error_of_a_call_that_always_was(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-old", OLD, patient(nri=DEDICATED))
    outcome = runtime.event("CreateContainer", CREATE)
    assert outcome.error == "never heard of it"
    assert not plugin.state_change


FAILS = """
def answer(plugin, request):
    if request.method in ("Configure", "Synchronize"):
        return b""
    raise CallError({code}, "refused")
raw.run(answer)
"""


def test_an_error_ends_any_event_and_is_no_reason_to_drop(plugins: Plugins) -> None:
    plugins.write("00-fails", FAILS.format(code=int(Code.UNKNOWN)))
    plugins.write("01-later", WILLING.format(events=0))
    runtime = plugins.start()
    for method in EVENTS:
        outcome = runtime.event(method, request_of(method))
        assert (outcome.error, [answer.plugin for answer in outcome.answers]) == ("refused", ["00-fails"])
    assert [plugin.name for plugin in runtime.plugins] == ["00-fails", "01-later"]


def test_a_plugins_own_deadline_exceeded_is_an_ordinary_error(plugins: Plugins) -> None:
    runtime, _ = plugins.launch("00-p", FAILS.format(code=int(Code.DEADLINE_EXCEEDED)))
    assert runtime.event("StartContainer", START).error == "refused"
    assert dropped(runtime) == []


def test_an_event_beyond_four_mebibytes_fails_and_leaves_the_plugin_alone(plugins: Plugins) -> None:
    runtime, _ = plugins.launch("00-p", WILLING.format(events=0))
    large = api.StartContainerRequest(pod=api.PodSandbox(annotations={"x": "x" * (4 << 20)}))
    assert "at most 4194304" in runtime.event("StartContainer", large).error
    assert runtime.event("StartContainer", START).error == ""


def test_only_events_with_their_own_requests_are_sent(plugins: Plugins) -> None:
    runtime = plugins.runtime()
    with pytest.raises(TypeError):
        runtime.event("StartContainer", CREATE)
    with pytest.raises(TypeError):
        runtime.event("Configure", api.ConfigureRequest())
