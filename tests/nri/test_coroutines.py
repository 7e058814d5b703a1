"""Handlers that are coroutines: they wait beside each other, and one that is late, raises or blocks is named."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from adapter.nri import Context, api, asynchronous, run
from adapter.wire import Code, Reply

from ..processes import PATIENCE
from .host import OVER, Host, hosted, logged
from .runtime import plugin


@hosted
async def test_handlers_may_be_coroutines_or_not_and_others_are_served_while_one_waits(host: Host) -> None:
    gate = asyncio.Event()

    async def configure(request: Any, context: Context) -> api.ConfigureResponse:
        await asyncio.sleep(0)
        return api.ConfigureResponse(events=0x7F)

    async def create(request: api.CreateContainerRequest, context: Context) -> api.CreateContainerResponse:
        await gate.wait()
        assert 0 < context.remaining() <= PATIENCE
        return api.CreateContainerResponse(adjust=api.ContainerAdjustment(args=[request.container.id]))

    made = plugin(configure=configure, create_container=create, start_container=lambda *_: gate.set())
    async with host.joined(made) as peer:
        waiting = peer.send("CreateContainer", api.CreateContainerRequest(container=api.Container(id="c")))
        change = api.StateChangeEvent(event=api.START_CONTAINER)
        assert (await peer.call("StateChange", change)).code == Code.OK
        response = api.CreateContainerResponse.FromString((await peer.hear(Reply, waiting)).payload)
        assert list(response.adjust.args) == ["c"]


async def returns_a_number(*_: object) -> int:
    return 5


async def raises(*_: object) -> None:
    raise ValueError("not today")


async def never_ends(*_: object) -> None:
    await asyncio.Event().wait()


async def ends_itself(*_: object) -> None:
    raise asyncio.CancelledError


BAD: list[tuple[Callable[..., Any], float, str, str]] = [
    (returns_a_number, PATIENCE, "start_container has returned a int, not StartContainerResponse", "same"),
    (lambda *_: "text", PATIENCE, "start_container has returned a str, not StartContainerResponse", "same"),
    (raises, PATIENCE, "not today", "StartContainer: not today"),
    (ends_itself, PATIENCE, "start_container was cancelled", ""),
    (never_ends, OVER, r"start_container has not answered in [\d.]+ s", "the runtime gets this error"),
]


@hosted
async def test_a_bad_handler_is_named_and_the_plugin_lives(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    for handler, timeout, error, line in BAD:
        caplog.clear()
        async with host.joined(plugin(start_container=handler)) as peer:
            for _ in range(2):
                reply = await peer.call("StartContainer", timeout=timeout)
                assert re.fullmatch(error, reply.message), reply
            assert (await peer.call("StopContainer")).code == Code.OK
            assert re.search(error if line == "same" else line, caplog.text)


@hosted
async def test_a_handler_that_holds_the_loop_up_is_named(
    host: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(*_: object) -> None:
        pass

    for handler, limit in ((at_once, 0), (lambda *_: None, 0), (at_once, inf)):
        monkeypatch.setattr(asynchronous, "BLOCKED", limit)
        caplog.clear()
        async with host.joined(plugin(start_container=handler)) as peer:
            assert (await peer.call("StartContainer")).code == Code.OK
        assert ("start_container has blocked the loop for 0.0 s" in caplog.text) == (limit == 0)


@hosted
async def test_a_late_coroutine_continues_and_is_cancelled_at_the_end(host: Host) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    seen: list[str] = []

    async def start(*_: object) -> None:
        gate = gates.pop(0)
        seen.append("begun")
        try:
            await gate.wait()
            seen.append("ended")
        finally:
            seen.append("left")

    first, _ = gates
    async with host.joined(plugin(start_container=start)) as peer:
        assert (await peer.call("StartContainer", timeout=OVER)).code == Code.DEADLINE_EXCEEDED
        with logged("after its answer") as has_ended:
            first.set()
            await has_ended.wait()
        assert seen == ["begun", "ended", "left"]
        assert (await peer.call("StartContainer", timeout=OVER)).code == Code.DEADLINE_EXCEEDED
    assert seen[3:] == ["begun", "left"]


@hosted
async def test_what_ignores_its_cancellation_is_named(
    host: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asynchronous, "GRACE", 0)
    begun = asyncio.Event()

    async def stubborn(*_: object) -> None:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await never_ends()
        await never_ends()

    made = plugin(start_container=stubborn, on_join=never_ends)
    serving = host.serve(made)
    peer = await host.accept()
    await peer.join()
    peer.send("StartContainer")
    await begun.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert [record.getMessage() for record in caplog.records if record.name == asynchronous.__name__] == [
        "start_container still runs 0 s after it was cancelled: it is left"
    ]


@hosted
async def test_run_names_late_handlers_and_runs_coroutines(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    async def stop(*_: object) -> api.StopContainerResponse:
        assert asyncio.current_task()
        return api.StopContainerResponse()

    for made in (plugin(start_container=lambda *_: None), plugin(stop_container=stop)):
        serving = asyncio.ensure_future(asyncio.to_thread(run, made, "mine", "10", host.path, []))
        async with host.joined(made, serving=serving) as peer:
            for method, timeout in (("StartContainer", OVER), ("StopContainer", PATIENCE)):
                assert (await peer.call(method, timeout=timeout)).code == Code.OK
    said = "start_container has taken 0.0 s, longer than the runtime waits"
    assert len([record for record in caplog.records if said in record.getMessage()]) == 2
