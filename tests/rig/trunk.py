"""The runtime's end of a trunk, in memory: what a stub is talked to with, and what comes of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import Message

from nri import Plugin, Stub, api
from nri.events import PLUGIN, RUNTIME
from nri.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, Request

from .clock import Clock

METHODS = """
RunPodSandbox StopPodSandbox RemovePodSandbox CreateContainer PostCreateContainer StartContainer PostStartContainer
UpdateContainer PostUpdateContainer StopContainer RemoveContainer UpdatePodSandbox PostUpdatePodSandbox
ValidateContainerAdjustment
"""
"""Events in the order of their numbers, written out here so that the stub's own table is not its own witness."""
HANDLERS = {method: re.sub(r"(?<!^)([A-Z])", r"_\1", method).lower() for method in METHODS.split()}
assert all(hasattr(Plugin, handler) for handler in HANDLERS.values())
NUMBERS = {method: number for number, method in enumerate(HANDLERS, 1)}


def plugin(**handlers: Callable[..., Any]) -> Plugin:
    """A plugin whose class overrides these handlers; they take the request and the context."""
    members = {name: staticmethod(handler) for name, handler in handlers.items()}
    made: Plugin = type("Sample", (Plugin,), members)()
    return made


class End:
    """An end of a trunk, by default a runtime's, over whatever writes its bytes."""

    def __init__(self, write: Callable[[bytes], object], *, is_plugin: bool = False) -> None:
        self.heard: list[Request | Reply] = []
        """What the other end asked and answered, in the order of its coming."""
        self._service, serve, call = PLUGIN, RUNTIME_SERVICE, PLUGIN_SERVICE
        if is_plugin:
            self._service, serve, call = RUNTIME, call, serve
        self._connection = Connection(serve=serve, call=call)
        self._write = write

    def receive(self, data: bytes) -> None:
        assert data, "the other end has closed the connection"
        self.heard += self._connection.receive_data(data)

    def ask(
        self,
        method: str,
        payload: bytes = b"",
        timeout: float = 0,
        service: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> int:
        """Calls the other end; returns the stream id of the call."""
        service = self._service if service is None else service
        stream_id = self._connection.call(service, method, payload, timeout, metadata)
        self._write(self._connection.data_to_send())
        return stream_id

    def answer(self, stream_id: int, payload: bytes = b"", refusal: str = "", code: int = Code.UNKNOWN) -> None:
        """Answers a call of the other end."""
        if refusal:
            self._connection.fail(stream_id, code, refusal)
        else:
            self._connection.respond(stream_id, payload)
        self._write(self._connection.data_to_send())


class Runtime(End):
    """A runtime with one plugin. Bytes cross at once, so a call returns its reply, or None while there is none."""

    def __init__(
        self, plugin: Plugin | None = None, name: str = "sample", idx: str = "10", *, clock: Any = None
    ) -> None:
        self.clock = clock or Clock()
        self.stub = Stub(plugin or Plugin(), name, idx, self.receive, self.clock)
        super().__init__(self.stub.receive_data)

    @property
    def requests(self) -> list[Request]:
        return [event for event in self.heard if isinstance(event, Request)]

    @property
    def replies(self) -> list[Reply]:
        return [event for event in self.heard if isinstance(event, Reply)]

    def send(self, method: str, payload: bytes = b"", timeout: float = 0, service: str = PLUGIN) -> Reply | None:
        return self.reply(self.ask(method, payload, timeout, service))

    def call(self, method: str, request: Message | None = None, timeout: float = 0) -> Reply:
        """Calls the plugin, which answers at once."""
        reply = self.send(method, b"" if request is None else request.SerializeToString(), timeout)
        assert reply is not None, f"{method} was not answered"
        return reply

    def reply(self, stream_id: int) -> Reply | None:
        """The reply to a call of the runtime's, if it has come."""
        found = [reply for reply in self.replies if reply.stream_id == stream_id]
        assert len(found) <= 1, f"{len(found)} answers to one call"
        return found[0] if found else None

    def configure(self, request: api.ConfigureRequest | None = None) -> api.ConfigureResponse:
        """Configures the plugin, which accepts."""
        reply = self.call("Configure", request)
        assert reply.code == Code.OK, reply.message
        return api.ConfigureResponse.FromString(reply.payload)
