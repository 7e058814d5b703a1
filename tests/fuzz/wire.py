"""Target: the bytes of a trunk, cut anywhere, at the plugin's end of the multiplexer and of ttRPC, and at a stub.

Holds for all bytes: how they are cut does not matter; nothing is raised but RemoteProtocolError (and RegistrationError
by the stub); what is answered can be read by the other end; no more is kept than one frame and one message.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

from nri import Plugin, Stub, api
from nri.errors import RegistrationError, RemoteProtocolError
from nri.proto import ttrpc_pb2
from nri.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Connection, Reply, Request, connection, mux, ttrpc

from ..wire import recorded
from . import mutations
from .target import Target

MAX_LENGTH, MAX_PAYLOAD = 256, 300
LIMITS: dict[Any, Any] = {
    ttrpc: {"MAX_LENGTH": MAX_LENGTH},
    mux: {"MAX_PAYLOAD": MAX_PAYLOAD, "FIRST_FRAME": 64},
    connection: {"MAX_ERROR_TEXT": 32},
}
"""Lower limits than the protocol's, so that short inputs exceed them."""
KEPT = MAX_PAYLOAD + 2 * MAX_LENGTH + 1000
"""Bytes of a pickled end: the beginnings of one frame and of two messages, and what an idle end has."""


class Heard(NamedTuple):
    """What one end has made of a stream."""

    events: list[Request | Reply]
    is_broken: bool
    sent: bytes


def check(data: bytes) -> None:
    """The first byte is the number of cuts, which follow; the rest is the stream."""
    begin = 1 + sum(data[:1]) % 8
    cuts, stream = data[1:begin], data[begin:]
    with ExitStack() as stack:
        for module, limits in LIMITS.items():
            stack.enter_context(patch.multiple(module, **limits))
        whole = hear([stream])
        assert hear(pieces(stream, cuts)) == whole, "the cuts matter"
        assert hear(bytes([byte]) for byte in stream) == whole, "the cuts matter"
        messages_are_split_anywhere(stream)
        read_by_the_other_end(whole)
        at_a_stub(stream, whole)


def pieces(stream: bytes, cuts: bytes) -> Iterator[bytes]:
    """The stream, cut at each 256th that a byte names."""
    places = sorted(len(stream) * cut // 256 for cut in cuts)
    return (stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True))


def hear(stream: Iterable[bytes]) -> Heard:
    """What a plugin's end that waits for two answers makes of a stream."""
    ours = Connection(serve=PLUGIN_SERVICE, call=RUNTIME_SERVICE)
    for _ in range(2):
        ours.call("", "", b"")
    ours.data_to_send()
    events: list[Request | Reply] = []
    is_broken = False
    try:
        for data in stream:
            for event in ours.receive_data(data):
                assert len(event.payload) <= ttrpc.MAX_LENGTH
                events.append(event)
    except RemoteProtocolError:
        is_broken = True
    heard = Heard(events, is_broken, ours.data_to_send())
    assert is_broken or len(pickle.dumps(ours)) < KEPT, "more is kept than one frame and one message"
    return heard


def messages_are_split_anywhere(stream: bytes) -> None:
    """How a message is split into frames does not matter."""
    parts: dict[int, list[bytes]] = {}
    for (conn_id, _), payload in mux.reader().receive_data(stream):
        if payload is None:
            break
        parts.setdefault(conn_id, []).append(payload)
    for payloads in parts.values():
        reader = ttrpc.reader()
        messages = [message for payload in payloads for message in reader.receive_data(payload)]
        assert messages == ttrpc.reader().receive_data(b"".join(payloads)), "the frames matter"


def read_by_the_other_end(heard: Heard) -> None:
    """Each request has an id of its own, and the other end can read why others were refused."""
    served = [event.stream_id for event in heard.events if isinstance(event, Request)]
    answered = [event.stream_id for event in heard.events if isinstance(event, Reply)]
    assert served == sorted(set(served)), "a request twice"
    assert len(answered) == len({1, 3} & {*answered}), "an answer twice, or to no call"
    reader = ttrpc.reader()
    for (conn_id, _), payload in mux.reader().receive_data(heard.sent):
        assert conn_id == PLUGIN_SERVICE
        for (_, _, type_, _), envelope in reader.receive_data(payload or b""):
            assert type_ == ttrpc.Type.RESPONSE
            assert ttrpc_pb2.Response.FromString(envelope or b"").status.code


def at_a_stub(stream: bytes, heard: Heard) -> None:
    """A stub with a plugin that does nothing answers each request once, until it is refused or the trunk breaks."""
    written: list[bytes] = []
    stub = Stub(Plugin(), "sample", "10", written.append, lambda: 0.0)
    stub.register()
    stub.update_containers([api.ContainerUpdate(container_id="c")])
    written.clear()
    try:
        stub.receive_data(stream)
    except (RegistrationError, RemoteProtocolError):
        return
    served = [event.stream_id for event in heard.events if isinstance(event, Request)]
    assert sorted(answered(b"".join(written))) == sorted([*served, *answered(heard.sent)]), "not one answer to a call"


def answered(sent: bytes) -> list[int]:
    """The stream ids of the answers in what an end has sent."""
    reader = ttrpc.reader()
    frames = mux.reader().receive_data(sent)
    return [stream_id for _, payload in frames for (_, stream_id, *_), _ in reader.receive_data(payload or b"")]


def seeds() -> Iterator[bytes]:
    """What Go sends, also with a cut in each header."""
    calls = [each.sent for each in (*recorded.CALLS.values(), *recorded.READ_ONLY_CALLS.values())]
    answers = [text for each in recorded.ANSWERS.values() for text in (each.asked, each.sent)]
    texts = [*calls, *answers, *(asked for asked, _ in recorded.GO_BREACHES.values())]
    for text in (*texts, "".join(texts)):
        yield b"\x02\x01\x80" + bytes.fromhex(text)
    for length in (255, 256, 257, 1 << 22, 0xFFFFFFFF):
        too_long = struct.pack(">IIBB", length, 1, 1, 0) + bytes(length % 300)
        frames = (too_long[:200], too_long[200:], struct.pack(">IIBB", 0, 3, 1, 0))
        yield b"\0" + b"".join(struct.pack(">II", PLUGIN_SERVICE, len(frame)) + frame for frame in frames)


TARGET = Target(check, seeds, mutations.bytes_of)
