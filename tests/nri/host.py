"""A runtime in the test's own loop, for plugins that `run` and `serve` serve."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial, wraps
from threading import Thread
from typing import Any, TypeVar

from nri import Plugin, api, serve
from nri.wire import Code, Reply, Request

from ..rig.trunk import End
from ..rig.waiting import LIMIT, limit

T = TypeVar("T")
NEW = ("containerd", "v2.4.2", "v0.12.3")
OVER = 1e-9
"""Seconds of a call whose time is over when it comes."""


class Peer(End):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(writer.write)
        self.writer = writer
        self._reader = reader

    async def hear(self, kind: type[Any], stream_id: int = 0) -> Any:
        """Waits for a request, or for the reply to a call."""
        while True:
            for one in self.heard:
                if isinstance(one, kind) and stream_id in (0, one.stream_id):
                    self.heard.remove(one)
                    return one
            self.receive(await self._reader.read(1 << 16))

    def send(self, method: str, request: Any = None, timeout: float = LIMIT) -> int:
        return self.ask(method, b"" if request is None else request.SerializeToString(), timeout)

    async def call(self, method: str, request: Any = None, timeout: float = LIMIT) -> Reply:
        reply: Reply = await self.hear(Reply, self.send(method, request, timeout))
        return reply

    async def answer_next(self, payload: bytes = b"", refusal: str = "") -> Request:
        """Answers the plugin's next call."""
        request: Request = await self.hear(Request)
        self.answer(request.stream_id, payload, refusal)
        return request

    async def answer_updates(self, *failed: str) -> list[str]:
        """Answers the plugin's next call with the updates that have failed; returns the ids that it asks for."""
        response = api.UpdateContainersResponse(failed=updates(*failed))
        request = await self.answer_next(response.SerializeToString())
        return [one.container_id for one in api.UpdateContainersRequest.FromString(request.payload).update]

    async def join(self, runtime: tuple[str, str, str] = NEW) -> None:
        await self.answer_next()
        name, version, nri = runtime
        known = api.ConfigureRequest(runtime_name=name, runtime_version=version, NRI_version=nri)
        for method, request in (("Configure", known), ("Synchronize", None)):
            assert (await self.call(method, request)).code == Code.OK

    def close(self, last: bytes = b"") -> None:
        self.writer.write(last)
        self.writer.close()


class Host:
    """A runtime that listens, and comes and goes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._came: asyncio.Queue[Peer] = asyncio.Queue()
        self._peers: list[Peer] = []

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._connected, self.path)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._peers.append(Peer(reader, writer))
        self._came.put_nowait(self._peers[-1])

    def end(self) -> None:
        """Closes all connections, too: a thread that `run` serves in ends with its connection."""
        for peer in self._peers:
            peer.close()
        self.close()

    def close(self) -> None:
        self._server.close()
        with contextlib.suppress(FileNotFoundError):  # since Python 3.13 the server removes it
            os.unlink(self.path)

    async def accept(self) -> Peer:
        return await self._came.get()

    def serve(self, made: Plugin, *, reconnect: bool = False) -> asyncio.Task[None]:
        return asyncio.create_task(serve(made, "mine", "10", self.path, reconnect=reconnect))

    @contextlib.asynccontextmanager
    async def joined(
        self, made: Plugin, runtime: tuple[str, str, str] = NEW, serving: asyncio.Future[None] | None = None
    ) -> AsyncIterator[Peer]:
        """A plugin that has joined, until the runtime closes the connection; by default `serve` serves it."""
        task = serving or self.serve(made)
        peer = await self.accept()
        await peer.join(runtime)
        yield peer
        peer.close()
        await task


def hosted(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test on a loop, with the fixture `host` listening."""

    @wraps(test)
    def run(host: Host, **fixtures: Any) -> None:
        async def whole() -> None:
            await host.open()
            try:
                await asyncio.wait_for(test(host, **fixtures), LIMIT)
            finally:
                host.end()

        with limit(f"the end of {test.__name__}", 1.5 * LIMIT):  # of what does not end when it is cancelled, too
            asyncio.run(whole())

    return run


def in_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """Runs a function in a thread of its own; returns its result. At its end, Python waits for asyncio's threads."""
    ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def tell(with_what: Callable[[Any], object], what: Any) -> None:
        if not ended.done():
            with_what(what)

    def whole() -> None:
        try:
            told = partial(tell, ended.set_result, call())
        except BaseException as error:
            told = partial(tell, ended.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the test has failed, and its loop is closed
            ended.get_loop().call_soon_threadsafe(told)

    Thread(target=whole, daemon=True).start()
    return ended


@contextlib.contextmanager
def logged(text: str) -> Iterator[asyncio.Event]:
    """An event that is set when the log has a line with this text, from whatever thread."""
    loop, seen = asyncio.get_running_loop(), asyncio.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if text in record.getMessage():
                loop.call_soon_threadsafe(seen.set)

    listener = Listener()
    logging.getLogger().addHandler(listener)
    try:
        yield seen
    finally:
        logging.getLogger().removeHandler(listener)


def updates(*ids: str) -> list[api.ContainerUpdate]:
    return [api.ContainerUpdate(container_id=one) for one in ids]


async def awaited(made: Plugin, *ids: str) -> list[str]:
    """The updates that have failed of those that a plugin asks for."""
    return [one.container_id for one in await made.update_containers(updates(*ids))]
