"""Plugins that `run` and `serve` serve: handlers that are coroutines, and updates that a plugin asks for."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import nri
from nri import Context, api, asynchronous, run
from nri.errors import CallError, NRIError
from nri.wire import Code, Reply, Request

from ..rig.trunk import plugin
from ..rig.waiting import LIMIT
from .host import OVER, Host, awaited, hosted, in_thread, logged, updates


@hosted
async def test_handlers_may_be_coroutines_or_not_and_others_are_served_while_one_waits(host: Host) -> None:
    gate = asyncio.Event()

    async def create(request: api.CreateContainerRequest, context: Context) -> None:
        assert 0 < context.remaining() <= LIMIT
        await gate.wait()

    async def configure(*_: object) -> api.ConfigureResponse:
        return api.ConfigureResponse()

    made = plugin(configure=configure, create_container=create, start_container=lambda *_: gate.set())
    async with host.joined(made) as peer:
        waiting = peer.send("CreateContainer")
        assert (await peer.call("StartContainer")).code == Code.OK
        assert (await peer.hear(Reply, waiting)).code == Code.OK


@hosted
async def test_a_coroutine_may_wait_again_after_an_error(host: Host) -> None:
    async def create(*_: object) -> None:
        try:
            await asyncio.create_task(raises())
        except ValueError:
            gate = asyncio.Event()
            asyncio.get_running_loop().call_later(0, gate.set)
            await gate.wait()

    async with host.joined(plugin(create_container=create)) as peer:
        assert (await peer.call("CreateContainer")).code == Code.OK


async def returns_a_number(*_: object) -> int:
    return 5


async def raises(*_: object) -> None:
    raise ValueError("not today")


async def never_ends(*_: object) -> None:
    await asyncio.Event().wait()


async def ends_itself(*_: object) -> None:
    raise asyncio.CancelledError


TYPE = "10-mine: TypeError: start_container has"
BAD: list[tuple[Callable[..., Any], float, str, str]] = [
    (returns_a_number, LIMIT, f"{TYPE} returned a int, not StartContainerResponse", "returned a int"),
    (lambda *_: "text", LIMIT, f"{TYPE} returned a str, not StartContainerResponse", "returned a str"),
    (raises, LIMIT, "10-mine: ValueError: not today", "StartContainer: 10-mine: ValueError: not today"),
    (ends_itself, LIMIT, "start_container was cancelled", ""),
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
            assert line in caplog.text


@hosted
async def test_a_handler_that_holds_the_loop_up_is_named(
    host: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(*_: object) -> None:
        pass

    for handler, limit in ((at_once, 0), (lambda *_: None, 0), (at_once, LIMIT)):
        monkeypatch.setattr(asynchronous, "BLOCKED", limit)
        caplog.clear()
        async with host.joined(plugin(start_container=handler)) as peer:
            assert (await peer.call("StartContainer")).code == Code.OK
        assert ("start_container has blocked the loop for " in caplog.text) == (limit == 0)


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
async def test_a_coroutine_that_does_not_end_when_it_is_cancelled_is_left(
    host: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asynchronous, "GRACE", 0)
    begun, gate = asyncio.Event(), asyncio.Event()

    async def start(*_: object) -> None:
        begun.set()
        while not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()

    async with host.joined(plugin(start_container=start)) as peer:
        peer.send("StartContainer")
        await begun.wait()
    assert "start_container still runs 0 s after it was cancelled: it is left" in caplog.messages
    gate.set()


@hosted
async def test_run_names_late_handlers_and_runs_coroutines(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    async def stop(*_: object) -> api.StopContainerResponse:
        assert asyncio.current_task()
        return api.StopContainerResponse()

    for made in (plugin(start_container=lambda *_: None), plugin(stop_container=stop)):
        serving = in_thread(partial(run, made, "mine", "10", host.path, []))
        async with host.joined(made, serving=serving) as peer:
            for method, timeout in (("StartContainer", OVER), ("StopContainer", LIMIT)):
                assert (await peer.call(method, timeout=timeout)).code == Code.OK
    assert len(re.findall(r"start_container has taken [\d.]+ s, longer than the runtime waits", caplog.text)) == 2


@hosted
async def test_a_running_plugin_asks_for_updates_and_hears_what_failed(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    joined = asyncio.Event()
    made = plugin(on_join=joined.set)
    for _ in range(2):  # the second time after a connection
        with pytest.raises(NRIError, match="has not joined"):
            made.update_containers([])
        joined.clear()
        async with host.joined(made) as peer:
            await joined.wait()
            assert await awaited(made) == []
            at_once, answered = (made.update_containers(updates(*ids)) for ids in ("", "a"))
            await peer.answer_updates()
            assert await answered == []
            refs = [weakref.ref(each) for each in (at_once, answered)]
            del at_once, answered
            gc.collect()
            assert [ref() for ref in refs] == [None, None], "they are not kept"
            made.update_containers([]).then(lambda *_: 1 / 0)
            assert "the listener of an update has failed" in caplog.text
            in_coroutine = asyncio.ensure_future(awaited(made, "a", "b"))
            assert await peer.answer_updates("b") == ["a", "b"]
            assert await in_coroutine == ["b"]
            elsewhere = in_thread(lambda: made.update_containers(updates("c")).result())
            await peer.answer_next(refusal="no such container")
            with pytest.raises(CallError, match="no such container"):
                await elsewhere
            in_two_calls = asyncio.ensure_future(awaited(made, "x" * (2 << 20), "y" * (2 << 20)))
            assert [len(await peer.answer_updates(one)) for one in "xy"] == [1, 1]
            assert await in_two_calls == ["x", "y"]
            unanswered = made.update_containers(updates("d"))
            with pytest.raises(RuntimeError, match="this thread serves the runtime"):
                unanswered.result()
            with pytest.raises(TimeoutError, match=r"in 1e-09 s"):
                await in_thread(partial(unanswered.result, OVER))
            lost = asyncio.ensure_future(awaited(made, "x" * (2 << 20), "y" * (2 << 20)))
            await peer.hear(Request)  # of d
            assert [len(each) for each in await peer.answer_updates()] == [2 << 20]
            await peer.hear(Request)
        with pytest.raises(NRIError, match="the connection with the runtime is lost"):
            await lost
    joined.clear()
    serving = host.serve(made)
    peer = await host.accept()
    await peer.answer_next()
    await peer.call("Synchronize")  # of a runtime that does not say which one it is
    await joined.wait()
    with pytest.raises(NRIError, match="may deadlock over updates"):
        made.update_containers([])
    peer.close()
    await serving


@hosted
async def test_updates_that_are_asked_for_while_the_connection_is_lost_fail(host: Host) -> None:
    begun, gone, joined = threading.Event(), threading.Event(), asyncio.Event()

    def wanted() -> Iterator[api.ContainerUpdate]:
        begun.set()
        assert gone.wait(LIMIT)
        yield from updates("a")

    made = plugin(on_join=joined.set, on_disconnect=lambda _: gone.set())
    async with host.joined(made):
        await joined.wait()
        asking = in_thread(lambda: made.update_containers(wanted()).result(OVER))
        assert await asyncio.to_thread(begun.wait, LIMIT)
    with pytest.raises(NRIError, match="the connection with the runtime is lost"):
        await asking


def test_each_public_name_is_there() -> None:
    assert all(getattr(nri, name) for name in nri.__all__)


def test_a_coroutine_that_is_watched_can_be_awaited_and_closed_as_any_other() -> None:
    async def seven() -> int:
        return 7

    async def its_result() -> int:
        return int(await asynchronous.WatchedCoroutine("handler", seven()))

    assert asyncio.run(its_result()) == 7
    unstarted = seven()
    asynchronous.WatchedCoroutine("handler", unstarted).close()
    assert inspect.getcoroutinestate(unstarted) == inspect.CORO_CLOSED
