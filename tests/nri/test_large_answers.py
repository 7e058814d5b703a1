"""Answers that are too large for a frame of ttRPC."""

from __future__ import annotations

from adapter.nri import Deferred, Plugin, api
from adapter.wire import Code, ttrpc

from .runtime import Runtime, plugin


def create(size: int) -> Plugin:
    response = api.CreateContainerResponse(adjust=api.ContainerAdjustment(annotations={"a": "x" * size}))
    return plugin(create_container=lambda request, context: response)


def test_an_answer_of_nearly_4_mib_is_sent() -> None:
    assert Runtime(create(ttrpc.MAX_LENGTH - 64)).call("CreateContainer").code == Code.OK


def test_an_answer_that_is_too_large_becomes_an_error_and_the_connection_lives_on() -> None:
    runtime = Runtime(create(ttrpc.MAX_LENGTH))
    reply = runtime.call("CreateContainer")
    assert (reply.code, reply.message[:17]) == (Code.RESOURCE_EXHAUSTED, "CreateContainer: ")
    assert runtime.call("StopContainer").code == Code.OK


def test_a_deferred_answer_that_is_too_large_becomes_an_error_too() -> None:
    deferred = Deferred[api.CreateContainerResponse]()
    runtime = Runtime(plugin(create_container=lambda request, context: deferred))
    runtime.send("CreateContainer")
    deferred.complete(api.CreateContainerResponse(adjust=api.ContainerAdjustment(args=["x" * ttrpc.MAX_LENGTH])))
    reply = runtime.reply(1)
    assert reply
    assert reply.code == Code.RESOURCE_EXHAUSTED
