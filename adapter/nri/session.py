"""How a plugin joins its runtime, and one connection with the runtime: shared by `serving` and `asynchronous`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from nri import events, runtimes
from nri.deferred import Answer, in_turn
from nri.errors import CallError, NRIError, RegistrationError
from nri.plugin import Context, Plugin
from nri.proto import nri_pb2 as api
from nri.stub import Stub, batches
from nri.text import printable
from nri.transport import Identity, connect, launched
from nri.updating import Updating
from nri.wire import Request

if TYPE_CHECKING:
    from nri.holding.holds import Hold, Holds, OnFailure
    from nri.metrics import Metrics

log = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0
"""Seconds between two attempts to join: each wait is twice as long as the previous one."""
GONE = "the connection with the runtime is lost: it is not known which updates the runtime has made"


class Cancelled(CallError):
    """The answer of a cancelled coroutine."""


class Joining:
    """How a plugin joins its runtime: once, or again and again."""

    def __init__(self, path: str, reconnect: bool, metrics: Metrics | None = None, holds: Holds | None = None) -> None:
        self._path = path
        self.holds = holds
        """The holds of the plugin, None if it never holds a container."""
        self.metrics = metrics
        """The metrics of all connections, None if nobody has asked for them."""
        self.again = reconnect and (bool(path) or not launched())
        """Whether the plugin joins again."""
        self._wait = FIRST_WAIT
        self._reason = ""
        """Why the plugin cannot join. It is logged once."""

    def connect(self) -> int | None:
        """Returns a connected descriptor, None if the plugin must wait for the runtime. Raises RegistrationError."""
        try:
            return connect(self._path)
        except RegistrationError as error:
            if not self.again:
                raise
            self._tell(str(error))
            return None

    def goes_on(self, ended: Session) -> bool:
        """Returns whether the plugin joins again after a connection has ended. If not, raises its error, if any."""
        error = ended.error
        if error is not None and (not self.again or isinstance(error, RegistrationError)):
            raise error
        if ended.has_joined:
            self._wait, self._reason = FIRST_WAIT, ""
        if self.again:
            self._tell(str(error or "the runtime has closed the connection"))
        return self.again

    def pause(self) -> float:
        """Returns the seconds to wait before the next attempt."""
        wait, self._wait = self._wait, min(2 * self._wait, LONGEST_WAIT)
        return wait

    def _tell(self, reason: str) -> None:
        if not self._reason:
            self._reason = reason
            log.warning("%s: the plugin keeps trying to join", printable(reason))


def _refused(hold: Hold) -> str:
    """Refuses a container that is held; returns how that has ended. If no keeper answers, the next one refuses it."""
    try:
        return hold.refuse().value
    except NRIError as error:
        return str(error)


class Session(Stub):
    """A connection of `run` or `serve`. It logs the names of late handlers, and asks for updates."""

    def __init__(
        self,
        plugin: Plugin,
        own: Identity,
        write: Callable[[bytes], object],
        metrics: Metrics | None = None,
        holds: Holds | None = None,
    ) -> None:
        """Takes the plugin, its name and index, the function that writes to the trunk, its metrics and its holds.

        To be called in the thread that serves the connection.
        """
        super().__init__(plugin, own.name, own.idx, write)
        self.has_joined = False
        """Whether `on_join` was called."""
        self.error: NRIError | None = None
        """The error that has ended the connection, None if the runtime has closed it."""
        self._runtime = runtimes.Runtime()
        self._metrics = metrics
        self._holds = holds
        self._serving: int
        """The stream of the call whose handler runs."""
        self._is_gone = False
        self._server = get_ident()
        self._updating: set[Updating] = set()

    @contextmanager
    def until_lost(self) -> Iterator[None]:
        """Registers the plugin. The block serves the connection; its end ends the session, and `error` is set."""
        try:
            self.register()
            yield
        except ConnectionError:  # the runtime has closed the connection
            pass
        except NRIError as error:
            self.error = error
        except BaseException as end:
            self._lost(end)
            raise
        self._lost(self.error)

    def _lost(self, error: BaseException | None) -> None:
        self._plugin.ask_for_updates = None
        self._is_gone = True
        if self._metrics is not None:
            self._metrics.lost()
        for updating in tuple(self._updating):
            updating.fail(NRIError(GONE))
        reason = "" if error is None else str(error) or type(error).__name__
        if self.has_joined:
            self._hook("on_disconnect", reason)

    def _hook(self, name: str, *arguments: Any) -> None:
        """Calls a hook of the plugin; logs its error, now or when its coroutine ends."""

        def steps() -> Generator[Answer[Any], Any, None]:
            yield self._run(name, *arguments)

        def on_end(_: None, error: Exception | None) -> None:
            if error is not None and not isinstance(error, Cancelled):
                log.error("%s has failed", name, exc_info=error)

        in_turn(steps()).then(on_end)

    def _serve(self, request: Request, came: float, is_heard: bool) -> None:
        self._serving = request.stream_id
        super()._serve(request, came, is_heard)

    def _run(self, handler: str, *arguments: Any) -> Any:
        context = arguments[-1] if arguments else None
        if self._holds is not None and isinstance(context, Context):
            self._prepare_holds(self._holds, context, arguments[0])
        if self._metrics is not None and isinstance(context, Context):
            self._metrics.called(context)
        try:
            return super()._run(handler, *arguments)
        finally:
            if isinstance(context, Context) and context.remaining() < 0 and not context.is_answered:
                text = "%s has taken %.1f s, longer than the runtime waits, which may drop the plugin"
                log.warning(text, handler, context.elapsed())

    def _configure(self, request: api.ConfigureRequest, context: Context) -> Any:
        self._runtime = runtimes.of(request)
        if self._metrics is not None:
            self._metrics.configured(request)
        return super()._configure(request, context)

    def _prepare_holds(self, holds: Holds, context: Context, event: Any) -> None:
        """Lets StartContainer hold its container, and ends the holds of a container or pod that is stopped."""
        if context.method == "StartContainer":
            context.holder = partial(self._hold, holds, self._serving, context, event)
        elif context.method in events.END_HOLDS:
            id_ = event.container.id if context.method == "StopContainer" else event.pod.id
            for hold in holds.held():
                if id_ in (hold.id, hold.pod_id):
                    log.warning("container %s is stopped while it is held: %s", hold.id, _refused(hold))

    def _hold(
        self,
        holds: Holds,
        stream_id: int,
        context: Context,
        event: api.StartContainerRequest,
        limit: float,
        on_failure: OnFailure,
    ) -> Hold:
        """Holds the container of an event, and answers the event."""
        if context.is_answered:
            raise NRIError("the container is held already")
        hold = holds.hold(event.container, event.pod.id, limit, on_failure, context.due - time.monotonic())
        self._answer(stream_id, context, None)
        context.is_answered = True
        return hold

    def _answer(self, stream_id: int, context: Context, reply: Any, error: Exception | None = None) -> None:
        if context.is_answered:
            if error is not None and not isinstance(error, Cancelled):
                log.error("start_container has failed while it held its container", exc_info=error)
            return
        super()._answer(stream_id, context, reply, error)
        if self._metrics is not None:
            self._metrics.answered(context, reply)
        is_state = context.method == "Synchronize" and not context.has_failed
        begins = is_state and self.synchronized and not self.has_joined
        if begins and not self._is_gone:  # a late answer must not take the place of the next connection
            self.has_joined = True
            self._plugin.ask_for_updates = self._ask
            if self._metrics is not None:
                self._metrics.joined()
            self._hook("on_join")

    def _ask(self, updates: Iterable[api.ContainerUpdate]) -> Updating:
        if reason := self._runtime.refuses_updates:
            raise NRIError(reason)
        calls = list(batches(updates))
        updating = Updating(len(calls), self._server)

        def answered(failed: list[api.ContainerUpdate], error: CallError | None) -> None:
            updating.answered(failed, error)
            if updating.done:
                self._updating.discard(updating)

        if calls:
            self._updating.add(updating)
        for batch in calls:
            self.update_containers(batch, answered)
        if self._is_gone:  # the connection has ended during this method
            updating.fail(NRIError(GONE))
        return updating
