"""Both ends of the trunk: how it is cut, who may ask what, what becomes of breaches, and Go's own bytes."""

from __future__ import annotations

import pickle
import struct

import pytest

from nri.errors import LocalProtocolError, MessageTooLarge, RemoteProtocolError
from nri.proto import ttrpc_pb2
from nri.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, Request, connection, mux, ttrpc
from nri.wire.ttrpc import Type

from . import frames_in, message_of, pieces, statuses
from .recorded import ANSWERS, CALLS, FRAMES, GO_BREACHES, READ_ONLY_CALLS

LONGEST = 4 << 20
"""Of an envelope; a frame has a header of ten bytes more."""


def end(serve: int) -> Connection:
    """The end of the trunk that serves this connection and calls on the other."""
    return Connection(serve=serve, call=PLUGIN_SERVICE + RUNTIME_SERVICE - serve)


def plugin() -> Connection:
    return end(PLUGIN_SERVICE)


def sent(type_: int, stream_id: int, envelope: bytes = b"", conn_id: int = PLUGIN_SERVICE) -> bytes:
    """A message of any type in a frame of its own."""
    return mux.frames(conn_id, message_of(stream_id, type_, envelope))


def frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


def answers(end: Connection) -> list[tuple[int, int, str]]:
    """Stream id, code and text of what an end has answered."""
    return statuses(end.data_to_send(), PLUGIN_SERVICE)


def test_both_ends_call_at_the_same_time_under_the_same_stream_id() -> None:
    ours, theirs = plugin(), end(RUNTIME_SERVICE)
    assert ours.call("Runtime", "RegisterPlugin", b"who", 5) == theirs.call("Plugin", "Configure", b"", -1) == 1
    assert list(ours.receive_data(theirs.data_to_send())) == [Request(1, "Plugin", "Configure", b"", None)]
    assert list(theirs.receive_data(ours.data_to_send())) == [Request(1, "Runtime", "RegisterPlugin", b"who", 5.0)]
    ours.respond(1, b"events")
    theirs.respond(1, b"welcome")
    assert list(ours.receive_data(theirs.data_to_send())) == [Reply(1, Code.OK, "", b"welcome")]
    assert list(theirs.receive_data(ours.data_to_send())) == [Reply(1, Code.OK, "", b"events")]
    assert ours.data_to_send() == theirs.data_to_send() == b""
    again = frame(RUNTIME_SERVICE, message_of(1, Type.RESPONSE, b""))
    assert list(ours.receive_data(again)) == [], "a second answer is nobody's"


# ---- frames and messages out of a stream, however it is cut

PAYLOAD = bytes(range(251)) * (LONGEST // 251 + 1)
"""Its period divides no buffer's size: each byte tells where it belongs."""


@pytest.mark.parametrize("piece", [4095, 2_099_219, 8 << 20], ids=["small", "one cuts the last header", "whole"])
def test_the_longest_frames_and_messages_are_read_however_they_are_cut_and_are_not_kept(piece: int) -> None:
    wanted = [(number, PAYLOAD[:size]) for number, size in enumerate((4096, 0, LONGEST + 10, 3))]
    messages = message_of(1, Type.RESPONSE, PAYLOAD[:LONGEST]) + message_of(9, Type.REQUEST, b"next")
    trunk, channel = mux.reader(), ttrpc.reader()
    stream = b"".join(frame(*each) for each in wanted)
    frames = [unit for part in pieces(stream, piece) for unit in trunk.receive_data(part)]
    assert [(conn_id, payload) for (conn_id, _), payload in frames] == wanted
    assert len(pickle.dumps(trunk)) < 1000
    assert [unit for part in pieces(messages, piece) for unit in channel.receive_data(part)] == [
        ((LONGEST, 1, 2, 0), PAYLOAD[:LONGEST]),
        ((4, 9, 1, 0), b"next"),
    ]


@pytest.mark.parametrize("length", [LONGEST + 11, 0xFFFFFFFF])
def test_a_frame_beyond_the_maximum_ends_the_trunk_at_its_header_and_frames_before_it_are_read(length: int) -> None:
    for conn_id in (0, 1, 0xFFFFFFFF):
        ours = plugin()
        header = struct.pack(">II", conn_id, length)
        assert list(ours.receive_data(sent(Type.REQUEST, 1) + header[:7])) == [Request(1, "", "", b"", None)]
        with pytest.raises(RemoteProtocolError, match=f"connection {conn_id}: a frame of {length} bytes"):
            list(ours.receive_data(header[7:]))


# ---- what the peer may ask

STRAY = b"".join(sent(Type.REQUEST, 1, conn_id=conn_id) for conn_id in (0, 3, 0xFFFFFFFF))
NEW_FIELD = ttrpc_pb2.Request(method="m").SerializeToString() + b"\xfa\x01\x03new"


def test_unknown_connections_and_fields_are_skipped_and_stream_ids_may_leave_gaps() -> None:
    stream = STRAY + sent(Type.DATA, 1, b"data") + sent(Type.REQUEST, 1, NEW_FIELD) + STRAY
    stream += sent(Type.REQUEST, 7) + sent(Type.REQUEST, 0xFFFFFFFF)
    found = [(event.stream_id, getattr(event, "method", None)) for event in plugin().receive_data(stream)]
    assert found == [(1, "m"), (7, ""), (0xFFFFFFFF, "")]


@pytest.mark.parametrize(("first", "size"), [(0, 65536), (0, LONGEST + 10), (9, LONGEST + 10)])
def test_an_oversized_request_is_answered_and_the_connection_lives_on(first: int, size: int) -> None:
    message = struct.pack(">IIBB", LONGEST + 1, 1, Type.REQUEST, 0) + bytes(LONGEST + 1)
    message += message_of(3, Type.REQUEST, b"")
    ours = plugin()
    frames = [frame(PLUGIN_SERVICE, piece) for piece in (message[:first], *pieces(message[first:], size))]
    assert [event.stream_id for each in frames for event in ours.receive_data(each)] == [3]
    assert answers(ours) == [(1, Code.RESOURCE_EXHAUSTED, f"a message beyond {LONGEST} bytes")]


UNDECODABLE = {"no protobuf": b"\xff", "cut": b"\x0a\x05abc", "a service that is no UTF-8": b"\x0a\x01\xff"}
BREACHES = {
    **{f"an even stream id {id_}": (Type.REQUEST, id_, b"", f"{id_} is even") for id_ in (0, 2, 6, 0xFFFFFFFE)},
    "data of an even stream id": (Type.DATA, 6, b"", "6 is even"),
    **{f"stream id {id_} after 5": (Type.REQUEST, id_, b"", f"{id_} does not increase") for id_ in (1, 3, 5)},
    "data for a stream that is not open": (Type.DATA, 7, b"data", "stream 7 is not open"),
    **{what: (Type.REQUEST, 7, envelope, "undecodable request: ") for what, envelope in UNDECODABLE.items()},
}


@pytest.mark.parametrize(("type_", "stream_id", "envelope", "reason"), BREACHES.values(), ids=BREACHES)
def test_a_breach_is_an_invalid_argument(type_: Type, stream_id: int, envelope: bytes, reason: str) -> None:
    ours = plugin()
    found = list(ours.receive_data(sent(Type.REQUEST, 5) + sent(type_, stream_id, envelope) + sent(Type.REQUEST, 9)))
    assert found == [Request(5, "", "", b"", None), Request(9, "", "", b"", None)]
    ((answered, code, text),) = answers(ours)
    assert (answered, code) == (stream_id, Code.INVALID_ARGUMENT)
    assert reason in text


def test_types_that_do_not_belong_on_a_connection_and_answers_nobody_waits_for_are_ignored() -> None:
    ignored = [(type_, conn_id) for type_ in (0, 2, 4, 255) for conn_id in (PLUGIN_SERVICE, RUNTIME_SERVICE)]
    for type_, conn_id in (*ignored, (Type.REQUEST, RUNTIME_SERVICE), (Type.DATA, RUNTIME_SERVICE)):
        ours = plugin()
        ours.call("Runtime", "RegisterPlugin", b"")
        ours.data_to_send()
        for stream_id in (2, 9) if type_ == Type.RESPONSE else (1, 2, 9):
            assert list(ours.receive_data(sent(type_, stream_id, b"\xff", conn_id))) == []
        assert ours.data_to_send() == b""


# ---- answers


def test_the_largest_envelope_goes_out_and_a_byte_more_does_not() -> None:
    ours, payload = plugin(), bytes(LONGEST - 8)
    largest = LONGEST - (ttrpc_pb2.Response(payload=payload).ByteSize() - len(payload))
    with pytest.raises(MessageTooLarge, match=f"{LONGEST + 1} bytes, at most {LONGEST}"):
        ours.respond(1, bytes(largest + 1))
    assert ours.data_to_send() == b""
    ours.respond(1, bytes(largest))
    assert len(ours.data_to_send()) == 8 + 8 + 10 + LONGEST


def test_a_call_that_is_too_large_is_not_made_and_takes_no_stream_id() -> None:
    ours, theirs = plugin(), end(RUNTIME_SERVICE)
    with pytest.raises(LocalProtocolError):
        ours.call("Runtime", "UpdateContainers", bytes(LONGEST))
    assert ours.data_to_send() == b""
    assert [ours.call("Runtime", "UpdateContainers", b"") for _ in range(3)] == [1, 3, 5]
    assert [event.stream_id for event in theirs.receive_data(ours.data_to_send())] == [1, 3, 5]


def test_an_answer_that_cannot_be_decoded_or_is_too_large_is_an_error_of_that_call() -> None:
    ours = plugin()
    for _ in range(2):
        ours.call("Runtime", "RegisterPlugin", b"")
    oversized = mux.frames(RUNTIME_SERVICE, struct.pack(">IIBB", LONGEST + 1, 3, Type.RESPONSE, 0))
    replies = list(ours.receive_data(sent(Type.RESPONSE, 1, b"\xff", RUNTIME_SERVICE) + oversized))
    assert [reply[:2] for reply in replies] == [(1, Code.INTERNAL), (3, Code.RESOURCE_EXHAUSTED)]
    assert str(replies[0][2]).startswith("undecodable answer: ")
    assert replies[1][2] == f"an answer beyond {LONGEST} bytes"


LIMIT = connection.MAX_ERROR_TEXT
TEXTS = [
    ("plugin: konfine: exit status 1 € naïve\n", "plugin: konfine: exit status 1 € naïve\n"),
    ("é" * (LIMIT // 2), "é" * (LIMIT // 2)),
    *(("a" * shift + "🙂" * LIMIT, "a" * shift + "🙂" * ((LIMIT - shift) // 4) + " …") for shift in range(4)),
    # Names of files that are no UTF-8 come with surrogates, and find their way into errors.
    ("no such file: \udcff", "no such file: ?"),
    ("\ud800" * (LIMIT + 1), "?" * LIMIT + " …"),
]


def test_an_error_carries_its_code_and_its_text_which_is_cut_between_two_characters_at_the_limit() -> None:
    for text, arrives in TEXTS:
        ours = plugin()
        ours.fail(3, Code.UNKNOWN, text)
        assert answers(ours) == [(3, Code.UNKNOWN, arrives)]


# ---- Go's own bytes


def test_a_call_is_read_and_written_as_go_means_and_writes_it() -> None:
    for name, call in (CALLS | READ_ONLY_CALLS).items():
        for size in (1, 7, 1 << 20):
            server = end(call.conn_id)
            sent = pieces(bytes.fromhex(call.sent), size)
            assert [event for piece in sent for event in server.receive_data(piece)] == call.requests, name
        client = end(PLUGIN_SERVICE + RUNTIME_SERVICE - call.conn_id)
        for stream_id, service, method, payload, timeout, metadata in call.requests:
            assert client.call(service, method, payload, timeout or 0, dict(metadata)) == stream_id
        assert (client.data_to_send().hex() == call.sent) is (name in CALLS), name


def test_an_answer_is_read_and_written_as_go_means_and_writes_it() -> None:
    for asked, reply, sent in ANSWERS.values():
        client, server = plugin(), end(RUNTIME_SERVICE)
        client.call("service", "Method", b"")
        assert list(client.receive_data(bytes.fromhex(sent))) == [reply]
        assert len(list(server.receive_data(bytes.fromhex(asked)))) == 1
        if reply.code:
            server.fail(*reply[:3])
        else:
            server.respond(reply.stream_id, reply.payload)
        assert server.data_to_send().hex() == sent


def test_a_breach_of_the_rules_gets_the_status_that_go_gives_it() -> None:
    for what, (asked, wanted) in GO_BREACHES.items():
        server = end(RUNTIME_SERVICE)
        for request in server.receive_data(bytes.fromhex(asked)):
            server.fail(request.stream_id, Code.UNIMPLEMENTED, "service ")
        assert [status[:2] for status in statuses(server.data_to_send(), RUNTIME_SERVICE)] == wanted, what


def test_a_message_is_framed_as_go_frames_it() -> None:
    for length, frames in FRAMES.items():
        sent = mux.frames(7, message_of(1, Type.REQUEST, bytes(length)))
        assert [(conn_id, len(payload)) for conn_id, payload in frames_in(sent)] == [(7, size) for size in frames]
