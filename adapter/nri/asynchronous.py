"""Serves a plugin on asyncio's loop: its handlers may be coroutines."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import current_thread, get_ident, main_thread
from typing import TYPE_CHECKING, Any, cast

from nri.deferred import Deferred
from nri.errors import CallError
from nri.plugin import Context, Plugin
from nri.session import Cancelled, Joining, Session
from nri.transport import Identity
from nri.wire import Code

if TYPE_CHECKING:
    pass

log = logging.getLogger(__name__)

BLOCKED = 0.1
"""Seconds. The log names a handler that blocks the loop for longer."""
GRACE = 10.0
"""Seconds that cancelled coroutines get to end."""
INTERRUPTED = 130
"""The exit code after Ctrl-C."""
ENDED_BY_SIGNAL: list[Callable[[int], None]] = []
"""Each ends a `serve` of the main thread's loop. The first `serve` sets the handlers, the last removes them."""
HANDLED: set[int] = set()
"""The signals whose handlers are set."""


async def serve(plugin: Plugin, own: Identity, joining: Joining) -> None:
    """Serves a runtime on the running loop, one connection after the other; `nri.serve` describes it."""
    tasks = Tasks()
    serving = asyncio.get_running_loop().create_task(_serve(plugin, own, joining, tasks))
    with _cancelled_by_signals(serving):
        try:
            await serving
        finally:
            await tasks.cancel()


async def _serve(plugin: Plugin, own: Identity, joining: Joining, tasks: Tasks) -> None:
    while True:
        fd = joining.connect()
        if fd is not None and not joining.goes_on(await _serve_connection(plugin, own, fd, tasks, joining)):
            return
        await asyncio.sleep(joining.pause())


async def _serve_connection(plugin: Plugin, own: Identity, fd: int, tasks: Tasks, joining: Joining) -> Session:
    """Serves one connection until it ends."""
    session = AsyncSession(plugin, own, tasks, joining)
    await asyncio.get_running_loop().create_connection(lambda: session, sock=socket.socket(fileno=fd))
    try:
        with session.until_lost():
            await session.gone
    finally:
        await tasks.hooks()
    return session


@contextmanager
def _cancelled_by_signals(serving: asyncio.Task[None]) -> Iterator[None]:
    """Inside, SIGTERM and Ctrl-C cancel `serving`. A program's own handlers are kept.

    After SIGTERM the block ends without an error, after Ctrl-C with SystemExit: asyncio's own way prints a traceback.
    """
    is_first = not ENDED_BY_SIGNAL and current_thread() is main_thread()
    handled = [number for number in (signal.SIGTERM, signal.SIGINT) if is_first and _is_free(number)]
    if not handled and (is_first or current_thread() is not main_thread()):
        yield
        return
    told: list[int] = []

    def end(number: int) -> None:
        if serving.cancel(signal.Signals(number).name):
            told.append(number)

    for number in handled:
        serving.get_loop().add_signal_handler(number, _end_all, number)
        HANDLED.add(number)
    ENDED_BY_SIGNAL.append(end)
    try:
        yield
    except asyncio.CancelledError:
        if not told:
            raise
        if signal.SIGINT in told:
            raise SystemExit(INTERRUPTED) from None
    finally:
        ENDED_BY_SIGNAL.remove(end)
        while HANDLED and not ENDED_BY_SIGNAL:
            serving.get_loop().remove_signal_handler(HANDLED.pop())


def _is_free(number: int) -> bool:
    """Whether the program has no handler of its own for a signal; asyncio's for Ctrl-C is none."""
    handler = signal.getsignal(number)
    is_asyncios = getattr(getattr(handler, "func", None), "__qualname__", "") == "Runner._on_sigint"
    return is_asyncios or handler in (signal.SIG_DFL, signal.default_int_handler)


def _end_all(number: int) -> None:
    if number == signal.SIGINT:
        print("interrupted", file=sys.stderr)
    for end in tuple(ENDED_BY_SIGNAL):
        end(number)


class AsyncSession(Session, asyncio.Protocol):
    """A connection of `serve`. A handler's coroutine becomes a task, which completes the answer."""

    def __init__(self, plugin: Plugin, own: Identity, tasks: Tasks, joining: Joining) -> None:
        super().__init__(plugin, own, self._send, joining.metrics, joining.holds)
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._out: deque[bytes] = deque()
        """Bytes to send, in order. The session adds them in one thread at a time."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection has ended, with the error for which this end closes it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sets the transport. Nothing is sent before."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Takes bytes from the runtime; an error ends the connection."""
        try:
            if not self.gone.done():
                self.receive_data(data)
        except Exception as error:
            if not self.gone.done():
                self.gone.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """The runtime has closed the connection, or this end has."""
        if not self.gone.done():
            self.gone.set_result(None)

    def _lost(self, error: BaseException | None) -> None:
        self._transport.abort()
        super()._lost(error)

    def _send(self, data: bytes) -> None:
        """Sends bytes, from any thread."""
        self._out.append(data)
        if get_ident() == self._thread:
            self._send_all()
        else:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._send_all)

    def _send_all(self) -> None:
        while self._out:
            data = self._out.popleft()
            if not self._transport.is_closing():
                self._transport.write(data)

    def _run(self, handler: str, *arguments: Any) -> Any:
        with log_if_it_blocks(handler):
            answer = super()._run(handler, *arguments)
        if not isinstance(answer, Coroutine):
            return answer
        context = arguments[-1] if arguments and isinstance(arguments[-1], Context) else None
        return self._tasks.start(handler, answer, context)


class Tasks:
    """The coroutines of handlers and hooks. A coroutine may outlive its connection, but not `serve`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, handler: str, coroutine: Coroutine[Any, Any, Any], context: Context | None) -> Deferred[Any]:
        """Starts the coroutine of a handler; returns its answer, which is complete at `context.due` at the latest."""
        answer: Deferred[Any] = Deferred()
        began = time.monotonic()
        task = self._loop.create_task(WatchedCoroutine(handler, coroutine), name=handler)
        self._tasks.add(task)
        if context is not None:
            late = self._loop.call_later(max(0.0, context.due - began), _answer_for, handler, answer, context)
            task.add_done_callback(lambda _: late.cancel())
        task.add_done_callback(partial(self._ended, answer, began))
        return answer

    async def hooks(self) -> None:
        """Waits until the coroutine of `on_disconnect` has ended."""
        left = [task for task in self._tasks if task.get_name() == "on_disconnect"]
        if left:
            await asyncio.wait(left, timeout=GRACE)

    async def cancel(self) -> None:
        """Cancels all coroutines, waits for them for at most GRACE seconds, and logs the names of the rest."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, busy = await asyncio.wait(self._tasks, timeout=GRACE)
            for task in busy:
                log.warning("%s still runs %g s after it was cancelled: it is left", task.get_name(), GRACE)

    def _ended(self, answer: Deferred[Any], began: float, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        handler = task.get_name()
        error = None if task.cancelled() else task.exception()
        if answer.done:
            seconds = time.monotonic() - began
            log.warning("%s has ended after %.1f s, after its answer", handler, seconds, exc_info=error)
        elif error is None and not task.cancelled():
            answer.complete(task.result())
        else:
            answer.fail(error if isinstance(error, Exception) else Cancelled(Code.UNKNOWN, f"{handler} was cancelled"))


class WatchedCoroutine(Coroutine[Any, Any, Any]):
    """The coroutine of a handler. If one step of it blocks the loop, the log names the handler."""

    def __init__(self, handler: str, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._handler = handler
        self._coroutine = coroutine

    def send(self, value: Any) -> Any:
        """Runs the next step."""
        with log_if_it_blocks(self._handler):
            return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Runs the next step with an error."""
        with log_if_it_blocks(self._handler):
            return self._coroutine.throw(*error)

    def close(self) -> None:
        """Closes a coroutine that has not started."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()


@contextmanager
def log_if_it_blocks(handler: str) -> Iterator[None]:
    """Logs a handler's name if this step takes BLOCKED seconds or more."""
    began = time.monotonic()
    try:
        yield
    finally:
        seconds = time.monotonic() - began
        if seconds >= BLOCKED:
            log.warning("%s has blocked the loop for %.1f s", handler, seconds)


def _answer_for(handler: str, answer: Deferred[Any], context: Context) -> None:
    if context.is_answered:
        return
    error = CallError(Code.DEADLINE_EXCEEDED, f"{handler} has not answered in {context.elapsed():.1f} s")
    log.warning("%s: the runtime gets this error, and the handler continues", error)
    answer.fail(error)
