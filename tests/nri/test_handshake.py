"""How a plugin joins: registration, configuration, the state of the node."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import pytest

from adapter.errors import CallError, RegistrationError
from adapter.nri import Plugin, api, stub
from adapter.nri.events import RUNTIME
from adapter.wire import Code

from .runtime import HANDLERS, NUMBERS, Runtime, plugin

OLD = ["", *HANDLERS][1:12]  # the events that every runtime knows
REMOVE_POD_SANDBOX = 1 << 2


def bits(*methods: str) -> int:
    return reduce(or_, (1 << (NUMBERS[method] - 1) for method in methods), 0)


def handlers(*methods: str) -> Plugin:
    return plugin(**{HANDLERS[method]: lambda request, context: None for method in methods})


# ---- registration


def test_a_plugin_registers_by_name_index_and_nri_version() -> None:
    runtime = Runtime(name="v010-adapter", idx="07")
    runtime.stub.register()
    (request,) = runtime.requests
    assert (request.service, request.method, request.timeout) == (RUNTIME, "RegisterPlugin", 5.0)
    assert api.RegisterPluginRequest.FromString(request.payload) == api.RegisterPluginRequest(
        plugin_name="v010-adapter", plugin_idx="07", NRI_version="v0.12.5"
    )


def test_configure_and_synchronize_are_served_before_registration_is_answered() -> None:
    """The answer and Configure travel on two connections: nothing says which comes first."""
    runtime = Runtime(handlers("StartContainer"))
    runtime.stub.register()
    assert runtime.configure().events == bits("StartContainer")
    assert runtime.call("Synchronize").code == Code.OK
    assert (runtime.stub.registered, runtime.stub.synchronized) == (False, True)
    runtime.answer(runtime.requests[0])
    assert runtime.stub.registered


def test_a_refusal_is_an_error_that_says_who_was_refused_and_why() -> None:
    runtime = Runtime(name="bad name", idx="1x")
    runtime.stub.register()
    with pytest.raises(RegistrationError, match=r"refused plugin 1x-bad name: invalid plugin index"):
        runtime.answer(runtime.requests[0], code=Code.UNKNOWN, text="invalid plugin index")
    assert not runtime.stub.registered


def test_between_the_steps_of_the_handshake_any_time_may_pass_and_configure_may_come_first() -> None:
    runtime = Runtime(handlers("StartContainer"))
    for step in ("Configure", "register", "Synchronize", "StartContainer"):
        runtime.clock.now += 3600
        if step == "register":
            runtime.stub.register()
        else:
            assert runtime.call(step).code == Code.OK
    assert not runtime.stub.registered
    runtime.answer(runtime.requests[0])
    assert runtime.stub.registered


# ---- Configure


def test_the_plugin_gets_the_whole_configure_request() -> None:
    seen = []
    request = api.ConfigureRequest(
        config="hooks: {}\n",
        runtime_name="containerd",
        runtime_version="2.4.2+unknown",
        registration_timeout=7000,
        request_timeout=3500,
        NRI_version="v0.12.5",
    )
    runtime = Runtime(plugin(configure=lambda request, context: seen.append(request)))
    runtime.configure(request)
    assert seen == [request]
    assert (runtime.stub.registration_timeout, runtime.stub.request_timeout) == (7.0, 3.5)


@pytest.mark.parametrize("absent", [{}, {"registration_timeout": 0, "request_timeout": -1}])
def test_timeouts_that_an_old_runtime_does_not_tell_are_5_and_2_seconds(absent: dict[str, int]) -> None:
    runtime = Runtime()
    runtime.configure(api.ConfigureRequest(runtime_name="containerd", **absent))  # type: ignore[arg-type]
    assert (runtime.stub.registration_timeout, runtime.stub.request_timeout) == (5.0, 2.0)


def test_the_bit_of_an_event_is_its_number_less_one() -> None:
    for method, number in NUMBERS.items():
        answer = Runtime(handlers(method)).configure(api.ConfigureRequest(NRI_version="v0.12.5"))
        assert answer.events == 1 << (number - 1)


def test_a_plugin_subscribes_to_the_events_it_overrides_inherited_ones_included() -> None:
    class Child(type(handlers("RunPodSandbox", "StopContainer"))):  # type: ignore[misc]
        def start_container(self, request: api.StartContainerRequest, context: Any) -> None:
            pass

    assert Runtime(Child()).configure().events == bits("RunPodSandbox", "StopContainer", "StartContainer")


@pytest.mark.parametrize(
    ("version", "known"), [("", OLD), *((version, HANDLERS) for version in ("v0.12.0", "v0.12.5", "v1.0.0", "(devel)"))]
)
def test_only_a_runtime_that_tells_its_nri_version_gets_bits_that_not_all_know(version: str, known: list[str]) -> None:
    chosen = plugin(configure=lambda *_: api.ConfigureResponse(events=0x7FFF_FFF1), start_container=lambda *_: None)
    request = api.ConfigureRequest(NRI_version=version)
    assert Runtime(handlers(*HANDLERS)).configure(request).events == bits(*known)
    assert Runtime(chosen).configure(request).events == 0x7FFF_FFF1 & bits(*known)


@pytest.mark.parametrize(
    ("sample", "version"),
    [
        pytest.param(Plugin(), "", id="no handlers"),
        pytest.param(Plugin(), "v0.12.5", id="no handlers, a new runtime"),
        pytest.param(handlers("UpdatePodSandbox", "ValidateContainerAdjustment"), "", id="only unknown events"),
        pytest.param(
            plugin(configure=lambda *_: api.ConfigureResponse(events=1 << 20)), "v0.12.5", id="only bits of no event"
        ),
    ],
)
def test_the_mask_is_never_0_which_would_mean_every_event(sample: Plugin, version: str) -> None:
    assert Runtime(sample).configure(api.ConfigureRequest(NRI_version=version)).events == REMOVE_POD_SANDBOX


def test_a_plugin_asks_to_be_kept_when_it_is_late_or_for_another_failure_policy() -> None:
    class Strict(Plugin):
        failure_policy = api.FailurePolicy(fail_request=True, keep_connected=True)

    chosen = plugin(configure=lambda *_: api.ConfigureResponse(failure_policy=api.FailurePolicy()))
    kept = api.FailurePolicy(keep_connected=True)
    for sample, policy in ((Plugin(), kept), (Strict(), Strict.failure_policy), (chosen, api.FailurePolicy())):
        answer = Runtime(sample).configure()
        assert answer.HasField("failure_policy")
        assert answer.failure_policy == policy


def test_a_plugin_that_cannot_be_configured_says_why() -> None:
    def configure(request: api.ConfigureRequest, context: object) -> None:
        raise CallError(Code.INVALID_ARGUMENT, "conf.d/10-sample.conf:3: no such key")

    reply = Runtime(plugin(configure=configure)).call("Configure")
    assert (reply.code, reply.message) == (Code.INVALID_ARGUMENT, "conf.d/10-sample.conf:3: no such key")


# ---- Synchronize and Shutdown


def pods(*ids: str) -> list[api.PodSandbox]:
    return [api.PodSandbox(id=each) for each in ids]


def containers(*ids: str) -> list[api.Container]:
    return [api.Container(id=each) for each in ids]


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
        api.SynchronizeRequest(pods=pods("p1", "p2"), containers=containers("c1"), more=True),
        api.SynchronizeRequest(containers=containers("c2", "c3"), more=True),
        api.SynchronizeRequest(more=True),
    ):
        # A Go runtime drops a plugin that does not say `more` to a part, or has updates already.
        reply = runtime.call("Synchronize", part)
        assert (reply.code, api.SynchronizeResponse.FromString(reply.payload)) == (
            0,
            api.SynchronizeResponse(more=True),
        )
        assert (seen, runtime.stub.synchronized) == ([], False)
    last = api.SynchronizeRequest(pods=pods("p3"), containers=containers("c4"))
    for _ in range(2):  # a second Synchronize does not see the parts of the first
        reply = runtime.call("Synchronize", last)
        assert api.SynchronizeResponse.FromString(reply.payload) == api.SynchronizeResponse(update=[update])
    whole = api.SynchronizeRequest(pods=pods("p1", "p2", "p3"), containers=containers("c1", "c2", "c3", "c4"))
    assert seen == [whole, last]
    assert runtime.stub.synchronized


def test_parts_of_the_state_beyond_the_limit_are_an_error_and_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stub.MAX_STATE == 64 << 20
    monkeypatch.setattr(stub, "MAX_STATE", 1000)
    seen: list[api.SynchronizeRequest] = []
    runtime = Runtime(recorder(seen))
    part = api.SynchronizeRequest(pods=pods("x" * 400), more=True)
    codes = [runtime.call("Synchronize", part).code for _ in range(3)]
    assert codes == [Code.OK, Code.OK, Code.RESOURCE_EXHAUSTED]
    assert (seen, runtime.stub.synchronized) == ([], False)
    whole = api.SynchronizeRequest(pods=pods("p1"))
    assert runtime.call("Synchronize", whole).code == Code.OK
    assert seen == [whole]


def test_a_plugin_without_interest_in_the_state_answers_with_no_updates() -> None:
    reply = Runtime().call("Synchronize", api.SynchronizeRequest(pods=pods("p1")))
    assert (reply.code, reply.payload) == (Code.OK, b"")


def test_shutdown_reaches_the_plugin_and_is_answered() -> None:
    seen = []
    runtime = Runtime(plugin(shutdown=lambda: seen.append("shutdown")))
    assert runtime.call("Shutdown", api.Empty()).code == Code.OK
    assert seen == ["shutdown"]
