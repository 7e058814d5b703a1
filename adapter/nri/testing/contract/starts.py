"""Starts a plugin afresh for each situation, and relays calls to it under the clock and the lock of a real runtime.

Source of the lock: containerd internal/nri/nri.go and CRI-O internal/nri/nri.go: updateFromPlugin waits for the lock
that each event and the synchronization of a plugin hold.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any, NamedTuple, Protocol

from google.protobuf.message import Message

from nri import api, events
from nri.errors import CallError, RegistrationError
from nri.testing.flavour import Flavour
from nri.testing.launch import PluginFile, spawn, undisturbed
from nri.testing.plugin import Late, Lost, Plugin
from nri.wire import Code, Request

PATIENCE = 3
"""A late answer is waited for so many times longer than a runtime waits, so that only `answers-in-time` fails."""
GRACE = 12.0
"""Seconds for a plugin to end after SIGTERM. The adapter takes up to 10."""
LONGEST = 200
"""Characters of a message in a verdict."""

Outcome = Message | CallError | Lost
"""A reply, an error, or the end of the connection."""


class Running(Protocol):
    """The part of Popen that a running plugin needs."""

    def poll(self) -> int | None:
        """Returns None while the plugin runs."""

    def wait(self, timeout: float | None = None) -> Any:
        """Waits for its end. Raises TimeoutExpired."""

    def terminate(self) -> None:
        """Asks the plugin to end."""

    def kill(self) -> None:
        """Ends the plugin."""


class Launched(NamedTuple):
    """A plugin that the runtime launches."""

    file: PluginFile
    output: int | None = None
    state: str = ""

    @property
    def config(self) -> str:
        """The text that Configure passes."""
        return self.file.config


class External(NamedTuple):
    """A plugin that connects to a socket. `run` starts it; the plugin finds the socket by itself."""

    socket: Path
    run: Callable[[], Running]
    config: str = ""
    """Runtimes pass no text to such a plugin."""


Source = Launched | External


class Watched(Plugin):
    """A plugin whose calls are timed. As under a real runtime, its UpdateContainers waits for the end of an event."""

    def __init__(self, bench: Bench, trunk: socket.socket, process: Popen[bytes] | None, name: str) -> None:
        super().__init__(trunk, bench.flavour, [], process, name)
        self.refuses_updates = False
        """Whether UpdateContainers is answered with an error."""
        self._bench = bench
        self._busy = False
        self._held: list[Request] = []

    def ask(self, method: str, request: Message) -> Outcome:
        """Relays an event whether the plugin is subscribed or not. Raises Late."""
        came = self._outcome(lambda: self._event(events.CALLS[method], request, self._flavour.request_timeout))
        if isinstance(came, CallError):
            self._bench.refused(method, request, came)
        return came

    def call(self, call: events.Call, request: Message) -> Outcome:
        """Makes a call that need not be an event. Raises Late."""
        return self._outcome(lambda: self._call(call, request, self._flavour.request_timeout))

    def disconnect(self) -> None:
        """Closes the connection, and lets the process run."""
        self.closed = "the runtime has closed the connection"
        self._trunk.close()

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
                self._bench.late(call.method, seconds, is_blocked=bool(self._held))
            self._busy = False
            for held in self._held:
                self._serve(held)
            self._held.clear()
            self.serve()

    def _wait(self, done: Callable[[], bool], timeout: float) -> None:
        super()._wait(done, timeout * self._bench.patience)

    def _serve(self, request: Request) -> None:
        if request.method == "UpdateContainers":
            self._bench.has_updated = True
            if self._busy:
                self._held.append(request)
                return
        super()._serve(request)

    def _handle(self, request: Request) -> Message:
        if self.refuses_updates and request.method == "UpdateContainers":
            raise CallError(Code.UNKNOWN, "NRI update of some containers failed")  # containerd's text
        return super()._handle(request)


@dataclass
class Start:
    """One fresh start of the plugin."""

    plugin: Watched
    process: Running
    listener: socket.socket | None = None
    """Where a plugin that connects by itself may connect again."""

    def register(self) -> None:
        """Waits for the registration. Raises Late, Lost and RegistrationError."""
        _plain(self.plugin.register)

    def configure(self, config: str) -> None:
        """Raises Late, Lost, CallError."""
        _plain(lambda: self.plugin.configure(config))

    def synchronize(self, *parts: api.SynchronizeRequest) -> None:
        """Raises Late, Lost, CallError."""
        _plain(lambda: self.plugin.synchronize(parts or [api.SynchronizeRequest()]))


def _plain(step: Callable[[], None]) -> None:
    """Raises the reason of a failed step itself."""
    try:
        step()
    except RegistrationError as error:
        raise (error.__cause__ or error) from None


@dataclass
class Bench:
    """What the situations share: the plugin, the runtime that is played, the container, and the times."""

    source: Source
    flavour: Flavour
    life: list[tuple[str, Message]]
    """The events of a pod with one container, in order."""
    patience: float = PATIENCE
    ignores_sigterm: bool = False
    """Whether the plugin has gone on after SIGTERM; then it is not waited for again."""
    slow: list[tuple[str, float]] = field(default_factory=list)
    """The calls whose answer was late or did not come, with the seconds that were waited."""
    blocked: str = ""
    """The event in which the plugin has waited for the answer to its own UpdateContainers."""
    refusals: dict[str, None] = field(default_factory=dict)
    """The errors that the plugin has answered, with their events."""
    refused_stops: list[tuple[str, str]] = field(default_factory=list)
    """Refused events of the end of a container or pod: what was sent, and what came."""
    refused_usually: set[str] = field(default_factory=set)
    """The events that the plugin refuses in the usual life of a pod."""
    has_updated: bool = False
    """Whether the plugin has called UpdateContainers."""
    events: int = 0
    """The mask of the plugin's events, once it has joined."""
    is_sound: bool = False
    """Whether the plugin has answered the usual life of a pod."""

    @property
    def name(self) -> str:
        """The plugin's name, `NN-NAME` if the runtime launches it."""
        return self.source.file.name if isinstance(self.source, Launched) else "external"

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
        if method in ("StopContainer", "StopPodSandbox"):
            self.refused_stops.append((f"{method} {shown(request)}", shown(error)))

    def of_plugin(self, calls: Iterable[tuple[str, Message]]) -> Iterator[tuple[str, Message]]:
        """Yields the events to which the plugin is subscribed."""
        return ((method, request) for method, request in calls if self.subscribed(method))

    def subscribed(self, method: str) -> bool:
        """Whether the plugin is subscribed to an event."""
        return bool(self.events >> (events.CALLS[method].event - 1) & 1)

    @contextmanager
    def start(self) -> Iterator[Start]:
        """Starts the plugin; it has only connected. Ends it, too.

        Raises Late or Lost if the plugin does not connect, and OSError if it cannot be started.
        """
        with ExitStack() as stack:
            if isinstance(self.source, Launched):
                with undisturbed():
                    trunk, launched = spawn(self.source.file, self.source.output, self.source.state)
                start = Start(Watched(self, trunk, launched, self.name), launched)
            else:
                start = self._external(stack, self.source)
            stack.callback(self._end, start)
            yield start

    def _end(self, start: Start) -> None:
        """Ends a plugin with SIGTERM first: one that is only killed or disconnected may try to join again."""
        if start.process.poll() is None:
            start.process.terminate()
            self.ignores_sigterm = not ends(start.process, 0 if self.ignores_sigterm else GRACE)
        start.plugin.close("the situation is over")
        start.process.kill()
        start.process.wait()

    def _external(self, stack: ExitStack, source: External) -> Start:
        listener = stack.enter_context(listening(source.socket))
        process = source.run()
        try:
            trunk = accepted(listener, process, self.flavour.registration_timeout * self.patience)
            if trunk is None:
                raise Lost(f"the plugin has ended with exit code {process.poll()}, without a connection")
        except BaseException:
            process.kill()
            process.wait()
            raise
        return Start(Watched(self, trunk, None, ""), process, listener)

    @contextmanager
    def joined_start(self) -> Iterator[Start]:
        """Starts the plugin and takes it into service."""
        with self.start() as start:
            start.register()
            start.configure(self.source.config)
            start.synchronize()
            yield start

    @contextmanager
    def joined(self) -> Iterator[Watched]:
        """Starts the plugin and takes it into service; yields the plugin."""
        with self.joined_start() as start:
            yield start.plugin


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Listens on a path; removes the socket at the end. Raises OSError."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def accepted(listener: socket.socket, process: Running, timeout: float) -> socket.socket | None:
    """Returns the next connection, None if the process ends before. Raises Late."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if select.select([listener], [], [], 0.05)[0]:
            return listener.accept()[0]
        if process.poll() is not None:
            return None
    raise Late(f"no connection in {timeout:g} s")


def ends(process: Running, timeout: float) -> bool:
    """Waits for the end of a process; returns whether it has ended."""
    with suppress(TimeoutExpired):
        process.wait(timeout)
    return process.poll() is not None


def shown(message: Message | Exception) -> str:
    """Returns a message in a line, cut."""
    if isinstance(message, CallError):
        return f"error {message.code}: {message}"[:LONGEST]
    if isinstance(message, Exception):
        return f"{message}"[:LONGEST]
    text = " ".join(str(message).split()) if message.ByteSize() < LONGEST * 50 else f"{message.ByteSize()} bytes"
    return f"{message.DESCRIPTOR.name} {{{text[:LONGEST]}{'…' if len(text) > LONGEST else ''}}}"
