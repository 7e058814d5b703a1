from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import pytest
from google.protobuf.message import Message

from adapter.errors import CallError
from adapter.nri import api, events
from adapter.runtime import Flavour, Plugin, Runtime
from adapter.wire import Code

from .fixtures import CONTAINER, CREATE, POD, POLICIES, START, Plugins

DEDICATED, STATE_CHANGE = "v0.12.3", "v0.11.0"

# A plugin that wants what {events} says and answers everything with an empty message.
WILLING = """
raw.run(lambda plugin, request:
    api.ConfigureResponse(events={events}).SerializeToString() if request.method == "Configure" else b"")
"""


def request_of(method: str) -> Message:
    request = events.CALLS[method].request()
    for name, value in (("pod", POD), ("container", CONTAINER)):
        if name in request.DESCRIPTOR.fields_by_name:
            getattr(request, name).CopyFrom(value)
    return request


def gone(plugin: Plugin) -> bool:
    assert plugin.process is not None
    return plugin.process.exit_status == -signal.SIGKILL


EVENTS = [call.method for call in events.BY_EVENT.values() if call.method != "ValidateContainerAdjustment"]


@pytest.mark.parametrize("nri", [DEDICATED, STATE_CHANGE])
def test_a_plugin_gets_the_events_it_asked_for_and_no_others(plugins: Plugins, nri: str) -> None:
    mask = events.mask(["StartContainer", "StopPodSandbox", "UpdateContainer"])
    runtime, _ = plugins.launch("00-p", WILLING.format(events=mask), Flavour(nri=nri))
    asked = {method for method in EVENTS if runtime.event(method, request_of(method)).answers}
    assert asked == {"StartContainer", "StopPodSandbox", "UpdateContainer"}


def test_the_newer_generation_has_a_call_for_each_event(plugins: Plugins) -> None:
    runtime, _ = plugins.launch("00-p", WILLING.format(events=0), Flavour(nri=DEDICATED))
    for method in EVENTS:
        assert runtime.event(method, request_of(method)).error == ""
    at_create = EVENTS.index("CreateContainer") + 1
    expected = [*EVENTS[:at_create], "ValidateContainerAdjustment", *EVENTS[at_create:]]
    assert plugins.calls("00-p") == ["Configure", "Synchronize", *expected]


OWN_CALL_EVER_SINCE = {"CreateContainer", "UpdateContainer", "StopContainer", "UpdatePodSandbox"}


def test_the_older_generation_sends_most_events_as_state_changes(plugins: Plugins) -> None:
    mask = 0x1FFF  # without Validate, which comes uncalled for
    runtime, plugin = plugins.launch("00-p", WILLING.format(events=mask), Flavour(nri=STATE_CHANGE))
    assert plugin.state_change
    for method in EVENTS:
        assert runtime.event(method, request_of(method)).error == ""
    expected = [method if method in OWN_CALL_EVER_SINCE else "StateChange" for method in EVENTS]
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
    runtime, _ = plugins.launch("00-p", source, Flavour(nri=nri))
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
    runtime, plugin = plugins.launch("00-old", OLD, Flavour(nri=DEDICATED))
    for method in ("RunPodSandbox", "StartContainer", "RemoveContainer"):
        assert runtime.event(method, request_of(method)).error == ""
    assert plugin.state_change
    assert plugins.calls("00-old")[2:] == ["RunPodSandbox", "StateChange", "StateChange", "StateChange"]
    assert (plugins.path / "00-old.changes").read_text() == "1 pod \n6 pod ctr\n11 pod ctr\n"


def test_unimplemented_is_an_ordinary_error_of_a_call_that_always_was(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-old", OLD, Flavour(nri=DEDICATED))
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


@pytest.mark.parametrize(
    ("method", "failed"),
    [
        ("RunPodSandbox", True),
        ("CreateContainer", True),
        ("PostCreateContainer", False),
        ("StartContainer", True),
        ("PostStartContainer", False),
        ("UpdateContainer", True),
        ("StopContainer", False),
        ("StopPodSandbox", False),
        ("RemovePodSandbox", False),
    ],
)
def test_an_error_fails_what_it_fails_on_containerd_and_ends_the_event(
    plugins: Plugins, method: str, failed: bool
) -> None:
    plugins.write("00-fails", FAILS.format(code=int(Code.UNKNOWN)))
    plugins.write("01-later", WILLING.format(events=0))
    runtime = plugins.runtime()
    runtime.start()
    outcome = runtime.event(method, request_of(method))
    assert (outcome.error, outcome.failed) == ("refused", failed)
    assert [answer.plugin for answer in outcome.answers] == ["00-fails"]
    assert [plugin.name for plugin in runtime.plugins] == ["00-fails", "01-later"], "an error is no reason to drop"


def test_a_plugins_own_deadline_exceeded_is_an_ordinary_error(plugins: Plugins) -> None:
    runtime, _ = plugins.launch("00-p", FAILS.format(code=int(Code.DEADLINE_EXCEEDED)))
    assert runtime.event("StartContainer", START).failed
    assert runtime.dropped == []


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


STUCK = """
def answer(plugin, request):
    if request.method == "Configure":
        policy = api.FailurePolicy(fail_request={fail}, keep_connected={keep})
        return api.ConfigureResponse(events=0x7ff, failure_policy=policy).SerializeToString()
    if request.method == "StartContainer":
        plugin.withheld = request.stream_id
        return None
    if request.method == "CreateContainer":
        plugin.respond(plugin.withheld, b"\\x0a\\x00")
        plugin.call("UpdateContainers", b"")  # by now, the runtime has seen the late answer
        return api.CreateContainerResponse(update=[api.ContainerUpdate(container_id="current")]).SerializeToString()
    return b""
raw.run(answer)
"""


class Stuck(NamedTuple):
    """A runtime with a plugin that answers StartContainer when CreateContainer comes, and another one behind it."""

    runtime: Runtime
    late: Plugin


@pytest.fixture
def stuck(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bool, bool], Stuck]:
    return partial(_stuck, plugins, monkeypatch)


def _stuck(plugins: Plugins, monkeypatch: pytest.MonkeyPatch, nri: str, fail: bool, keep: bool) -> Stuck:
    plugins.write("00-stuck", STUCK.format(fail=fail, keep=keep))
    plugins.write("01-later", WILLING.format(events=0x7FF))
    runtime = plugins.runtime(Flavour(nri=nri, request_timeout=30))
    runtime.start()
    late = runtime.plugins[0]
    relay = late.relay
    # Only this one gets little time, and only for what it does not answer anyhow: a slow machine changes nothing.
    monkeypatch.setattr(
        late, "relay", lambda call, request, all_of_it: relay(call, request, 0.05 if request == START else all_of_it)
    )
    return Stuck(runtime, late)


@pytest.mark.parametrize(("nri", "fail", "keep"), [(POLICIES, False, False), (DEDICATED, True, True)])
def test_a_late_plugin_without_a_policy_is_dropped_and_killed_and_the_event_goes_on(
    stuck: Callable[[str, bool, bool], Stuck], nri: str, fail: bool, keep: bool
) -> None:
    runtime, late = stuck(nri, fail, keep)
    outcome = runtime.event("StartContainer", START)
    assert outcome.error == ""
    assert [(answer.plugin, answer.reply is None) for answer in outcome.answers] == [
        ("00-stuck", True),
        ("01-later", False),
    ]
    assert outcome.answers[0].error == "plugin 00-stuck failed to handle StartContainer request: no answer in 0.05 s"
    assert runtime.dropped == [late]
    assert gone(late)
    assert [answer.plugin for answer in runtime.event("StartContainer", START).answers] == ["01-later"]


def test_with_fail_request_a_late_plugin_fails_the_event_and_is_dropped(
    stuck: Callable[[str, bool, bool], Stuck],
) -> None:
    runtime, late = stuck(POLICIES, True, False)
    outcome = runtime.event("StartContainer", START)
    assert outcome.failed
    assert "00-stuck failed to handle StartContainer request" in outcome.error
    assert [answer.plugin for answer in outcome.answers] == ["00-stuck"]
    assert gone(late)


@pytest.mark.parametrize("fail", [False, True])
def test_with_keep_connected_a_late_plugin_stays_and_its_late_answer_is_ignored(
    stuck: Callable[[str, bool, bool], Stuck], fail: bool
) -> None:
    runtime, late = stuck(POLICIES, fail, True)
    assert runtime.event("StartContainer", START).failed is fail
    assert runtime.dropped == []
    outcome = runtime.event("CreateContainer", CREATE)
    assert outcome.updates == [("00-stuck", api.ContainerUpdate(container_id="current"))]
    assert late.closed == ""


DIES = """
def answer(plugin, request):
    if request.method == "Configure":
        policy = api.FailurePolicy(fail_request={fail}, keep_connected=True)
        return api.ConfigureResponse(failure_policy=policy).SerializeToString()
    if request.method == "StartContainer":
        os._exit(7)
    return b""
raw.run(answer)
"""


@pytest.mark.parametrize("fail", [False, True])
def test_a_plugin_that_dies_in_an_event_is_dropped_at_once_whatever_its_policy(plugins: Plugins, fail: bool) -> None:
    plugins.write("00-dies", DIES.format(fail=fail))
    plugins.write("01-later", WILLING.format(events=0))
    runtime = plugins.runtime(Flavour(nri=POLICIES, request_timeout=3600))
    runtime.start()
    outcome = runtime.event("StartContainer", START)
    assert outcome.failed is fail
    assert "connection closed by the plugin" in outcome.answers[0].error
    (dead,) = runtime.dropped
    assert dead.process is not None
    assert dead.process.exit_status == 7
    assert [answer.plugin for answer in runtime.event("StartContainer", START).answers] == ["01-later"]


def test_a_plugin_that_died_between_events_fails_none_of_them(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-dies", DIES.format(fail=True), Flavour(nri=POLICIES))
    assert plugin.process is not None
    os.kill(plugin.process.pid, signal.SIGTERM)
    os.waitid(os.P_PID, plugin.process.pid, os.WEXITED | os.WNOWAIT)
    outcome = runtime.event("StartContainer", START)
    assert (outcome.answers, outcome.error) == ([], "")
    assert runtime.dropped == [plugin]


def test_a_plugin_that_breaks_the_protocol_is_dropped(plugins: Plugins) -> None:
    source = """
    def answer(plugin, request):
        if request.method == "StartContainer":
            plugin.send(b"\\0\\0\\0\\1\\xff\\xff\\xff\\xff")
        return b""
    raw.run(answer)
    """
    runtime, plugin = plugins.launch("00-p", source)
    assert "a frame of 4294967295 bytes" in runtime.event("StartContainer", START).answers[0].error
    assert gone(plugin)


# Answers with the ids of the updates that the runtime says have failed.
UPDATES = """
def answer(plugin, request):
    if request.method != "CreateContainer":
        return b""
    wanted = api.UpdateContainersRequest(update=[api.ContainerUpdate(container_id=id) for id in ("a", "b")])
    reply = plugin.call("UpdateContainers", wanted.SerializeToString())
    failed = api.UpdateContainersResponse.FromString(reply.payload).failed
    return api.CreateContainerResponse(update=failed).SerializeToString()
raw.run(answer)
"""


def test_a_plugin_is_served_while_it_handles_an_event(plugins: Plugins) -> None:
    seen = []

    def on_update(plugin: str, updates: list[api.ContainerUpdate]) -> Iterable[api.ContainerUpdate]:
        seen.append((plugin, [update.container_id for update in updates]))
        return updates[1:]

    runtime = plugins.runtime(on_update=on_update)
    runtime.launch(plugins.write("00-p", UPDATES))
    outcome = runtime.event("CreateContainer", CREATE)
    assert seen == [("00-p", ["a", "b"])]
    assert [update.container_id for _, update in outcome.updates] == ["b"]


def test_updates_can_fail_as_a_whole(plugins: Plugins) -> None:
    def on_update(plugin: str, updates: list[api.ContainerUpdate]) -> Iterable[api.ContainerUpdate]:
        raise CallError(Code.UNKNOWN, "not today")

    source = """
    def answer(plugin, request):
        if request.method in ("Configure", "Synchronize"):
            return b""
        raise CallError(2, plugin.call("UpdateContainers", b"").message)
    raw.run(answer)
    """
    runtime = plugins.runtime(on_update=on_update)
    runtime.launch(plugins.write("00-p", source))
    assert runtime.event("StartContainer", START).error == "not today"


@pytest.mark.parametrize(
    ("method", "payload", "error"),
    [("Nonsense", b"", "no method .*/Nonsense"), ("UpdateContainers", b"\xff", "undecodable UpdateContainers")],
)
def test_what_a_plugin_may_not_call_is_an_error_to_it(
    plugins: Plugins, method: str, payload: bytes, error: str
) -> None:
    source = f"""
    def answer(plugin, request):
        if request.method in ("Configure", "Synchronize"):
            return b""
        raise CallError(2, plugin.call({method!r}, {payload!r}).message)
    raw.run(answer)
    """
    runtime, _ = plugins.launch("00-p", source)
    assert re.search(error, runtime.event("StartContainer", START).error)


def test_a_plugin_is_served_between_events(plugins: Plugins) -> None:
    source = """
    def answer(plugin, request):
        if request.method == "Synchronize":
            wanted = api.UpdateContainersRequest(update=[api.ContainerUpdate(container_id="later")])
            plugin._connection.call(events.RUNTIME, "UpdateContainers", wanted.SerializeToString())
        return b""
    raw.run(answer)
    """
    runtime, _ = plugins.launch("00-p", source)
    assert runtime.serve(lambda: bool(runtime.updates), 30)
    assert runtime.updates == [("00-p", api.ContainerUpdate(container_id="later"))]
    assert not runtime.serve(lambda: False, 0.01)


def test_events_wait_for_one_another(plugins: Plugins) -> None:
    order: list[str] = []

    def on_update(plugin: str, updates: list[api.ContainerUpdate]) -> Iterable[api.ContainerUpdate]:
        other.start()
        other.join(0.1)  # time to overtake, if it could
        order.append("first")
        return ()

    def second() -> None:
        runtime.event("StartContainer", START)
        order.append("second")

    other = threading.Thread(target=second)
    runtime = plugins.runtime(on_update=on_update)
    runtime.launch(plugins.write("00-p", UPDATES))
    assert runtime.event("CreateContainer", CREATE).error == ""
    other.join()
    assert order == ["first", "second"]


# Sets an annotation of its own and another one's, and says which variables it sees.
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
        reason = f"{{seen}} {{owner}} {{list(request.container.env)}}"
        return api.ValidateContainerAdjustmentResponse(reject={reject}, reason=reason)
run(Judge())
"""


def test_what_plugins_want_of_a_container_is_merged_and_each_sees_what_the_earlier_ones_did(plugins: Plugins) -> None:
    for name, key in (("10-a", "a"), ("20-b", "b")):
        plugins.write(name, ADJUSTS.format(name=name, key=key))
    runtime = plugins.runtime()
    runtime.start()
    outcome = runtime.event("CreateContainer", CREATE)
    assert outcome.adjust is not None
    assert dict(outcome.adjust.annotations) == {"a": "", "b": "a=10-a"}
    assert [(variable.key, variable.value) for variable in outcome.adjust.env] == [("a", "10-a"), ("b", "20-b")]
    assert [update.container_id for update in outcome.update] == ["10-a", "20-b"]
    assert {plugin: list(adjust.annotations) for plugin, adjust in outcome.adjustments.items()} == {
        "10-a": ["a"],
        "20-b": ["b"],
    }


def test_plugins_that_set_the_same_fail_the_creation_and_stay(plugins: Plugins) -> None:
    for name in ("10-a", "20-b", "30-c"):
        plugins.write(name, ADJUSTS.format(name=name, key="by"))
    runtime = plugins.runtime()
    runtime.start()
    outcome = runtime.event("CreateContainer", CREATE)
    assert outcome.failed
    assert outcome.error == 'plugins "20-b" and "10-a" both tried to set Annotations by'
    assert outcome.adjust is None
    assert [answer.plugin for answer in outcome.answers] == ["10-a", "20-b"], "nobody is asked any more"
    assert len(runtime.plugins) == 3


def test_plugins_change_what_an_update_asks_for(plugins: Plugins) -> None:
    source = """
    class Mine(Plugin):
        def update_container(self, request, context):
            response = api.UpdateContainerResponse()
            update = response.update.add(container_id=request.container.id)
            setattr(update.linux.resources.cpu, {field!r}, {field!r} + request.linux_resources.cpu.cpus)
            return response
    run(Mine())
    """
    plugins.write("10-a", source.format(field="cpus"))
    plugins.write("20-b", source.format(field="mems"))
    runtime = plugins.runtime()
    runtime.start()
    request = api.UpdateContainerRequest(container=CONTAINER)
    request.linux_resources.cpu.cpus = "0"
    (update,) = runtime.event("UpdateContainer", request).update
    assert (update.container_id, update.linux.resources.cpu.cpus) == ("ctr", "cpus0")
    assert update.linux.resources.cpu.mems == "memscpus0"
    assert request.linux_resources.cpu.cpus == "0", "whoever asked keeps the request"


@pytest.mark.parametrize("reject", [False, True])
def test_a_validator_judges_what_the_others_want(plugins: Plugins, reject: bool) -> None:
    plugins.write("10-a", ADJUSTS.format(name="10-a", key="by"))
    plugins.write("20-judge", VALIDATES.format(reject=reject))
    runtime = plugins.runtime()
    runtime.start()
    outcome = runtime.event("CreateContainer", CREATE)
    assert outcome.failed is reject
    if reject:
        seen = "(['10a', '20judge'], {'by': ''}, 1) 10-a []"
        assert outcome.error == f"validator 20-judge rejected container adjustment, reason: {seen}"


def test_a_validator_that_fails_fails_the_creation(plugins: Plugins) -> None:
    source = VALIDATES.format(reject=False).replace("seen = ", "raise RuntimeError('confused')\n        seen = ")
    runtime, _ = plugins.launch("00-judge", source)
    assert runtime.event("CreateContainer", CREATE).error == "validator plugin 00-judge failed: confused"
