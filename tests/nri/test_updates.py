"""Unsolicited updates of containers."""

from __future__ import annotations

import pytest

from adapter.errors import CallError, MessageTooLarge
from adapter.nri import api
from adapter.nri.events import RUNTIME
from adapter.wire import Code, ttrpc

from .runtime import Runtime, plugin

MIB = 1 << 20


def updates(*sizes: int) -> list[api.ContainerUpdate]:
    """Updates that are told apart by their first character and have about this many bytes each."""
    return [api.ContainerUpdate(container_id=chr(ord("a") + n) * size) for n, size in enumerate(sizes)]


def asked(runtime: Runtime) -> list[list[api.ContainerUpdate]]:
    """The updates of each call that the plugin has made."""
    assert {(each.service, each.method) for each in runtime.requests} <= {(RUNTIME, "UpdateContainers")}
    return [list(api.UpdateContainersRequest.FromString(each.payload).update) for each in runtime.requests]


def test_updates_that_fit_go_out_in_one_call_with_the_runtimes_request_timeout() -> None:
    runtime = Runtime()
    runtime.configure(api.ConfigureRequest(request_timeout=3000))
    runtime.stub.update_containers([])
    runtime.stub.update_containers(iter(updates(3, 4)))
    assert asked(runtime) == [updates(3, 4)]
    assert runtime.requests[0].timeout == 3.0


@pytest.mark.parametrize(
    "sizes", [[10, 4 * MIB - 200, 10], [4 * MIB - 200] * 3, [1000] * 9000, [3 * MIB, 1, 3 * MIB - 20, 1]]
)
def test_updates_go_out_in_as_many_calls_as_their_size_needs_in_their_order(sizes: list[int]) -> None:
    wanted = [api.ContainerUpdate(container_id=f"{n}".rjust(size, "x")) for n, size in enumerate(sizes)]
    runtime = Runtime()
    runtime.stub.update_containers(wanted)
    calls = asked(runtime)
    assert [each for call in calls for each in call] == wanted
    assert all(calls)
    assert 1 < len(calls) <= 2 + sum(sizes) * 2 // (3 * MIB)


def test_the_caller_hears_what_failed_once_for_each_call() -> None:
    heard: list[tuple[list[str], CallError | None]] = []
    runtime = Runtime()
    runtime.stub.update_containers(
        updates(2 * MIB, 2 * MIB, 2 * MIB),
        lambda failed, error: heard.append(([each.container_id for each in failed], error)),
    )
    assert (len(runtime.requests), heard) == (3, [])
    runtime.answer(runtime.requests[1], api.UpdateContainersResponse(failed=updates(1, 2)))
    runtime.answer(runtime.requests[0])
    runtime.answer(runtime.requests[2], code=Code.UNKNOWN, text="no such container")
    assert heard[:2] == [(["a", "bb"], None), ([], None)]
    ((failed, error),) = heard[2:]
    assert failed == []
    assert error is not None
    assert (error.code, error.message) == (Code.UNKNOWN, "no such container")


def test_an_answer_that_cannot_be_decoded_is_an_internal_error_of_that_call() -> None:
    heard: list[CallError | None] = []
    runtime = Runtime()
    runtime.stub.update_containers(updates(1), lambda failed, error: heard.append(error))
    runtime.stub.update_containers(updates(1))  # whose caller does not listen
    for request in runtime.requests:
        runtime.answer(request, b"\xff")
    (error,) = heard
    assert error is not None
    assert error.code == Code.INTERNAL
    assert runtime.call("StartContainer").code == Code.OK


def test_a_handler_may_ask_for_updates_while_its_event_is_served() -> None:
    runtime = Runtime(plugin(start_container=lambda *_: runtime.stub.update_containers(updates(1))))
    assert runtime.call("StartContainer").code == Code.OK
    assert asked(runtime) == [updates(1)]


def test_one_update_that_is_too_large_for_any_call_is_the_callers_error() -> None:
    runtime = Runtime()
    with pytest.raises(MessageTooLarge):
        runtime.stub.update_containers(updates(ttrpc.MAX_LENGTH))
    assert runtime.requests == []
