"""One end of a trunk as a pure state machine: bytes in, requests and replies out, and bytes to send.

An end serves one logical connection and makes its calls on the other one. A plugin and a runtime use them in opposite
roles; that is the only difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from google.protobuf.message import DecodeError

from nri.errors import CallError, MessageTooLarge, RemoteProtocolError
from nri.proto import ttrpc_pb2
from nri.wire import mux, ttrpc
from nri.wire.ttrpc import Code, Type

PLUGIN_SERVICE = 1
"""conn_id of the runtime's calls to the plugin."""
RUNTIME_SERVICE = 2
"""conn_id of the plugin's calls to the runtime."""

NANO = 1_000_000_000
REQUEST, RESPONSE, DATA = Type  # a global name is faster than an enumeration's attribute
MAX_ERROR_TEXT = 64 << 10
"""Maximum bytes of an error's text; a longer text is cut, because an oversized message would end the connection."""


class Request(NamedTuple):
    """A call from the peer, to be answered with `respond` or `fail`.

    `timeout` is in seconds: None if there is none, negative if the caller's deadline has passed already. `metadata` has
    the keys and values that the caller has sent beside the message.
    """

    stream_id: int
    service: str
    method: str
    payload: bytes
    timeout: float | None
    metadata: tuple[tuple[str, str], ...] = ()


class Reply(NamedTuple):
    """The peer's answer to a call. If `code` is not Code.OK, `message` is the error."""

    stream_id: int
    code: int
    message: str
    payload: bytes


class Connection:
    """One end of the two logical connections of a trunk."""

    def __init__(self, *, serve: int, call: int) -> None:
        """Takes the conn_id of the peer's calls (`serve`) and the conn_id of our calls (`call`)."""
        self._serve, self._call = serve, call
        self._frames = mux.reader()
        self._readers = {serve: ttrpc.reader(), call: ttrpc.reader()}
        self.out: list[bytes] = []
        """What `data_to_send` takes."""
        self._last_served = 0
        self._next_call = 1
        self._pending: set[int] = set()

    def receive_data(self, data: bytes) -> Iterator[Request | Reply]:
        """Yields the peer's requests and replies. An invalid request is answered with an error and not yielded.

        Raises RemoteProtocolError when the stream is broken. Exhaust the iterator before the next call.
        """
        for (conn_id, length), payload in self._frames.receive_data(data):
            if payload is None:  # Go closes the trunk over such a frame
                raise RemoteProtocolError(f"connection {conn_id}: a frame of {length} bytes, at most {mux.MAX_PAYLOAD}")
            reader = self._readers.get(conn_id)
            if reader is None:
                continue
            decode = self._request if conn_id == self._serve else self._reply
            for (_, stream_id, type_, _), envelope in reader.receive_data(payload):
                event = decode(stream_id, type_, envelope)
                if event is not None:
                    yield event

    def data_to_send(self) -> bytes:
        """Returns the bytes to send that were added since the last call.

        Another thread may add bytes in `receive_data`: only the bytes returned are removed.
        """
        if not self.out:
            return b""
        taken = self.out[:]
        del self.out[: len(taken)]
        return b"".join(taken)

    def respond(self, stream_id: int, payload: bytes) -> None:
        """Answers a request. Raises MessageTooLarge beyond 4 MiB: the request then still needs an answer."""
        envelope = ttrpc_pb2.Response(payload=payload).SerializeToString() if payload else b""
        self._send(self._serve, stream_id, RESPONSE, envelope)

    def fail(self, stream_id: int, code: int, text: str) -> None:
        """Answers a request with an error status; cuts a text longer than 64 KiB."""
        status = ttrpc_pb2.Status(code=code, message=_cut(text))
        self._send(self._serve, stream_id, RESPONSE, ttrpc_pb2.Response(status=status).SerializeToString())

    def call(
        self, service: str, method: str, payload: bytes, timeout: float = 0, metadata: Mapping[str, str] | None = None
    ) -> int:
        """Calls the peer and returns the stream id that its Reply will carry.

        `timeout` in seconds is sent to the peer, 0 means none; this class has no clock. Raises MessageTooLarge beyond
        4 MiB.
        """
        nano = max(0, int(timeout * NANO))
        request = ttrpc_pb2.Request(service=service, method=method, payload=payload, timeout_nano=nano)
        for key, value in metadata.items() if metadata else ():
            request.metadata.add(key=key, value=value)
        stream_id = self._next_call
        self._send(self._call, stream_id, REQUEST, request.SerializeToString())
        self._next_call += 2
        self._pending.add(stream_id)
        return stream_id

    def _send(self, conn_id: int, stream_id: int, type_: Type, envelope: bytes) -> None:
        if len(envelope) > ttrpc.MAX_LENGTH:
            raise MessageTooLarge(f"a message of {len(envelope)} bytes, at most {ttrpc.MAX_LENGTH}")
        header = ttrpc.HEADER.pack(len(envelope), stream_id, type_, 0)  # the flags are 0: NRI's calls are unary
        self.out.append(mux.frames(conn_id, header + envelope))

    def _request(self, stream_id: int, type_: int, envelope: bytes | None) -> Request | None:
        if type_ not in (REQUEST, DATA):
            return None  # a type of a later version: ttrpc server.go ignores it too
        try:
            return self._decode(stream_id, type_, envelope)
        except CallError as error:
            self.fail(stream_id, error.code, error.message)
            return None

    def _decode(self, stream_id: int, type_: int, envelope: bytes | None) -> Request:
        """Returns a request. Raises CallError for an invalid one (containerd/ttrpc server.go, serverConn.run)."""
        if stream_id % 2 == 0:
            raise CallError(Code.INVALID_ARGUMENT, f"stream id {stream_id} is even")
        if type_ == DATA:
            raise CallError(Code.INVALID_ARGUMENT, f"stream {stream_id} is not open")
        if stream_id <= self._last_served:
            raise CallError(Code.INVALID_ARGUMENT, f"stream id {stream_id} does not increase")
        self._last_served = stream_id
        if envelope is None:
            raise CallError(Code.RESOURCE_EXHAUSTED, f"a message beyond {ttrpc.MAX_LENGTH} bytes")
        try:
            request = ttrpc_pb2.Request.FromString(envelope)
        except DecodeError as error:
            raise CallError(Code.INVALID_ARGUMENT, f"undecodable request: {error}") from None
        nano, pairs = request.timeout_nano, request.metadata
        timeout = nano / NANO if nano else None
        metadata = tuple((pair.key, pair.value) for pair in pairs) if pairs else ()
        return Request(stream_id, request.service, request.method, request.payload, timeout, metadata)

    def _reply(self, stream_id: int, type_: int, envelope: bytes | None) -> Reply | None:
        if type_ != RESPONSE or stream_id not in self._pending:
            return None  # no call waits for this answer
        self._pending.discard(stream_id)
        if envelope is None:
            return Reply(stream_id, Code.RESOURCE_EXHAUSTED, f"an answer beyond {ttrpc.MAX_LENGTH} bytes", b"")
        try:
            response = ttrpc_pb2.Response.FromString(envelope)
        except DecodeError as error:
            return Reply(stream_id, Code.INTERNAL, f"undecodable answer: {error}", b"")
        return Reply(stream_id, response.status.code, response.status.message, response.payload)


def _cut(text: str) -> str:
    encoded = text.encode(errors="replace")  # file names may have surrogates, which protobuf refuses
    cut = encoded[:MAX_ERROR_TEXT].decode(errors="ignore")
    return cut if len(encoded) <= MAX_ERROR_TEXT else cut + " …"
