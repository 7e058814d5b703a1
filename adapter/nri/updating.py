"""Updates of containers outside of an event, and the runtime's answer to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from threading import Event, get_ident
from typing import TYPE_CHECKING, Any

from nri.deferred import Deferred
from nri.proto import nri_pb2 as api

if TYPE_CHECKING:
    from asyncio import Future

log = logging.getLogger(__name__)

Failed = list[api.ContainerUpdate]


class Updating(Deferred[Failed]):
    """The answer to `Plugin.update_containers`: the updates that have failed.

    Do one of these, once: await it in a coroutine, call `result` in a thread of your own, or call `then`. The error is
    a CallError if the runtime refuses a call, and an NRIError if the connection is lost.
    """

    def __init__(self, calls: int, server: int) -> None:
        """Takes the number of calls in which the updates go out, and the thread that serves the runtime."""
        super().__init__()
        self._missing = calls
        self._failed: Failed = []
        self._server = server
        if not calls:
            self.complete(self._failed)

    def then(self, listener: Callable[[Failed | None, Exception | None], object]) -> None:
        """Calls `listener(failed, error)` once, when the answer comes or now. Logs an exception of the listener."""

        def on_answer(failed: Failed | None, error: Exception | None) -> None:
            try:
                listener(failed, error)
            except Exception:  # an exception would end the connection
                log.exception("the listener of an update has failed")

        super().then(on_answer)

    def answered(self, failed: Failed, error: Exception | None) -> None:
        """Adds the answer to one of the calls."""
        self._missing -= 1
        self._failed += failed
        if error is not None:
            self.fail(error)
        elif not self._missing:
            self.complete(self._failed)

    def result(self, timeout: float | None = None) -> Failed:
        """Waits for the answer for at most `timeout` seconds; returns the updates that have failed.

        Raises TimeoutError after that time, and RuntimeError in the thread that serves the runtime.
        """
        if get_ident() == self._server:
            raise RuntimeError("this thread serves the runtime, and cannot wait for an answer that it has to read")
        completed = Event()
        self.then(lambda *_: completed.set())
        if not completed.wait(timeout):
            raise TimeoutError(f"the runtime has not answered the updates in {timeout:g} s")
        return self._answer()

    def __await__(self) -> Generator[Any, None, Failed]:
        import asyncio  # only for those who use it  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        completed: Future[None] = loop.create_future()
        self.then(lambda *_: loop.call_soon_threadsafe(_wake, completed))
        yield from completed
        return self._answer()

    def _answer(self) -> Failed:
        """Returns the updates that have failed, or raises the error. To be called after the completion."""
        failed, error = self._outcome or (None, None)
        if error is not None:
            raise error
        return failed or []


def _wake(waiting: Future[None]) -> None:
    if not waiting.done():  # it may be cancelled
        waiting.set_result(None)
