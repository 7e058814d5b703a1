"""A trunk that is called and waited for: the wire's state machine, a socket, and deadlines."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable

from google.protobuf.message import DecodeError, Message

from adapter.errors import AdapterError, CallError, MessageTooLarge, RemoteProtocolError
from adapter.nri import events
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, Request

READ_SIZE = 64 << 10


class Late(AdapterError):
    """The plugin did not answer in time."""


class Lost(AdapterError):
    """The connection to the plugin is gone."""


class Link:
    """The runtime's end of a trunk. Whatever waits here serves the plugin's own calls meanwhile."""

    def __init__(self, trunk: socket.socket, handle: Callable[[Request], Message]) -> None:
        """`handle` answers the plugin's calls; it may raise CallError and DecodeError."""
        self.closed = ""
        """Why it is closed, empty while it is not."""
        self._connection = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
        self._handle = handle
        self._trunk = trunk
        self._trunk.setblocking(False)
        self._outgoing = bytearray()
        self._awaited = 0
        self._reply: Reply | None = None

    def fileno(self) -> int:
        """Returns the trunk's descriptor, -1 once it is closed."""
        return self._trunk.fileno()

    def close(self, reason: str) -> None:
        """Closes it; only the first reason counts."""
        if not self.closed:
            self.closed = reason
            self._trunk.close()

    def call(self, call: events.Call, request: Message, timeout: float) -> Message:
        """Calls the plugin and waits for its answer. Raises CallError, Late and Lost."""
        try:
            self._awaited = self._connection.call(events.PLUGIN, call.method, request.SerializeToString(), timeout)
        except MessageTooLarge as error:
            raise CallError(Code.RESOURCE_EXHAUSTED, str(error)) from None
        self._reply = None
        self.wait(lambda: self._reply is not None, timeout)
        reply: Reply = self._reply  # type: ignore[assignment]  # it was set while we waited
        if reply.code != Code.OK:
            raise CallError(reply.code, reply.message)
        try:
            return call.response.FromString(reply.payload)
        except DecodeError as error:
            raise CallError(Code.INTERNAL, f"undecodable {call.response.DESCRIPTOR.name}: {error}") from None

    def wait(self, done: Callable[[], bool], timeout: float) -> None:
        """Serves the plugin until `done()`. Raises Late and Lost."""
        deadline = time.monotonic() + timeout
        while not done():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise Late(f"no answer in {timeout:g} s")
            self._exchange(remaining)

    def serve(self) -> None:
        """Handles what has come since the last call. Raises Lost."""
        while self._exchange(0):
            pass

    def _exchange(self, timeout: float) -> bool:
        """Waits until bytes can be read or written, once; returns whether there were any to read. Raises Lost."""
        if self.closed:
            raise Lost(self.closed)
        self._flush()
        poll = select.poll()
        poll.register(self._trunk, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        ready = dict(poll.poll(max(0, timeout) * 1000)).get(self._trunk.fileno(), 0)
        if not ready & ~select.POLLOUT:
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
            # That the plugin is gone shows when its last words have been read.
            with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                del self._outgoing[: self._trunk.send(self._outgoing, socket.MSG_NOSIGNAL)]

    def _receive(self) -> None:
        data = self._trunk.recv(READ_SIZE)
        if not data:
            raise ConnectionResetError("connection closed by the plugin")
        for event in self._connection.receive_data(data):
            if isinstance(event, Request):
                self._serve(event)
            elif event.stream_id == self._awaited:
                self._reply = event  # any other is a late one, which nobody waits for any more

    def _serve(self, request: Request) -> None:
        try:
            self._connection.respond(request.stream_id, self._handle(request).SerializeToString())
        except CallError as error:
            self._connection.fail(request.stream_id, error.code, error.message)
        except DecodeError as error:
            self._connection.fail(request.stream_id, Code.INTERNAL, f"undecodable {request.method}: {error}")
        except MessageTooLarge as error:
            self._connection.fail(request.stream_id, Code.RESOURCE_EXHAUSTED, str(error))
