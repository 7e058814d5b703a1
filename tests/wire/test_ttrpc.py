"""ttRPC messages: cut out of the byte stream of one connection, wherever its frames begin and end."""

from __future__ import annotations

import pickle
import struct

import pytest

from adapter.wire import ttrpc
from adapter.wire.ttrpc import Message, MessageReader, Type

from . import pieces

LONGEST = 4 << 20
NEXT = ttrpc.message(9, Type.REQUEST, b"next")


def read(stream: bytes, size: int) -> list[Message]:
    reader = MessageReader()
    return [message for piece in pieces(stream, size) for message in reader.receive_data(piece)]


def oversized(stream_id: int, length: int) -> bytes:
    return struct.pack(">IIBB", length, stream_id, 1, 0) + bytes(length)


def test_the_header_is_length_stream_type_and_no_flags() -> None:
    assert ttrpc.message(5, Type.RESPONSE, b"abc") == b"\0\0\0\3\0\0\0\5\2\0abc"


@pytest.mark.parametrize("piece", [1, 9, 10, 11, 4096, 8 << 20])
def test_messages_are_read_in_their_order_however_they_are_cut(piece: int) -> None:
    for size in (0, 1, 4086, *([LONGEST] if piece >= 4096 else [])):
        stream = ttrpc.message(1, Type.RESPONSE, b"x" * size) + ttrpc.message(3, Type.DATA, b"") + NEXT
        assert read(stream, piece) == [Message(1, 2, b"x" * size), Message(3, 3, b""), Message(9, 1, b"next")]


@pytest.mark.parametrize("length", [LONGEST + 1, LONGEST + 4096, 9 << 20])
def test_an_oversized_message_is_discarded_to_its_last_byte_and_no_further(length: int) -> None:
    for piece in (4095, 4096, LONGEST + 10, LONGEST + 11, 64 << 20):
        assert read(oversized(1, length) + NEXT, piece) == [Message(1, 1, None), Message(9, 1, b"next")]


def test_oversized_messages_may_be_cut_anywhere_around_their_headers() -> None:
    stream = ttrpc.message(1, Type.REQUEST, b"12345") + oversized(3, LONGEST + 1) + oversized(5, LONGEST + 1) + NEXT
    for cut in range(1, 26):
        reader = MessageReader()
        found = [message for part in (stream[:cut], stream[cut:]) for message in reader.receive_data(part)]
        assert found == [Message(1, 1, b"12345"), Message(3, 1, None), Message(5, 1, None), Message(9, 1, b"next")]


def test_an_oversized_message_is_known_by_its_header_and_takes_no_memory() -> None:
    """A peer that announces 4 GiB may never send them: the answer must not wait for that."""
    reader = MessageReader()
    assert list(reader.receive_data(struct.pack(">IIBB", 0xFFFFFFFF, 1, 1, 0))) == [Message(1, 1, None)]
    for _ in range(100):
        assert list(reader.receive_data(bytes(65536))) == []
    assert len(pickle.dumps(reader)) < 1000
