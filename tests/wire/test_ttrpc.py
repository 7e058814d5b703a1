"""ttRPC messages: cut out of the byte stream of one connection, wherever its frames begin and end."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from adapter.wire import ttrpc
from adapter.wire.ttrpc import Message, MessageReader, Type

from . import pieces

LONGEST = 4 << 20
SIZES = [0, 1, 4085, 4086, 4087, 4096, 8182, 100_000]


def read(stream: bytes, size: int) -> list[Message]:
    reader = MessageReader()
    return [message for piece in pieces(stream, size) for message in reader.receive_data(piece)]


def oversized(stream_id: int, length: int) -> bytes:
    return struct.pack(">IIBB", length, stream_id, 1, 0) + bytes(length)


def test_the_header_is_length_stream_type_and_no_flags() -> None:
    assert ttrpc.message(5, Type.RESPONSE, b"abc") == b"\0\0\0\3\0\0\0\5\2\0abc"


@pytest.mark.parametrize("piece", [1, 9, 10, 11, 4096, 1 << 20])
@pytest.mark.parametrize("size", SIZES)
def test_a_message_is_read_however_it_is_cut(size: int, piece: int) -> None:
    stream = ttrpc.message(1, Type.REQUEST, b"x" * size) + ttrpc.message(3, Type.REQUEST, b"next")
    assert read(stream, piece) == [Message(1, 1, b"x" * size), Message(3, 1, b"next")]


@pytest.mark.parametrize("piece", [4096, 65536, 8 << 20])
def test_a_message_of_the_greatest_length_is_read(piece: int) -> None:
    stream = ttrpc.message(1, Type.REQUEST, bytes(LONGEST))
    assert read(stream, piece) == [Message(1, 1, bytes(LONGEST))]


def test_several_messages_in_one_frame_are_read_in_their_order() -> None:
    stream = b"".join(ttrpc.message(n, Type.RESPONSE, b"%d" % n) for n in range(1, 9))
    assert read(stream, len(stream)) == [Message(n, 2, b"%d" % n) for n in range(1, 9)]


@pytest.mark.parametrize("length", [LONGEST + 1, LONGEST + 4096, 9 << 20])
@pytest.mark.parametrize("piece", [4095, 4096, 65536, LONGEST + 10, LONGEST + 11, 64 << 20])
def test_an_oversized_message_is_discarded_to_its_last_byte_and_no_further(length: int, piece: int) -> None:
    stream = oversized(1, length) + ttrpc.message(3, Type.REQUEST, b"next")
    assert read(stream, piece) == [Message(1, 1, None), Message(3, 1, b"next")]


@pytest.mark.parametrize("cut", range(1, 21))
def test_an_oversized_message_may_be_cut_anywhere_around_its_header(cut: int) -> None:
    stream = ttrpc.message(1, Type.REQUEST, b"12345") + oversized(3, LONGEST + 1)
    stream += oversized(5, LONGEST + 1) + ttrpc.message(7, Type.REQUEST, b"next")
    reader = MessageReader()
    found = [message for part in (stream[:cut], stream[cut:]) for message in reader.receive_data(part)]
    assert found == [Message(1, 1, b"12345"), Message(3, 1, None), Message(5, 1, None), Message(7, 1, b"next")]


def test_an_oversized_message_is_known_by_its_header() -> None:
    """A peer that announces 4 GiB may never send them: the answer must not wait for that."""
    reader = MessageReader()
    assert list(reader.receive_data(struct.pack(">IIBB", 0xFFFFFFFF, 1, 1, 0))) == [Message(1, 1, None)]


def test_an_oversized_message_takes_no_memory() -> None:
    reader = MessageReader()
    chunk = bytes(65536)
    tracemalloc.start()
    try:
        found = list(reader.receive_data(struct.pack(">IIBB", 64 << 20, 1, 1, 0)))
        for _ in range(1024):
            found += reader.receive_data(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [Message(1, 1, None)]
    assert list(reader.receive_data(ttrpc.message(3, Type.REQUEST, b"next"))) == [Message(3, 1, b"next")]
    assert peak < 1 << 20
