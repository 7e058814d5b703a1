"""A plugin under the clock and the lock of a real runtime, and the record of what it has done.

Source of the lock: containerd internal/nri/nri.go and CRI-O internal/nri/nri.go: updateFromPlugin waits for the lock
that each event and the synchronization of a plugin hold.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from subprocess import Popen

from google.protobuf.message import Message

from nri import events
from nri.errors import CallError
from nri.testing.flavour import Flavour
from nri.testing.plugin import Late, Lost, Plugin
from nri.wire import Code, Request

PATIENCE = 3
"""A late answer is waited for so many times longer than a runtime waits, so that only `answers-in-time` fails."""
LONGEST = 200
"""Characters of a message in a verdict."""

Outcome = Message | CallError | Lost
"""A reply, an error, or the end of the connection."""


@dataclass
class Record:
    """What a plugin has done in all situations so far."""

    patience: float = PATIENCE
    """How many times longer than a runtime an answer is waited for."""
    ignores_sigterm: bool = False
    """Whether the plugin has gone on after SIGTERM; then it is not waited for again."""
    slow: list[tuple[str, float]] = field(default_factory=list)
    """The calls whose answer was late or did not come, with the seconds that were waited."""
    blocked: str = ""
    """The event in which the plugin has waited for the answer to its own UpdateContainers."""
    refusals: dict[str, None] = field(default_factory=dict)
    """The errors that the plugin has answered, with their events."""
    refused_stops: list[tuple[str, str]] = field(default_factory=list)
    """Each refused StopPodSandbox: what was sent, and what came."""
    refused_usually: set[str] = field(default_factory=set)
    """The events that the plugin refuses in the usual life of a pod."""
    has_updated: bool = False
    """Whether the plugin has called UpdateContainers."""
    events: int = 0
    """The mask of the plugin's events, once it has joined."""
    is_sound: bool = False
    """Whether the plugin has answered the usual life of a pod."""

    def late(self, method: str, seconds: float, *, is_blocked: bool = False) -> None:
        """Records a late answer, or none."""
        self.patience = 1  # the verdict is certain: no further answer is waited for
        if is_blocked:
            self.blocked = method
        else:
            self.slow.append((method, seconds))

    def refused(self, method: str, request: Message, error: CallError) -> None:
        """Records an error that the plugin has answered."""
        self.refusals[f"{method}: {shown(error)}"] = None
        if method == "StopPodSandbox":
            self.refused_stops.append((f"{method} {shown(request)}", shown(error)))

    def of_plugin(self, calls: Iterable[tuple[str, Message]]) -> Iterator[tuple[str, Message]]:
        """Yields the events to which the plugin is subscribed."""
        return ((method, request) for method, request in calls if self.subscribed(method))

    def subscribed(self, method: str) -> bool:
        """Whether the plugin is subscribed to an event."""
        return bool(self.events & events.mask([method]))


class Watched(Plugin):
    """A plugin whose calls are timed. As under a real runtime, its UpdateContainers waits for the end of an event."""

    def __init__(
        self, record: Record, flavour: Flavour, trunk: socket.socket, process: Popen[bytes] | None, name: str
    ) -> None:
        super().__init__(trunk, flavour, [], process, name)
        self.refuses_updates = False
        """Whether UpdateContainers is answered with an error."""
        self._has_updated = False
        self._record = record
        self._busy = False
        self._held: list[Request] = []

    def ask(self, method: str, request: Message) -> Outcome:
        """Relays an event whether the plugin is subscribed or not. Raises Late."""
        came = self._outcome(lambda: self._event(events.CALLS[method], request, self._flavour.request_timeout))
        if isinstance(came, CallError):
            self._record.refused(method, request, came)
        return came

    def call(self, call: events.Call, request: Message) -> Outcome:
        """Makes a call that need not be an event. Raises Late."""
        return self._outcome(lambda: self._call(call, request, self._flavour.request_timeout))

    def disconnect(self) -> None:
        """Closes the connection, and lets the process run."""
        self.closed = "the runtime has closed the connection"
        self._trunk.close()

    def wait_for_update(self, seconds: float) -> None:
        """Waits for an UpdateContainers that no event has caused, for at most so many seconds."""
        if seconds:
            with suppress(Late, Lost):  # the next event meets the end of the connection
                super()._wait(lambda: self._has_updated, seconds)

    @contextmanager
    def _joining(self, step: str) -> Iterator[None]:
        """Lets the reason of a failed step through. The end of the situation closes the plugin."""
        yield

    def _outcome(self, act: Callable[[], Message]) -> Outcome:
        try:
            return act()
        except (CallError, Lost) as outcome:
            return outcome

    def _call(self, call: events.Call, request: Message, timeout: float) -> Message:
        self._busy = call.method != "Configure"
        started, is_late = time.monotonic(), False
        try:
            return super()._call(call, request, timeout)
        except Late:
            is_late = True
            raise
        finally:
            seconds = time.monotonic() - started
            if is_late or seconds > self._flavour.request_timeout:
                is_blocked = is_late and bool(self._held) and not self._record.slow  # one that is slow may be just late
                self._record.late(call.method, seconds, is_blocked=is_blocked)
            self._busy = False
            for held in self._held:
                self._serve(held)
            self._held.clear()
            self.serve()

    def _wait(self, done: Callable[[], bool], timeout: float) -> None:
        super()._wait(done, timeout * self._record.patience)

    def _serve(self, request: Request) -> None:
        if request.method == "UpdateContainers":
            self._record.has_updated = self._has_updated = True
            if self._busy:
                self._held.append(request)
                return
        super()._serve(request)

    def _handle(self, request: Request) -> Message:
        if self.refuses_updates and request.method == "UpdateContainers":
            raise CallError(Code.UNKNOWN, "NRI update of some containers failed")  # containerd's text
        return super()._handle(request)


def shown(message: Message | Exception) -> str:
    """Returns a message in a line, cut."""
    if isinstance(message, CallError):
        return f"error {message.code}: {message}"[:LONGEST]
    if isinstance(message, Exception):
        return f"{message}"[:LONGEST]
    text = " ".join(str(message).split()) if message.ByteSize() < LONGEST * 50 else f"{message.ByteSize()} bytes"
    return f"{message.DESCRIPTOR.name} {{{text[:LONGEST]}{'…' if len(text) > LONGEST else ''}}}"
