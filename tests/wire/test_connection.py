"""Both ends of the trunk: who may ask what, and what becomes of those that break the rules."""

from __future__ import annotations

import struct
import sys
from threading import Event, Thread

import pytest

from adapter.errors import LocalProtocolError, MessageTooLarge, RemoteProtocolError
from adapter.proto import ttrpc_pb2
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, Request, connection, mux, ttrpc
from adapter.wire.ttrpc import Type

from . import frames_in, pieces

LONGEST = 4 << 20
LARGE = LONGEST - 8
"""A payload whose response envelope, tag and length included, is less than 4 MiB, and nearly that."""


def runtime() -> Connection:
    return Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)


def plugin() -> Connection:
    return Connection(serve=PLUGIN_SERVICE, call=RUNTIME_SERVICE)


def sent(type_: int, stream_id: int, envelope: bytes = b"", conn_id: int = PLUGIN_SERVICE) -> bytes:
    """A message of any type in a frame of its own."""
    return mux.frames(conn_id, struct.pack(">IIBB", len(envelope), stream_id, type_, 0) + envelope)


def answers(end: Connection) -> list[tuple[int, int, str]]:
    """Stream id, code and text of what an end has answered."""
    found = []
    reader = ttrpc.MessageReader()
    for conn_id, payload in frames_in(end.data_to_send()):
        for message in reader.receive_data(payload):
            assert (conn_id, message.type) == (PLUGIN_SERVICE, Type.RESPONSE)
            status = ttrpc_pb2.Response.FromString(message.envelope or b"").status
            found.append((message.stream_id, status.code, status.message))
    return found


def test_a_call_and_its_answer_cross_the_trunk() -> None:
    ours, theirs = plugin(), runtime()
    assert ours.call("Runtime", "RegisterPlugin", b"who", 5) == 1
    assert list(theirs.receive_data(ours.data_to_send())) == [Request(1, "Runtime", "RegisterPlugin", b"who", 5.0)]
    theirs.respond(1, b"welcome")
    assert list(ours.receive_data(theirs.data_to_send())) == [Reply(1, Code.OK, "", b"welcome")]


def test_both_ends_call_at_the_same_time_under_the_same_stream_id() -> None:
    ours, theirs = plugin(), runtime()
    assert ours.call("Runtime", "RegisterPlugin", b"") == theirs.call("Plugin", "Configure", b"") == 1
    (asked_of_us,) = ours.receive_data(theirs.data_to_send())
    (asked_of_them,) = theirs.receive_data(ours.data_to_send())
    assert isinstance(asked_of_us, Request)
    assert isinstance(asked_of_them, Request)
    ours.respond(asked_of_us.stream_id, b"events")
    theirs.respond(asked_of_them.stream_id, b"welcome")
    assert list(ours.receive_data(theirs.data_to_send())) == [Reply(1, Code.OK, "", b"welcome")]
    assert list(theirs.receive_data(ours.data_to_send())) == [Reply(1, Code.OK, "", b"events")]


def test_bytes_are_handed_out_once() -> None:
    ours = plugin()
    assert ours.data_to_send() == b""
    ours.call("Runtime", "RegisterPlugin", b"")
    assert ours.data_to_send() != b""
    assert ours.data_to_send() == b""


def test_no_frame_holds_parts_of_two_messages() -> None:
    ours = plugin()
    for size in (0, 10, 4000, 4096, 9000, 1):
        ours.respond(1, bytes(size))
    reader, whole = ttrpc.MessageReader(), 0
    for _, payload in frames_in(ours.data_to_send()):
        complete = len(list(reader.receive_data(payload)))
        assert complete <= 1
        whole += complete
        if complete:
            reader = ttrpc.MessageReader()  # what is left of the frame would be lost here
    assert whole == 6


def test_messages_that_share_frames_and_span_them_are_told_apart() -> None:
    """Nothing in the protocol forbids it to a peer."""
    envelope = ttrpc_pb2.Request(service="s", method="m").SerializeToString()
    stream = b"".join(ttrpc.message(n, Type.REQUEST, envelope) for n in (1, 3, 5, 7))
    ours = plugin()
    found = [event for piece in pieces(stream, 23) for event in ours.receive_data(mux.frames(PLUGIN_SERVICE, piece))]
    assert found == [Request(n, "s", "m", b"", None) for n in (1, 3, 5, 7)]


def test_a_message_is_put_together_while_frames_of_the_other_connection_come_between() -> None:
    ours, theirs = plugin(), runtime()
    ours.call("Runtime", "RegisterPlugin", b"")
    theirs.call("Plugin", "Synchronize", bytes(9000))
    first, second = frames_in(theirs.data_to_send())
    answer = sent(Type.RESPONSE, 1, conn_id=RUNTIME_SERVICE)
    assert list(ours.receive_data(mux.frames(*first) + answer)) == [Reply(1, Code.OK, "", b"")]
    assert [type(event) for event in ours.receive_data(struct.pack(">II", 1, len(second[1])) + second[1])] == [Request]


@pytest.mark.parametrize("conn_id", [0, 3, 0xFFFFFFFF])
def test_frames_of_unknown_connections_are_dropped(conn_id: int) -> None:
    ours, theirs = plugin(), runtime()
    theirs.call("Plugin", "Configure", b"")
    stray = sent(Type.REQUEST, 1, conn_id=conn_id)
    assert [type(event) for event in ours.receive_data(stray + theirs.data_to_send() + stray)] == [Request]
    assert ours.data_to_send() == b""


def test_a_frame_beyond_the_maximum_ends_the_trunk() -> None:
    with pytest.raises(RemoteProtocolError):
        list(plugin().receive_data(struct.pack(">II", PLUGIN_SERVICE, LONGEST + 11)))


# ---- what the peer may ask


@pytest.mark.parametrize("size", [65536, LONGEST + 10])
@pytest.mark.parametrize("length", [LONGEST + 1, 6 << 20])
def test_an_oversized_request_is_answered_and_the_connection_lives_on(length: int, size: int) -> None:
    message = struct.pack(">IIBB", length, 1, Type.REQUEST, 0) + bytes(length)
    message += ttrpc.message(3, Type.REQUEST, ttrpc_pb2.Request(method="next").SerializeToString())
    ours = plugin()
    found = [
        event
        for piece in pieces(message, size)
        for event in ours.receive_data(struct.pack(">II", PLUGIN_SERVICE, len(piece)) + piece)
    ]
    assert found == [Request(3, "", "next", b"", None)]
    ((stream_id, code, text),) = answers(ours)
    assert (stream_id, code) == (1, Code.RESOURCE_EXHAUSTED)
    assert str(LONGEST) in text


@pytest.mark.parametrize("type_", [Type.REQUEST, Type.DATA])
@pytest.mark.parametrize("stream_id", [0, 2, 4, 0xFFFFFFFE])
def test_an_even_stream_id_is_an_invalid_argument(stream_id: int, type_: Type) -> None:
    ours = plugin()
    assert list(ours.receive_data(sent(type_, stream_id))) == []
    assert answers(ours) == [(stream_id, Code.INVALID_ARGUMENT, f"stream id {stream_id} is even")]


@pytest.mark.parametrize("stream_id", [1, 3, 5])
def test_a_stream_id_that_does_not_increase_is_an_invalid_argument(stream_id: int) -> None:
    ours = plugin()
    assert list(ours.receive_data(sent(Type.REQUEST, 5))) == [Request(5, "", "", b"", None)]
    assert list(ours.receive_data(sent(Type.REQUEST, stream_id))) == []
    assert answers(ours) == [(stream_id, Code.INVALID_ARGUMENT, f"stream id {stream_id} does not increase")]


def test_stream_ids_may_leave_gaps_up_to_the_last_one() -> None:
    ours = plugin()
    found = [event.stream_id for n in (1, 7, 0xFFFFFFFF) for event in ours.receive_data(sent(Type.REQUEST, n))]
    assert found == [1, 7, 0xFFFFFFFF]


@pytest.mark.parametrize(
    "envelope",
    [
        pytest.param(b"\xff", id="no protobuf"),
        pytest.param(b"\x0a\x05abc", id="ends in the middle"),
        pytest.param(b"\x0a\x01\xff", id="a service that is no UTF-8"),
    ],
)
def test_an_envelope_that_cannot_be_decoded_is_an_invalid_argument(envelope: bytes) -> None:
    ours = plugin()
    assert list(ours.receive_data(sent(Type.REQUEST, 1, envelope))) == []
    ((stream_id, code, text),) = answers(ours)
    assert (stream_id, code) == (1, Code.INVALID_ARGUMENT)
    assert text.startswith("undecodable request: ")
    assert list(ours.receive_data(sent(Type.REQUEST, 3))) == [Request(3, "", "", b"", None)]


def test_fields_of_an_envelope_that_are_yet_to_come_are_skipped() -> None:
    envelope = ttrpc_pb2.Request(method="m").SerializeToString() + b"\xfa\x01\x03new"
    assert list(plugin().receive_data(sent(Type.REQUEST, 1, envelope))) == [Request(1, "", "m", b"", None)]


def test_data_for_a_stream_that_is_not_open_is_an_invalid_argument() -> None:
    ours = plugin()
    assert list(ours.receive_data(sent(Type.DATA, 1, b"data"))) == []
    assert answers(ours) == [(1, Code.INVALID_ARGUMENT, "stream 1 is not open")]
    assert list(ours.receive_data(sent(Type.REQUEST, 1))) == [Request(1, "", "", b"", None)]


@pytest.mark.parametrize("type_", [0, 2, 4, 255])
@pytest.mark.parametrize("conn_id", [PLUGIN_SERVICE, RUNTIME_SERVICE])
@pytest.mark.parametrize("stream_id", [1, 2, 9])
def test_messages_of_unknown_types_and_answers_nobody_waits_for_are_ignored(
    type_: int, conn_id: int, stream_id: int
) -> None:
    ours = plugin()
    assert list(ours.receive_data(sent(type_, stream_id, b"\xff", conn_id))) == []
    assert ours.data_to_send() == b""


@pytest.mark.parametrize("type_", [Type.REQUEST, Type.DATA])
def test_the_runtime_cannot_ask_on_the_connection_it_answers_on(type_: Type) -> None:
    ours = plugin()
    ours.call("Runtime", "RegisterPlugin", b"")
    ours.data_to_send()
    assert list(ours.receive_data(sent(type_, 1, conn_id=RUNTIME_SERVICE))) == []
    assert ours.data_to_send() == b""


@pytest.mark.parametrize(
    ("nanoseconds", "timeout"),
    [(0, None), (1, 1e-9), (2_000_000_000, 2.0), (-1, -1e-9), (2**63 - 1, (2**63 - 1) / 1e9)],
)
def test_the_callers_remaining_time_is_read_in_seconds(nanoseconds: int, timeout: float | None) -> None:
    """Go sends a negative one when its deadline has passed by then (client.go, Call)."""
    envelope = ttrpc_pb2.Request(timeout_nano=nanoseconds).SerializeToString()
    assert list(plugin().receive_data(sent(Type.REQUEST, 1, envelope))) == [Request(1, "", "", b"", timeout)]


# ---- answers


@pytest.mark.parametrize("size", [0, 1, 4085, 4086, 4087, 4096, 8182, 100_000, LARGE])
def test_payloads_of_any_size_arrive_both_ways(size: int) -> None:
    ours, theirs = plugin(), runtime()
    payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
    theirs.call("", "", payload)  # names would count against the 4 MiB
    (request,) = ours.receive_data(theirs.data_to_send())
    assert isinstance(request, Request)
    assert request.payload == payload
    ours.respond(request.stream_id, payload)
    assert list(theirs.receive_data(ours.data_to_send())) == [Reply(1, Code.OK, "", payload)]


def test_the_largest_envelope_goes_out_and_a_byte_more_does_not() -> None:
    ours = plugin()
    overhead = len(ttrpc_pb2.Response(payload=bytes(LARGE)).SerializeToString()) - LARGE
    largest = LONGEST - overhead
    with pytest.raises(MessageTooLarge, match=f"{LONGEST + 1} bytes, at most {LONGEST}"):
        ours.respond(1, bytes(largest + 1))
    assert ours.data_to_send() == b""
    ours.respond(1, bytes(largest))
    assert len(ours.data_to_send()) == 8 + 8 + 10 + LONGEST


def test_a_call_that_is_too_large_is_not_made_and_takes_no_stream_id() -> None:
    ours, theirs = plugin(), runtime()
    with pytest.raises(LocalProtocolError):
        ours.call("Runtime", "UpdateContainers", bytes(LONGEST))
    assert ours.data_to_send() == b""
    assert [ours.call("Runtime", "UpdateContainers", b"") for _ in range(3)] == [1, 3, 5]
    assert [event.stream_id for event in theirs.receive_data(ours.data_to_send())] == [1, 3, 5]


def test_answers_come_in_any_order_and_each_counts_once() -> None:
    ours = plugin()
    for _ in range(3):
        ours.call("Runtime", "UpdateContainers", b"")
    stream = b"".join(sent(Type.RESPONSE, n, conn_id=RUNTIME_SERVICE) for n in (3, 1, 3, 7, 5, 1))
    assert [event.stream_id for event in ours.receive_data(stream)] == [3, 1, 5]


def test_an_answer_that_cannot_be_decoded_is_an_internal_error_of_that_call() -> None:
    ours = plugin()
    ours.call("Runtime", "RegisterPlugin", b"")
    (reply,) = ours.receive_data(sent(Type.RESPONSE, 1, b"\xff", RUNTIME_SERVICE))
    assert isinstance(reply, Reply)
    assert (reply.stream_id, reply.code, reply.payload) == (1, Code.INTERNAL, b"")
    assert reply.message.startswith("undecodable answer: ")


def test_an_oversized_answer_is_an_error_of_that_call() -> None:
    ours = plugin()
    ours.call("Runtime", "RegisterPlugin", b"")
    header = struct.pack(">IIBB", LONGEST + 1, 1, Type.RESPONSE, 0)
    (reply,) = ours.receive_data(mux.frames(RUNTIME_SERVICE, header))
    assert isinstance(reply, Reply)
    assert (reply.stream_id, reply.code, reply.payload) == (1, Code.RESOURCE_EXHAUSTED, b"")


def test_an_error_carries_its_code_and_text() -> None:
    ours = plugin()
    ours.fail(3, Code.UNKNOWN, "plugin: konfine: exit status 1 € naïve\n")
    assert answers(ours) == [(3, Code.UNKNOWN, "plugin: konfine: exit status 1 € naïve\n")]


def test_a_text_up_to_the_limit_is_sent_as_it_is() -> None:
    ours = plugin()
    ours.fail(1, Code.UNKNOWN, "é" * (connection.MAX_ERROR_TEXT // 2))
    assert answers(ours) == [(1, Code.UNKNOWN, "é" * (connection.MAX_ERROR_TEXT // 2))]


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("character", ["x", "é", "€", "🙂"])
def test_a_longer_text_is_cut_between_two_characters(character: str, shift: int) -> None:
    text = "a" * shift + character * (5 << 20)
    ours = plugin()
    ours.fail(1, Code.UNKNOWN, text)
    ((_, code, cut),) = answers(ours)
    assert code == Code.UNKNOWN
    kept, mark = cut[:-2], cut[-2:]
    assert mark == " …"
    assert text.startswith(kept)
    assert connection.MAX_ERROR_TEXT - 4 < len(kept.encode()) <= connection.MAX_ERROR_TEXT


@pytest.mark.parametrize("text", ["no such file: \udcff", "\ud800" * 100_000])
def test_a_text_that_is_no_unicode_is_sent_all_the_same(text: str) -> None:
    """Names of files that are no UTF-8 come with surrogates, and find their way into errors."""
    ours = plugin()
    ours.fail(1, Code.UNKNOWN, text)
    ((_, code, arrived),) = answers(ours)
    assert code == Code.UNKNOWN
    assert arrived.startswith(text[:10].replace("\ud800", "?"))


def test_an_answer_that_gathers_while_bytes_are_taken_is_not_lost() -> None:
    """The reader's thread answers breaches of the rules, another may be completing a call."""
    ours, taken, stop = plugin(), bytearray(), Event()

    def take() -> None:
        while not stop.is_set():
            taken.extend(ours.data_to_send())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    taker = Thread(target=take)
    taker.start()
    try:
        for _ in range(100):
            assert list(ours.receive_data(sent(Type.REQUEST, 2) * 100)) == []
    finally:
        stop.set()
        taker.join()
        sys.setswitchinterval(interval)
    taken.extend(ours.data_to_send())
    assert len(frames_in(bytes(taken))) == 10_000
