"""The multiplexer: frames in, however they come. test_recorded.py has the frames that go out."""

from __future__ import annotations

import pickle
import struct

import pytest

from adapter.errors import RemoteProtocolError
from adapter.wire import mux

from . import pieces

LONGEST = (4 << 20) + 10  # A ttRPC message of 4 MiB and its header: what Go sends at most
PAYLOAD = bytes(range(251)) * (LONGEST // 251 + 1)
"""Its period divides no buffer's size: each byte tells where it belongs."""


def frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


def test_frames_are_read_however_they_are_cut_and_are_not_kept() -> None:
    for sizes, piece in (([0, 1, 4096, 0], 1), ([4096, 0, 8182], 4095), ([LONGEST, 3], 65536), ([LONGEST, 3], 8 << 20)):
        wanted = [(number, PAYLOAD[:size]) for number, size in enumerate(sizes)]
        reader = mux.FrameReader()
        stream = b"".join(frame(*each) for each in wanted)
        assert [found for part in pieces(stream, piece) for found in reader.receive_data(part)] == wanted
        assert len(pickle.dumps(reader)) < 1000


@pytest.mark.parametrize("conn_id", [0, 1, 3, 0xFFFFFFFF])
@pytest.mark.parametrize("length", [LONGEST + 1, 0xFFFFFFFF])
def test_a_frame_beyond_the_maximum_ends_the_trunk_at_its_header(conn_id: int, length: int) -> None:
    reader = mux.FrameReader()
    header = struct.pack(">II", conn_id, length)
    assert list(reader.receive_data(frame(1, b"good") + header[:7])) == [(1, b"good")]
    with pytest.raises(RemoteProtocolError, match=f"connection {conn_id}: a frame of {length} bytes"):
        list(reader.receive_data(header[7:]))
    with pytest.raises(RemoteProtocolError):
        list(reader.receive_data(b""))


def test_frames_before_one_beyond_the_maximum_are_read() -> None:
    events = mux.FrameReader().receive_data(frame(1, b"good") + struct.pack(">II", 1, LONGEST + 1))
    assert next(events) == (1, b"good")
    with pytest.raises(RemoteProtocolError):
        next(events)


def test_a_reader_that_is_left_in_the_middle_goes_on_with_the_next_frame() -> None:
    reader = mux.FrameReader()
    assert next(reader.receive_data(frame(1, b"one") + frame(1, b"two"))) == (1, b"one")
    assert list(reader.receive_data(frame(1, b"three"))) == [(1, b"two"), (1, b"three")]
