"""How a plugin joins: registration, configuration, the state of the node; what is known of the runtime."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import pytest

from adapter.nri import Plugin, api, runtimes, stub
from adapter.nri.events import RUNTIME
from adapter.wire import Code

from .runtime import HANDLERS, NUMBERS, Runtime, plugin

OLD = ["", *HANDLERS][1:12]  # the events that every runtime knows
REMOVE_POD_SANDBOX = 1 << 2


def bits(*methods: str) -> int:
    return reduce(or_, (1 << (NUMBERS[method] - 1) for method in methods), 0)


def handlers(*methods: str) -> Plugin:
    return plugin(**{HANDLERS[method]: lambda request, context: None for method in methods})


def chooses(**fields: Any) -> Plugin:
    """A plugin that answers Configure itself."""
    return plugin(configure=lambda *_: api.ConfigureResponse(**fields), start_container=lambda *_: None)


# ---- registration


STEPS = ["register", "Configure", "Synchronize", "StartContainer", "Shutdown"]


@pytest.mark.parametrize("steps", [STEPS, ["Configure", "register", *STEPS[2:]]])
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
    assert (runtime.stub.registered, runtime.stub.synchronized, seen) == (False, True, ["shutdown"])
    (registration,) = runtime.requests
    assert (registration.service, registration.method, registration.timeout) == (RUNTIME, "RegisterPlugin", 5.0)
    runtime.answer(registration.stream_id)
    assert runtime.stub.registered


# ---- Configure


def test_the_plugin_gets_configure_as_it_is_and_timeouts_that_it_does_not_tell_are_5_and_2_seconds() -> None:
    for told, timeouts in (((7000, 3500), (7.0, 3.5)), ((0, 0), (5.0, 2.0)), ((0, -1), (5.0, 2.0))):
        seen: list[api.ConfigureRequest] = []
        request = api.ConfigureRequest(config="x", registration_timeout=told[0], request_timeout=told[1])
        runtime = Runtime(plugin(configure=lambda request, context, seen=seen: seen.append(request)))
        runtime.configure(request)
        assert seen == [request]
        assert (runtime.stub.registration_timeout, runtime.stub.request_timeout) == timeouts


def test_a_plugin_subscribes_to_the_events_it_overrides_inherited_ones_included() -> None:
    for method, number in NUMBERS.items():
        answer = Runtime(handlers(method)).configure(api.ConfigureRequest(NRI_version="v0.12.5"))
        assert answer.events == 1 << (number - 1)

    class Child(type(handlers("RunPodSandbox", "StopContainer"))):  # type: ignore[misc]
        def start_container(self, request: api.StartContainerRequest, context: Any) -> None:
            pass

    assert Runtime(Child()).configure().events == bits("RunPodSandbox", "StopContainer", "StartContainer")


def test_only_a_runtime_that_tells_its_nri_version_gets_bits_that_not_all_know() -> None:
    told = dict.fromkeys(("v0.12.0", "v0.12.5", "v1.0.0", "(devel)"), bits(*HANDLERS))
    for version, known in {"": bits(*OLD), **told}.items():
        request = api.ConfigureRequest(NRI_version=version)
        assert Runtime(handlers(*HANDLERS)).configure(request).events == known
        assert Runtime(chooses(events=0x7FFF_FFF1)).configure(request).events == 0x7FFF_FFF1 & known


def test_the_mask_is_never_0_which_would_mean_every_event() -> None:
    unknown = handlers("UpdatePodSandbox", "ValidateContainerAdjustment")
    for sample, version in ((Plugin(), ""), (Plugin(), "v0.12.5"), (unknown, ""), (chooses(events=1 << 20), "v0.12.5")):
        answer = Runtime(sample).configure(api.ConfigureRequest(NRI_version=version))
        assert answer.events == REMOVE_POD_SANDBOX


def test_a_plugin_asks_to_be_kept_when_it_is_late_or_for_another_failure_policy() -> None:
    class Strict(Plugin):
        failure_policy = api.FailurePolicy(fail_request=True, keep_connected=True)

    chosen = chooses(failure_policy=api.FailurePolicy())
    kept = api.FailurePolicy(keep_connected=True)
    for sample, policy in ((Plugin(), kept), (Strict(), Strict.failure_policy), (chosen, api.FailurePolicy())):
        answer = Runtime(sample).configure()
        assert answer.HasField("failure_policy")
        assert answer.failure_policy == policy


SAID = [
    (("containerd", "2.4.2+unknown", "v0.12.3"), (0, 12, 3)),
    (("containerd", "v2.3.4", "v0.12.0"), (0, 12, 0)),
    (("cri-o", "1.40.0", "v0.13.0-rc.1"), (0, 13, 0)),
    (("containerd", "v2.2.1", ""), (0, 11, 0)),
    (("containerd", "2.10.0", "(devel)"), (0, 11, 0)),
    (("containerd", "v2.1.5", ""), (0, 8, 0)),
    (("containerd", "1.7.35~ds1", ""), (0, 8, 0)),
    (("containerd", "", ""), (0, 8, 0)),
    (("cri-o", "1.34.0", ""), (0, 8, 0)),
    (("cri-o", "1.36.3", ""), (0, 11, 0)),
    (("somebody", "9.9.9", ""), (0, 8, 0)),
]


def test_a_runtimes_nri_is_what_it_tells_or_what_is_known_of_it() -> None:
    for (name, version, nri), known in SAID:
        request = api.ConfigureRequest(runtime_name=name, runtime_version=version, NRI_version=nri)
        assert runtimes.of(request) == (name, version, known)
    docker = runtimes.of(api.ConfigureRequest(runtime_name="Docker", runtime_version="29.0.0"))
    assert (docker.name, docker.habits) == ("docker", runtimes.Runtime("docker").habits)
    assert docker.habits != runtimes.Runtime("other").habits == runtimes.Habits()


# ---- Synchronize and Shutdown


def state(*pods: str, containers: tuple[str, ...] = (), more: bool = False) -> api.SynchronizeRequest:
    return api.SynchronizeRequest(
        pods=[api.PodSandbox(id=each) for each in pods],
        containers=[api.Container(id=each) for each in containers],
        more=more,
    )


def recorder(seen: list[api.SynchronizeRequest], *updates: api.ContainerUpdate) -> Plugin:
    def synchronize(request: api.SynchronizeRequest, context: object) -> api.SynchronizeResponse:
        seen.append(request)
        return api.SynchronizeResponse(update=updates)

    return plugin(synchronize=synchronize)


def test_parts_of_the_state_are_acknowledged_and_the_whole_is_given_to_the_plugin_once() -> None:
    seen: list[api.SynchronizeRequest] = []
    update = api.ContainerUpdate(container_id="c1")
    runtime = Runtime(recorder(seen, update))
    for part in (
        state("p1", "p2", containers=("c1",), more=True),
        state(containers=("c2", "c3"), more=True),
        state(more=True),
    ):
        # A Go runtime drops a plugin that does not say `more` to a part, or has updates already.
        reply = runtime.call("Synchronize", part)
        answer = api.SynchronizeResponse.FromString(reply.payload)
        assert (reply.code, answer) == (Code.OK, api.SynchronizeResponse(more=True))
        assert (seen, runtime.stub.synchronized) == ([], False)
    last = state("p3", containers=("c4",))
    for _ in range(2):  # a second Synchronize does not see the parts of the first
        reply = runtime.call("Synchronize", last)
        assert api.SynchronizeResponse.FromString(reply.payload) == api.SynchronizeResponse(update=[update])
    assert seen == [state("p1", "p2", "p3", containers=("c1", "c2", "c3", "c4")), last]
    assert runtime.stub.synchronized


def test_parts_of_the_state_beyond_the_limit_are_an_error_and_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stub, "MAX_STATE", 1000)
    seen: list[api.SynchronizeRequest] = []
    runtime = Runtime(recorder(seen))
    codes = [runtime.call("Synchronize", state("x" * 400, more=True)).code for _ in range(3)]
    assert codes == [Code.OK, Code.OK, Code.RESOURCE_EXHAUSTED]
    assert (seen, runtime.stub.synchronized) == ([], False)
    assert runtime.call("Synchronize", state("p1")).code == Code.OK
    assert seen == [state("p1")]
