"""The multiplexer: frames out as a Go reader can take them, frames in however they come."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from adapter.errors import RemoteProtocolError
from adapter.wire import mux

from . import frames_in, pieces

LONGEST = (4 << 20) + 10
"""A ttRPC message of 4 MiB and its header; what Go takes, and what Go sends at most."""
SIZES = [0, 1, 4085, 4086, 4087, 4096, 4097, 8182, 100_000, LONGEST]


def frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


def message(size: int) -> bytes:
    """Bytes that tell, by a period that divides no buffer's size, where they belong."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


@pytest.mark.parametrize("size", SIZES)
def test_a_message_goes_out_in_two_frames_at_most_the_first_within_4096_bytes(size: int) -> None:
    frames = frames_in(mux.frames(7, message(size)))
    assert {conn_id for conn_id, _ in frames} == {7}
    assert len(frames) <= 2
    assert len(frames[0][1]) == min(size, 4096)
    assert b"".join(payload for _, payload in frames) == message(size)


@pytest.mark.parametrize("size", [size for size in SIZES if size <= 100_000])
def test_frames_read_a_byte_at_a_time_are_those_read_at_once(size: int) -> None:
    stream = mux.frames(1, message(size)) + frame(2, b"") + mux.frames(2, b"end")
    reader = mux.FrameReader()
    piecewise = [event for piece in pieces(stream, 1) for event in reader.receive_data(piece)]
    assert piecewise == list(mux.FrameReader().receive_data(stream)) == frames_in(stream)


def test_the_longest_frame_is_read() -> None:
    stream = frame(1, message(LONGEST)) + frame(1, b"next")
    reader = mux.FrameReader()
    found = [event for piece in pieces(stream, 65536) for event in reader.receive_data(piece)]
    assert found == [(1, message(LONGEST)), (1, b"next")]


@pytest.mark.parametrize("conn_id", [0, 1, 2, 3, 0xFFFFFFFF])
@pytest.mark.parametrize("length", [LONGEST + 1, 0xFFFFFFFF])
def test_a_frame_beyond_the_maximum_ends_the_trunk_at_its_header(conn_id: int, length: int) -> None:
    reader = mux.FrameReader()
    header = struct.pack(">II", conn_id, length)
    assert list(reader.receive_data(header[:7])) == []
    with pytest.raises(RemoteProtocolError, match=f"connection {conn_id}: a frame of {length} bytes"):
        list(reader.receive_data(header[7:]))
    with pytest.raises(RemoteProtocolError):
        list(reader.receive_data(b""))


def test_frames_before_one_beyond_the_maximum_are_read() -> None:
    events = mux.FrameReader().receive_data(frame(1, b"good") + struct.pack(">II", 1, LONGEST + 1))
    assert next(events) == (1, b"good")
    with pytest.raises(RemoteProtocolError):
        next(events)


def test_a_frame_of_no_bytes_is_a_frame() -> None:
    assert list(mux.FrameReader().receive_data(frame(1, b"") + frame(2, b"x"))) == [(1, b""), (2, b"x")]


def test_a_reader_that_is_left_in_the_middle_goes_on_with_the_next_frame() -> None:
    reader = mux.FrameReader()
    for event in reader.receive_data(frame(1, b"one") + frame(1, b"two")):
        assert event == (1, b"one")
        break
    assert list(reader.receive_data(frame(1, b"three"))) == [(1, b"two"), (1, b"three")]


def test_what_has_been_read_is_not_kept() -> None:
    reader = mux.FrameReader()
    stream = frame(1, bytes(60_000)) * 2
    tracemalloc.start()
    try:
        for _ in range(500):  # 60 MB
            for _event in reader.receive_data(stream):
                pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20
