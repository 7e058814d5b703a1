"""Events of both generations: as calls of their own (NRI >= 0.12) and as StateChange (before); updates without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message

from adapter.errors import CallError, MessageTooLarge
from adapter.nri import Context, Stub, api
from adapter.nri.events import PLUGIN, RUNTIME
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, ttrpc

from .runtime import HANDLERS, NUMBERS, Runtime, plugin

POD = api.PodSandbox(id="p1", name="web", labels={"app": "web"}, pid=42)
CONTAINER = api.Container(id="c1", pod_sandbox_id="p1", args=["sh"])
WITHOUT_CONTAINER = [method for method in HANDLERS if method.endswith("PodSandbox")]


def request(method: str, **fields: Any) -> Message:
    """A request of a method's own type, by default about the pod and the container."""
    parts: dict[str, Message] = {"pod": POD} if method in WITHOUT_CONTAINER else {"pod": POD, "container": CONTAINER}
    made: Message = getattr(api, f"{method}Request")(**(fields or parts))
    return made


def recorder(seen: list[tuple[str, Any, str]]) -> Runtime:
    """A runtime whose plugin notes which handler got what, as which method."""

    def noting(handler: str) -> Callable[[Any, Context], None]:
        return lambda request, context: seen.append((handler, request, context.method))

    return Runtime(plugin(**{handler: noting(handler) for handler in HANDLERS.values()}))


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


def test_a_call_of_its_own_carries_what_a_state_change_has_no_place_for() -> None:
    seen: list[tuple[str, Any, str]] = []
    resources = [api.LinuxResources(cpu=api.LinuxCPU(cpus=cpus)) for cpus in ("0", "1")]
    update = request("UpdatePodSandbox", pod=POD, overhead_linux_resources=resources[0], linux_resources=resources[1])
    recorder(seen).call("UpdatePodSandbox", update)
    assert seen == [("update_pod_sandbox", update, "UpdatePodSandbox")]


def test_a_state_change_of_an_unknown_event_is_let_pass() -> None:
    seen: list[tuple[str, Any, str]] = []
    for event in (0, 15, 16, 99):
        change = api.StateChangeEvent(event=event, pod=POD)  # type: ignore[arg-type]
        reply = recorder(seen).call("StateChange", change)
        assert (reply.code, reply.payload, seen) == (Code.OK, b"", [])


def test_what_a_handler_returns_is_the_answer() -> None:
    update = api.ContainerUpdate(container_id="c1")
    adjust = api.ContainerAdjustment(annotations={"a": "b"})
    responses: dict[str, Message] = {
        "CreateContainer": api.CreateContainerResponse(adjust=adjust, update=[update]),
        "UpdateContainer": api.UpdateContainerResponse(update=[update]),
        "StopContainer": api.StopContainerResponse(update=[update]),
        "ValidateContainerAdjustment": api.ValidateContainerAdjustmentResponse(reject=True, reason="not here"),
    }
    for method, response in responses.items():
        handle = {HANDLERS[method]: lambda request, context, response=response: response}
        reply = Runtime(plugin(**handle)).call(method, request(method))
        assert (reply.code, type(response).FromString(reply.payload)) == (Code.OK, response)


def test_an_answer_is_written_before_the_next_request_of_the_same_piece_is_looked_at() -> None:
    written: list[bytes] = []
    counts = []
    sample = plugin(start_container=lambda request, context: counts.append(len(written)))
    stub = Stub(sample, "sample", "10", written.append)
    runtime = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
    for _ in range(3):
        runtime.call(PLUGIN, "StartContainer", b"")
    stub.receive_data(runtime.data_to_send())
    assert counts == [0, 1, 2]
    assert [reply.stream_id for data in written for reply in runtime.receive_data(data)] == [1, 3, 5]


# ---- updates that no event has asked for

MIB = 1 << 20


def updates(*sizes: int) -> list[api.ContainerUpdate]:
    """Updates that are told apart by the beginnings of their ids and have about this many bytes each."""
    return [api.ContainerUpdate(container_id=f"{n}".ljust(size, "x")) for n, size in enumerate(sizes)]


def asked(runtime: Runtime) -> list[list[api.ContainerUpdate]]:
    """The updates of each call that the plugin has made."""
    assert {(each.service, each.method) for each in runtime.requests} <= {(RUNTIME, "UpdateContainers")}
    return [list(api.UpdateContainersRequest.FromString(each.payload).update) for each in runtime.requests]


def test_updates_that_fit_go_out_in_one_call_with_the_runtimes_request_timeout_also_in_an_event() -> None:
    runtime = Runtime(plugin(start_container=lambda *_: runtime.stub.update_containers(iter(updates(3, 4)))))
    runtime.configure(api.ConfigureRequest(request_timeout=3000))
    runtime.stub.update_containers([])
    assert runtime.call("StartContainer").code == Code.OK
    assert asked(runtime) == [updates(3, 4)]
    assert runtime.requests[0].timeout == 3.0


@pytest.mark.parametrize(
    "sizes", [[10, 4 * MIB - 200, 10], [4 * MIB - 200] * 3, [1000] * 9000, [3 * MIB, 1, 3 * MIB - 20, 1]]
)
def test_updates_go_out_in_as_many_calls_as_their_size_needs_in_their_order(sizes: list[int]) -> None:
    runtime = Runtime()
    runtime.stub.update_containers(updates(*sizes))
    calls = asked(runtime)
    assert [each for call in calls for each in call] == updates(*sizes)
    assert all(calls)
    assert 1 < len(calls) <= 2 + sum(sizes) * 2 // (3 * MIB)


def test_the_caller_hears_what_failed_once_for_each_call() -> None:
    heard: list[tuple[list[api.ContainerUpdate], CallError | None]] = []
    runtime = Runtime()
    runtime.stub.update_containers(updates(*[2 * MIB] * 4), lambda *failed_and_error: heard.append(failed_and_error))
    runtime.stub.update_containers(updates(1))  # whose caller does not listen
    first, second, third, fourth, unheard = runtime.requests
    assert heard == []
    runtime.answer(second.stream_id, api.UpdateContainersResponse(failed=updates(1, 2)).SerializeToString())
    runtime.answer(first.stream_id)
    runtime.answer(third.stream_id, refusal="no such container")
    for request in (fourth, unheard):
        runtime.answer(request.stream_id, b"\xff")
    assert heard[:2] == [(updates(1, 2), None), ([], None)]
    errors = [(failed, error and error.code) for failed, error in heard[2:]]
    assert errors == [([], Code.UNKNOWN), ([], Code.INTERNAL)]
    assert getattr(heard[2][1], "message", "") == "no such container"
    assert runtime.call("StartContainer").code == Code.OK


def test_one_update_that_is_too_large_for_any_call_is_the_callers_error() -> None:
    runtime = Runtime()
    with pytest.raises(MessageTooLarge):
        runtime.stub.update_containers(updates(ttrpc.MAX_LENGTH))
    assert runtime.requests == []
