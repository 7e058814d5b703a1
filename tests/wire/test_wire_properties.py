"""What holds for all bytes: how the stream is cut does not matter, and no bytes do more harm than to end the trunk."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapter.errors import RemoteProtocolError
from adapter.proto import ttrpc_pb2
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, Request, connection, mux, ttrpc

from . import frames_in

fuzz = settings(deadline=None, max_examples=100)

E = TypeVar("E")
Stream = tuple[bytes, list[int]]
"""Bytes, and where they are cut."""

SHORT = 64
"""The longest envelope while `short_messages` is in force, so that examples have plenty of oversized ones."""

u32 = st.one_of(st.integers(0, 9), st.integers(0, 0xFFFFFFFF))
lengths = st.one_of(st.integers(0, 2 * SHORT), u32)
conn_ids = st.one_of(st.sampled_from([PLUGIN_SERVICE, RUNTIME_SERVICE]), u32)
requests = st.builds(
    lambda **fields: ttrpc_pb2.Request(**fields).SerializeToString(),
    service=st.text(max_size=9),
    method=st.text(max_size=9),
    payload=st.binary(max_size=SHORT),
    timeout_nano=st.integers(-(2**63), 2**63 - 1),
)
envelopes = st.one_of(st.binary(max_size=2 * SHORT), requests)
# Headers that tell the truth about the length, and headers that do not.
messages = st.one_of(
    st.builds(lambda e, s, t: struct.pack(">IIBB", len(e), s, t, 0) + e, envelopes, u32, st.integers(0, 4)),
    st.builds(lambda e, n, s, t: struct.pack(">IIBB", n, s, t, 0) + e, envelopes, lengths, u32, st.integers(0, 255)),
)
frames = st.one_of(
    st.builds(lambda c, m: struct.pack(">II", c, len(m)) + m, conn_ids, messages),
    st.builds(lambda c, m: struct.pack(">II", c, len(m)) + m, conn_ids, st.lists(messages).map(b"".join)),
    st.builds(lambda c, n, m: struct.pack(">II", c, n) + m, conn_ids, lengths, st.binary(max_size=SHORT)),
    st.binary(max_size=SHORT),
)


@st.composite
def cut(draw: st.DrawFn, parts: st.SearchStrategy[bytes]) -> Stream:
    stream = b"".join(draw(st.lists(parts, max_size=6)))
    return stream, sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))


def pieces(stream: Stream) -> Iterator[bytes]:
    data, cuts = stream
    return (data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True))


def read(receive: Callable[[bytes], Iterator[E]], stream: Iterable[bytes]) -> tuple[list[E], bool]:
    """All events, and whether the trunk ended. Anything but RemoteProtocolError is a failure of the test."""
    found: list[E] = []
    try:
        for data in stream:
            for event in receive(data):
                found.append(event)  # noqa: PERF402 - extend would lose what came before the error
    except RemoteProtocolError:
        return found, True
    return found, False


@pytest.fixture(autouse=True, scope="module")
def short_messages() -> Iterator[None]:
    """Lowers the limits, for limits of 4 MiB are out of a generator's reach."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ttrpc, "MAX_LENGTH", SHORT)
        patch.setattr(mux, "MAX_PAYLOAD", 8 * SHORT)
        patch.setattr(mux, "FIRST_FRAME", 16)
        patch.setattr(connection, "MAX_ERROR_TEXT", 32)
        yield


@fuzz
@given(cut(frames))
def test_any_split_of_any_frames_gives_the_same_frames(stream: Stream) -> None:
    whole = read(mux.FrameReader().receive_data, [stream[0]])
    assert read(mux.FrameReader().receive_data, pieces(stream)) == whole
    assert read(mux.FrameReader().receive_data, (bytes([byte]) for byte in stream[0])) == whole


@fuzz
@given(cut(messages))
@example((struct.pack(">IIBB", SHORT + 1, 1, 1, 0) + bytes(SHORT + 2), [10]))
def test_any_split_of_any_messages_gives_the_same_messages(stream: Stream) -> None:
    whole = read(ttrpc.MessageReader().receive_data, [stream[0]])
    assert read(ttrpc.MessageReader().receive_data, pieces(stream)) == whole
    assert read(ttrpc.MessageReader().receive_data, (bytes([byte]) for byte in stream[0])) == whole


def conversation(stream: Iterable[bytes]) -> tuple[list[Request | Reply], bool, bytes]:
    """What a plugin's end makes of a stream while it waits for two answers."""
    ours = Connection(serve=PLUGIN_SERVICE, call=RUNTIME_SERVICE)
    ours.call("", "", b"")
    ours.call("", "", b"")
    ours.data_to_send()
    found, ended = read(ours.receive_data, stream)
    return found, ended, ours.data_to_send()


@fuzz
@given(cut(frames))
def test_any_split_of_any_trunk_gives_the_same_events_and_the_same_answers(stream: Stream) -> None:
    assert conversation(pieces(stream)) == conversation([stream[0]])


@fuzz
@given(cut(frames))
def test_a_stream_id_is_served_once_and_a_call_answered_once(stream: Stream) -> None:
    found, _, _ = conversation(pieces(stream))
    served = [event.stream_id for event in found if isinstance(event, Request)]
    answered = [event.stream_id for event in found if isinstance(event, Reply)]
    assert served == sorted(set(served))
    assert len(answered) == len(set(answered))
    assert set(answered) <= {1, 3}


@fuzz
@given(st.lists(st.tuples(requests, st.integers(0, 12)), max_size=8))
def test_whatever_is_sent_is_framed_for_a_go_reader(sent: list[tuple[bytes, int]]) -> None:
    """No more than two frames for each message, its header in the first, and nothing of another one."""
    ours = Connection(serve=PLUGIN_SERVICE, call=RUNTIME_SERVICE)
    for envelope, code in sent:
        if len(envelope) > SHORT - 4:
            continue
        if code:
            ours.fail(1, code, envelope.decode(errors="replace"))
        else:
            ours.respond(1, envelope)
    trunk = frames_in(ours.data_to_send())
    while trunk:
        header, *_ = trunk
        length = 10 + struct.unpack_from(">I", header[1])[0]
        count = 1 if length <= mux.FIRST_FRAME else 2
        assert [len(payload) for _, payload in trunk[:count]] == [min(length, 16), length - 16][:count]
        del trunk[:count]


@fuzz
@given(st.text(max_size=9), st.text(max_size=9), st.binary(max_size=30), st.integers(0, 2**40))
def test_a_call_arrives_as_it_was_made(service: str, method: str, payload: bytes, microseconds: int) -> None:
    ours = Connection(serve=PLUGIN_SERVICE, call=RUNTIME_SERVICE)
    theirs = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ttrpc, "MAX_LENGTH", 4096)
        stream_id = ours.call(service, method, payload, microseconds / 1e6)
        (request,) = theirs.receive_data(ours.data_to_send())
    assert isinstance(request, Request)
    assert request[:4] == (stream_id, service, method, payload)
    assert request.timeout == (pytest.approx(microseconds / 1e6, abs=2e-9) if microseconds else None)


@fuzz
@given(st.text(st.characters()), st.sampled_from([Code.UNKNOWN, Code.INTERNAL]))
@example("\udcff", Code.UNKNOWN)
def test_an_error_arrives_with_as_much_of_its_text_as_fits(text: str, code: Code) -> None:
    ours = Connection(serve=PLUGIN_SERVICE, call=RUNTIME_SERVICE)
    theirs = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
    theirs.call("", "", b"")
    ours.fail(1, code, text)
    (reply,) = theirs.receive_data(ours.data_to_send())
    assert isinstance(reply, Reply)
    sendable = text.encode(errors="replace").decode()
    assert reply.code == code
    assert sendable.startswith(reply.message.removesuffix(" …"))
    assert len(reply.message.encode()) <= 32 + len(" …".encode())
    if len(sendable.encode()) <= 32:
        assert reply.message == sendable
