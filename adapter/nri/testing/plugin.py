"""One plugin as the runtime sees it, from its registration to its end, over the runtime's end of the trunk.

Source of the rules: containerd/nri pkg/adaptation/plugin.go and plugin_type.go.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from subprocess import Popen
from typing import Any, NamedTuple, cast

from google.protobuf.message import DecodeError, Message

from nri import api, events
from nri.errors import CallError, MessageTooLarge, NRIError, RegistrationError, RemoteProtocolError
from nri.testing.flavour import ALWAYS_DEDICATED, Flavour
from nri.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, Request

READ_SIZE = 64 << 10

Updates = list[tuple[str, list[api.ContainerUpdate]]]
"""The updates of each call or answer, with the plugin's `NN-NAME`."""


class Late(NRIError):
    """The plugin has not answered in time."""


class Lost(NRIError):
    """The connection with the plugin has ended."""


class Answer(NamedTuple):
    """The answer of one plugin, `NN-NAME`, to one event: an error or a reply."""

    plugin: str
    reply: Message | None = None
    error: str = ""
    fails: bool = False
    """Whether the error fails the event; otherwise the event continues without this plugin."""
    seconds: float = 0
    late: bool = False
    """Whether the plugin has not answered in time."""


class Plugin:
    """A plugin that has connected. While a method waits for the plugin's answer, it serves the plugin's calls."""

    def __init__(
        self,
        trunk: socket.socket,
        flavour: Flavour,
        updates: Updates,
        process: Popen[bytes] | None = None,
        name: str = "",
    ) -> None:
        """Takes the runtime's end of the trunk, and the list that gets the plugin's unsolicited updates.

        A launched plugin has a process, and the name `NN-NAME` of its file.
        """
        self.name = name
        self.closed = ""
        """Why the connection is closed, empty while it is open."""
        self.process = process
        """The process of a launched plugin; None for an external one."""
        self.registration: api.RegisterPluginRequest | None = None
        self.events = 0
        """The mask of the events that the plugin is subscribed to."""
        self.state_change = not flavour.dedicated
        """Whether most events are sent as StateChange."""
        self.metadata: Mapping[str, str] = {}
        """What is sent beside the message of each call."""
        self._flavour = flavour
        self._updates = updates
        self._refusal: CallError | None = None
        self._connection = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
        self._trunk = trunk
        self._trunk.setblocking(False)
        self._outgoing = bytearray()
        self._reply: Reply | None = None

    def fileno(self) -> int:
        """Returns the trunk's descriptor, -1 once it is closed."""
        return self._trunk.fileno()

    def subscribed(self, call: events.Call) -> bool:
        """Whether the plugin is subscribed to an event."""
        return bool(self.events >> (call.event - 1) & 1)

    def register(self) -> None:
        """Waits for the plugin's registration. Raises RegistrationError."""
        with self._joining("register"):
            self._wait(lambda: bool(self.registration or self._refusal), self._flavour.registration_timeout)
        if self._refusal is not None:
            raise RegistrationError(self._refusal.message)  # the connection stays open, as with containerd

    def configure(self, config: str) -> None:
        """Configures the plugin and stores its subscriptions. Raises RegistrationError."""
        request = self._flavour.configure_request(config)
        with self._joining("configure"):
            answer = self._call(events.CALLS["Configure"], request, self._flavour.request_timeout)
            response = cast(api.ConfigureResponse, answer)
            unknown = response.events & ~self._flavour.valid_events & 0xFFFFFFFF
            if unknown:
                raise CallError(Code.UNKNOWN, f"invalid plugin events: {unknown:#x}")
        self.events = response.events or self._flavour.valid_events

    def synchronize(self, parts: Sequence[api.SynchronizeRequest]) -> None:
        """Sends the state of the node, in one message or more. Raises RegistrationError."""
        deadline = time.monotonic() + self._flavour.request_timeout
        with self._joining("synchronize"):
            for number, part in enumerate(parts, 1):
                part.more = number < len(parts)
                answer = self._call(events.CALLS["Synchronize"], part, deadline - time.monotonic())
                response = cast(api.SynchronizeResponse, answer)
                if part.more and (response.update or not response.more):
                    raise CallError(Code.UNKNOWN, "it does not handle a Synchronize in parts")
        if response.update:
            self._updates.append((self.name, list(response.update)))

    def relay(self, call: events.Call, request: Message, timeout: float | None = None) -> Answer:
        """Relays an event. A plugin without an answer in `timeout` seconds (by default the flavour's) is closed."""
        started = time.monotonic()
        try:
            answer = Answer(self.name, self._event(call, request, timeout or self._flavour.request_timeout))
        except CallError as error:
            answer = Answer(self.name, error=error.message, fails=True)
        except (Late, Lost) as error:
            text = f"plugin {self.name} failed to handle {call.method} request: {error}"
            answer = Answer(self.name, error=text, late=isinstance(error, Late))
            self.close(answer.error)
        return answer._replace(seconds=time.monotonic() - started)

    def serve(self) -> None:
        """Handles the data that has arrived, and the end of the connection."""
        with suppress(Lost):
            while self._exchange(0):
                pass

    def close(self, reason: str) -> None:
        """Closes the connection, and kills a launched process as containerd does. The first reason is kept."""
        if not self.closed:
            self.closed = reason
            self._trunk.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @contextmanager
    def _joining(self, step: str) -> Iterator[None]:
        """Closes the plugin and raises RegistrationError if a step of the handshake fails."""
        try:
            yield
        except NRIError as error:
            self.close(f"it failed to {step}: {error}")
            raise RegistrationError(f"plugin {self.name or '?'} failed to {step}: {error}") from error

    def _event(self, call: events.Call, request: Message, timeout: float) -> Message:
        """Sends an event with its own call or, to plugins that do not implement the call, as StateChange."""
        deadline = time.monotonic() + timeout
        if call.method in ALWAYS_DEDICATED or not self.state_change:
            try:
                return self._call(call, request, timeout)
            except CallError as error:
                if error.code != Code.UNIMPLEMENTED or call.method in ALWAYS_DEDICATED:
                    raise
            self.state_change = True
        fields: dict[str, Any] = {field.name: value for field, value in request.ListFields()}
        change = api.StateChangeEvent(event=cast(api.Event.ValueType, call.event), **fields)
        self._call(events.CALLS["StateChange"], change, deadline - time.monotonic())
        return call.response()

    def _call(self, call: events.Call, request: Message, timeout: float) -> Message:
        """Calls the plugin and waits for its answer. Raises CallError, Late and Lost."""
        try:
            self._connection.call(events.PLUGIN, call.method, request.SerializeToString(), timeout, self.metadata)
        except MessageTooLarge as error:
            raise CallError(Code.RESOURCE_EXHAUSTED, str(error)) from None
        self._reply = None
        self._wait(lambda: self._reply is not None, timeout)
        reply: Reply = self._reply  # type: ignore[assignment]  # set by `_wait`
        if reply.code != Code.OK:
            raise CallError(reply.code, reply.message)
        try:
            return call.response.FromString(reply.payload)
        except DecodeError as error:
            raise CallError(Code.INTERNAL, f"undecodable {call.response.DESCRIPTOR.name}: {error}") from None

    def _wait(self, done: Callable[[], bool], timeout: float) -> None:
        """Serves the plugin until `done()`. Raises Late and Lost."""
        deadline = time.monotonic() + timeout
        while not done():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise Late(f"no answer in {timeout:g} s")
            self._exchange(remaining)

    def _exchange(self, timeout: float) -> bool:
        """Writes, then waits once until the socket is ready; returns whether there was data to read. Raises Lost."""
        if self.closed:
            raise Lost(self.closed)
        self._flush()
        readable, _, _ = select.select([self._trunk], [self._trunk] if self._outgoing else [], [], max(0, timeout))
        if not readable:
            return False
        try:
            self._receive()
        except (OSError, RemoteProtocolError) as error:
            self.close(str(error))
            raise Lost(str(error)) from None
        self._flush()
        return True

    def _flush(self) -> None:
        self._outgoing += self._connection.data_to_send()
        if self._outgoing:
            # Reading notices the end of a plugin, after its last messages.
            with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                del self._outgoing[: self._trunk.send(self._outgoing, socket.MSG_NOSIGNAL)]

    def _receive(self) -> None:
        data = self._trunk.recv(READ_SIZE)
        if not data:
            raise ConnectionResetError("connection closed by the plugin")
        for event in self._connection.receive_data(data):
            if isinstance(event, Request):
                self._serve(event)
            else:
                self._reply = event

    def _serve(self, request: Request) -> None:
        try:
            self._connection.respond(request.stream_id, self._handle(request).SerializeToString())
        except CallError as error:
            self._connection.fail(request.stream_id, error.code, error.message)
        except DecodeError as error:
            self._connection.fail(request.stream_id, Code.INTERNAL, f"undecodable {request.method}: {error}")

    def _handle(self, request: Request) -> Message:
        match request.service, request.method:
            case events.RUNTIME, "RegisterPlugin":
                return self._register(api.RegisterPluginRequest.FromString(request.payload))
            case events.RUNTIME, "UpdateContainers":
                wanted = api.UpdateContainersRequest.FromString(request.payload)
                self._updates.append((self.name, list(wanted.update)))
                return api.UpdateContainersResponse()
        raise CallError(Code.UNIMPLEMENTED, f"no method {request.service}/{request.method}")

    def _register(self, request: api.RegisterPluginRequest) -> api.Empty:
        """Registers the plugin. A launched plugin keeps its file's name. Source of the checks: pkg/api/plugin.go."""
        if self.process is None:
            for kind, pattern, text in (
                ("name", r"[A-Za-z0-9_.+-]+", request.plugin_name),
                ("index", r"[0-9]{2}", request.plugin_idx),
            ):
                if not re.fullmatch(pattern, text):
                    self._refusal = CallError(Code.UNKNOWN, f"invalid plugin {kind}: {text!r}")
                    raise self._refusal
            self.name = f"{request.plugin_idx}-{request.plugin_name}"
        self.registration = request
        return api.Empty()
