"""Events of both generations: as calls of their own (NRI >= 0.12) and as StateChange (before)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message

from adapter.nri import Context, Stub, api
from adapter.nri.events import PLUGIN
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection

from .runtime import HANDLERS, NUMBERS, Runtime, plugin

POD = api.PodSandbox(id="p1", name="web", labels={"app": "web"}, pid=42)
CONTAINER = api.Container(id="c1", pod_sandbox_id="p1", args=["sh"])
WITHOUT_CONTAINER = [method for method in HANDLERS if method.endswith("PodSandbox")]


def request_class(method: str) -> type[Message]:
    found: type[Message] = getattr(api, f"{method}Request")
    return found


def request(method: str) -> Message:
    parts: dict[str, Message] = {"pod": POD} if method in WITHOUT_CONTAINER else {"pod": POD, "container": CONTAINER}
    return request_class(method)(**parts)


def recorder(seen: list[tuple[str, Any, str]]) -> Runtime:
    """A runtime whose plugin notes which handler got what, as which method."""

    def noting(handler: str) -> Callable[[Any, Context], None]:
        return lambda request, context: seen.append((handler, request, context.method))

    return Runtime(plugin(**{handler: noting(handler) for handler in HANDLERS.values()}))


@pytest.mark.parametrize("method", HANDLERS)
def test_an_event_reaches_its_handler_the_same_way_by_a_call_of_its_own_and_as_a_state_change(method: str) -> None:
    seen: list[tuple[str, Any, str]] = []
    runtime = recorder(seen)
    change = api.StateChangeEvent(event=NUMBERS[method], pod=POD)  # type: ignore[arg-type]
    if method not in WITHOUT_CONTAINER:
        change.container.CopyFrom(CONTAINER)
    for reply in (runtime.call(method, request(method)), runtime.call("StateChange", change)):
        assert (reply.code, reply.payload) == (Code.OK, b"")
    assert seen == [(HANDLERS[method], request(method), method)] * 2
    assert {type(got) for _, got, _ in seen} == {request_class(method)}


@pytest.mark.parametrize("method", HANDLERS)
def test_what_a_state_change_leaves_out_the_handler_does_not_get_and_no_handler_is_an_empty_answer(method: str) -> None:
    """containerd's exit notices may know a pod by its id only. UNIMPLEMENTED would mean state changes from then on."""
    seen: list[tuple[str, Any, str]] = []
    recorder(seen).call("StateChange", api.StateChangeEvent(event=NUMBERS[method]))  # type: ignore[arg-type]
    ((_, got, _),) = seen
    assert got == request_class(method)()
    reply = Runtime().call(method, request(method))
    assert (reply.code, reply.payload) == (Code.OK, b"")


def test_a_call_of_its_own_carries_what_a_state_change_has_no_place_for() -> None:
    seen: list[tuple[str, Any, str]] = []
    resources = [api.LinuxResources(cpu=api.LinuxCPU(cpus=cpus)) for cpus in ("0", "1")]
    update = api.UpdatePodSandboxRequest(pod=POD, overhead_linux_resources=resources[0], linux_resources=resources[1])
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
