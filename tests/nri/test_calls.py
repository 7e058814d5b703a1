"""A runtime's calls: the handshake, events of both generations; updates that no event has asked for."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from google.protobuf.message import Message

from nri import Context, Deferred, Plugin, api, runtimes, stub
from nri.events import RUNTIME
from nri.wire import Code

from ..rig.trunk import HANDLERS, NUMBERS, Runtime, plugin


def handlers(*methods: str) -> Plugin:
    return plugin(**{HANDLERS[method]: lambda request, context: None for method in methods})


def chooses(**fields: Any) -> Plugin:
    """A plugin that answers Configure itself."""
    return plugin(configure=lambda *_: api.ConfigureResponse(**fields), start_container=lambda *_: None)


# ---- the handshake

STEPS = ["Synchronize", "StartContainer", "Shutdown"]


@pytest.mark.parametrize("steps", [["register", "Configure", *STEPS], ["Configure", "register", *STEPS]])
def test_the_steps_of_the_handshake_take_any_time_in_either_order(steps: list[str]) -> None:
    """The answer and Configure travel on two connections: nothing says which comes first."""
    seen = []
    runtime = Runtime(plugin(start_container=lambda *_: None, shutdown=lambda: seen.append("shutdown")))
    for step in steps:
        runtime.clock.now += 3600
        if step == "register":
            runtime.stub.register()
        else:
            assert runtime.call(step).code == Code.OK
    assert (runtime.stub.synchronized, seen) == (True, ["shutdown"])
    (registration,) = runtime.requests
    assert (registration.service, registration.method, registration.timeout) == (RUNTIME, "RegisterPlugin", 5.0)
    who = api.RegisterPluginRequest(plugin_name="sample", plugin_idx="10", NRI_version=NEW)
    assert api.RegisterPluginRequest.FromString(registration.payload) == who
    runtime.answer(registration.stream_id)


def test_the_plugin_gets_configure_as_it_is_and_timeouts_that_it_does_not_tell_are_5_and_2_seconds() -> None:
    usual = 5.0, 2.0
    for told, timeouts in (((7000, 1), (7.0, 1e-3)), ((1, 7000), (1e-3, 7.0)), ((0, -1), usual), ((-1, 0), usual)):
        seen: list[api.ConfigureRequest] = []
        request = api.ConfigureRequest(config="x", registration_timeout=told[0], request_timeout=told[1])
        runtime = Runtime(plugin(configure=lambda request, context, seen=seen: seen.append(request)))
        runtime.configure(request)
        assert seen == [request]
        assert (runtime.stub.registration_timeout, runtime.stub.request_timeout) == timeouts


class Child(type(handlers("RunPodSandbox", "StopContainer"))):  # type: ignore[misc]
    def start_container(self, request: api.StartContainerRequest, context: Any) -> None:
        pass


NEW = "v0.12.5"
KNOWN_TO_ALL, KNOWN = 0x7FF, 0x3FFF
REMOVE_POD_SANDBOX = 1 << 2
"""In place of no bit, which would mean every event."""
# A plugin, the version that its runtime tells, and the events of its answer: of number N, the bit N - 1.
SUBSCRIPTIONS: list[tuple[Plugin, str, int]] = [
    *((handlers(method), NEW, 1 << (number - 1)) for method, number in NUMBERS.items()),
    (Child(), "", 1 << 0 | 1 << 5 | 1 << 9),
    (handlers(*HANDLERS), "", KNOWN_TO_ALL),
    *((handlers(*HANDLERS), version, KNOWN) for version in ("v0.12.0", NEW, "v1.0.0", "(devel)")),
    (chooses(events=0x7FFF_FFF1), "", 0x7F1),
    (chooses(events=0x7FFF_FFF1), NEW, 0x3FF1),
    (Plugin(), "", REMOVE_POD_SANDBOX),
    (Plugin(), NEW, REMOVE_POD_SANDBOX),
    (handlers("UpdatePodSandbox", "ValidateContainerAdjustment"), "", REMOVE_POD_SANDBOX),
    (chooses(events=1 << 20), NEW, REMOVE_POD_SANDBOX),
]


def test_a_plugin_subscribes_to_the_events_that_it_overrides_or_chooses_and_the_runtime_knows() -> None:
    for sample, version, events in SUBSCRIPTIONS:
        assert Runtime(sample).configure(api.ConfigureRequest(NRI_version=version)).events == events


def test_a_plugin_asks_to_be_kept_when_it_is_late_or_for_another_failure_policy() -> None:
    strict, neither = Plugin(), api.FailurePolicy()
    strict.failure_policy = api.FailurePolicy(fail_request=True)
    kept = api.FailurePolicy(keep_connected=True)
    chosen = chooses(failure_policy=neither)
    for sample, policy in ((Plugin(), kept), (strict, strict.failure_policy), (chosen, neither)):
        answer = Runtime(sample).configure()
        assert answer.HasField("failure_policy")
        assert answer.failure_policy == policy


SAID = [
    (("containerd", "2.4.2+unknown", "v0.12.3"), (0, 12, 3)),
    (("cri-o", "1.40.0", "v0.13.0-rc.1"), (0, 13, 0)),
    (("containerd", "v2.2.0", ""), (0, 11, 0)),
    (("containerd", "2.10.0", "(devel)"), (0, 11, 0)),
    (("containerd", "v2.1.5", ""), (0, 8, 0)),
    (("cri-o", "1.36.0", ""), (0, 11, 0)),
    (("cri-o", "1.35.9", ""), (0, 8, 0)),
    (("somebody", "9.9.9", ""), (0, 8, 0)),
]


def test_updates_may_be_asked_for_at_any_time_from_the_version_of_nri_on_that_cannot_deadlock() -> None:
    for version, refused in (((0, 12, 0), True), ((0, 12, 1), False), ((0, 12, 2), False)):
        assert bool(runtimes.Runtime("containerd", "2.4.0", version).refuses_updates) is refused, version
    text = "containerd 2.4.0 may deadlock over updates outside of an answer, as all before NRI 0.12.1"
    assert runtimes.Runtime("containerd", "2.4.0", (0, 12, 0)).refuses_updates == text
    docker = runtimes.Runtime("docker", "29.0.0", (0, 12, 1))
    assert docker.refuses_updates == "Docker takes no updates of containers"


def test_a_runtimes_nri_is_what_it_tells_or_what_is_known_of_it() -> None:
    for (name, version, nri), known in SAID:
        request = api.ConfigureRequest(runtime_name=name, runtime_version=version, NRI_version=nri)
        assert runtimes.of(request) == (name, version, known)
    docker = runtimes.of(api.ConfigureRequest(runtime_name="Docker", runtime_version="29.0.0"))
    assert (docker.name, docker.habits) == ("docker", runtimes.Runtime("docker").habits)
    assert docker.habits != runtimes.Runtime("other").habits == runtimes.Habits()


def state(*pods: str, more: bool = False) -> api.SynchronizeRequest:
    return api.SynchronizeRequest(pods=[api.PodSandbox(id=each) for each in pods], more=more)


def synchronizing(seen: list[api.SynchronizeRequest], *updates: api.ContainerUpdate) -> Runtime:
    """A runtime whose plugin notes the state of the node, and answers with updates."""

    def synchronize(request: api.SynchronizeRequest, context: object) -> api.SynchronizeResponse:
        seen.append(request)
        return api.SynchronizeResponse(update=updates)

    return Runtime(plugin(synchronize=synchronize))


def test_parts_of_the_state_are_acknowledged_and_the_whole_is_given_to_the_plugin_once() -> None:
    seen: list[api.SynchronizeRequest] = []
    update = api.ContainerUpdate(container_id="c1")
    runtime = synchronizing(seen, update)
    for part in (state("p1", "p2", more=True), state(more=True)):
        # A Go runtime drops a plugin that does not say `more` to a part, or has updates already.
        reply = runtime.call("Synchronize", part)
        answer = api.SynchronizeResponse.FromString(reply.payload)
        assert (reply.code, answer) == (Code.OK, api.SynchronizeResponse(more=True))
        assert (seen, runtime.stub.synchronized) == ([], False)
    for _ in range(2):  # a second Synchronize does not see the parts of the first
        reply = runtime.call("Synchronize", state("p3"))
        assert api.SynchronizeResponse.FromString(reply.payload) == api.SynchronizeResponse(update=[update])
    assert seen == [state("p1", "p2", "p3"), state("p3")]
    assert runtime.stub.synchronized


def test_parts_of_the_state_beyond_the_limit_are_an_error_and_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    part = state("x" * 400, more=True)
    monkeypatch.setattr(stub, "MAX_STATE", 2 * part.ByteSize())
    seen: list[api.SynchronizeRequest] = []
    runtime = synchronizing(seen)
    codes = [runtime.call("Synchronize", part).code for _ in range(3)]
    assert codes == [Code.OK, Code.OK, Code.RESOURCE_EXHAUSTED]
    assert (seen, runtime.stub.synchronized) == ([], False)
    for part in (state("p1", more=True), state("p2")):
        assert runtime.call("Synchronize", part).code == Code.OK
    assert seen == [state("p1", "p2")]


# ---- events

POD = api.PodSandbox(id="p1", name="web", labels={"app": "web"}, pid=42)
CONTAINER = api.Container(id="c1", pod_sandbox_id="p1", args=["sh"])
WITHOUT_CONTAINER = [method for method in HANDLERS if method.endswith("PodSandbox")]


def request(method: str) -> Message:
    """A request of a method's own type, about the pod and the container."""
    parts: dict[str, Message] = {"pod": POD} if method in WITHOUT_CONTAINER else {"pod": POD, "container": CONTAINER}
    made: Message = getattr(api, f"{method}Request")(**parts)
    return made


def recorder(seen: list[tuple[str, Any, str]]) -> Runtime:
    """A runtime whose plugin notes which handler got what, as which method."""

    def noting(handler: str, request: Any, context: Context) -> None:
        seen.append((handler, request, context.method))

    return Runtime(plugin(**{handler: partial(noting, handler) for handler in HANDLERS.values()}))


def test_an_event_reaches_its_handler_the_same_way_by_a_call_of_its_own_and_as_a_state_change() -> None:
    for method, handler in HANDLERS.items():
        seen: list[tuple[str, Any, str]] = []
        runtime = recorder(seen)
        change = api.StateChangeEvent(event=NUMBERS[method], pod=POD)  # type: ignore[arg-type]
        if method not in WITHOUT_CONTAINER:
            change.container.CopyFrom(CONTAINER)
        # containerd's exit notices may know a pod by its id only: what is left out the handler does not get.
        bare = api.StateChangeEvent(event=NUMBERS[method])  # type: ignore[arg-type]
        for reply in (
            runtime.call(method, request(method)),
            runtime.call("StateChange", change),
            runtime.call("StateChange", bare),
            Runtime().call(method, request(method)),  # no handler: UNIMPLEMENTED would mean state changes from then on
        ):
            assert (reply.code, reply.payload) == (Code.OK, b"")
        assert seen == [*[(handler, request(method), method)] * 2, (handler, type(request(method))(), method)]


def test_who_waits_for_the_answers_is_called_once_after_the_last_one() -> None:
    waiting: list[Deferred[None]] = []

    def start_container(*_: object) -> Deferred[None]:
        waiting.append(Deferred())
        return waiting[-1]

    runtime, told = Runtime(plugin(start_container=start_container)), list[str]()
    runtime.stub.when_answered(lambda: told.append("none came"))
    assert told == ["none came"]
    for _ in range(2):
        runtime.ask("StartContainer")
    runtime.stub.when_answered(lambda: told.append("all"))
    waiting[1].complete(None)
    assert told == ["none came"]
    waiting[0].complete(None)
    assert told == ["none came", "all"]


def test_a_state_change_of_an_unknown_event_is_let_pass() -> None:
    seen: list[tuple[str, Any, str]] = []
    for event in (0, 15, 16, 99):
        change = api.StateChangeEvent(event=event, pod=POD)  # type: ignore[arg-type]
        reply = recorder(seen).call("StateChange", change)
        assert (reply.code, reply.payload, seen) == (Code.OK, b"", [])


# ---- updates that no event has asked for

MIB = 1 << 20


def updates(*sizes: int) -> list[api.ContainerUpdate]:
    """Updates that are told apart by the beginnings of their ids and have about this many bytes each."""
    return [api.ContainerUpdate(container_id=f"{n}".ljust(size, "x")) for n, size in enumerate(sizes)]


def asked(runtime: Runtime) -> list[list[api.ContainerUpdate]]:
    """The updates of each call that the plugin has made."""
    assert {(each.service, each.method) for each in runtime.requests} <= {(RUNTIME, "UpdateContainers")}
    return [list(api.UpdateContainersRequest.FromString(each.payload).update) for each in runtime.requests]


def test_updates_go_out_in_as_many_calls_as_their_size_needs_in_their_order() -> None:
    for sizes in ([10, 4 * MIB - 200, 10], [4 * MIB - 200] * 3, [1000] * 9000, [3 * MIB, 1, 3 * MIB - 20, 1]):
        runtime = Runtime()
        runtime.stub.update_containers(updates(*sizes))
        calls = asked(runtime)
        assert [each for call in calls for each in call] == updates(*sizes)
        assert all(calls)
        assert 1 < len(calls) <= 2 + sum(sizes) * 2 // (3 * MIB)


def test_a_call_has_as_many_updates_as_just_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    two = api.UpdateContainersRequest(update=updates(9, 9)).ByteSize()
    for most, of_each_call in ((two, [2, 2]), (two - 1, [1] * 4)):
        monkeypatch.setattr(stub, "UPDATES_PER_CALL", most)
        runtime = Runtime()
        runtime.stub.update_containers(updates(*[9] * 4))
        assert [len(call) for call in asked(runtime)] == of_each_call


def test_an_answer_to_updates_that_cannot_be_read_is_an_error_as_a_refusal_is_and_nobody_has_to_hear_of_it() -> None:
    for payload, refusal, code, text in ((b"\xff", "", Code.INTERNAL, "undecodable Upd"), (b"", "no", 1, "no")):
        runtime, done = Runtime(), list[tuple[Any, Any]]()
        runtime.stub.update_containers(updates(9), lambda *answer, done=done: done.append(answer))
        runtime.stub.update_containers(updates(9))
        for request in runtime.requests:
            assert request.timeout == 2.0
            runtime.answer(request.stream_id, payload, refusal, code)
        [(failed, error)] = done
        assert (failed, error.code, error.message[:15]) == ([], code, text)
