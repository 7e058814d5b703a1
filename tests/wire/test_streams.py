"""Frames and messages out of a stream, however it is cut: the protocol's own limits."""

from __future__ import annotations

import pickle
import struct

import pytest

from nri.errors import RemoteProtocolError
from nri.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Connection, Request, mux, ttrpc
from nri.wire.reader import Unit
from nri.wire.ttrpc import Type

from . import message_of, pieces

LONGEST = 4 << 20
"""Of an envelope; a frame has a header of ten bytes more."""
PAYLOAD = bytes(range(251)) * (LONGEST // 251 + 1)
"""Its period divides no buffer's size: each byte tells where it belongs."""


def frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


NEXT = message_of(9, Type.REQUEST, b"next")


def read(stream: bytes, size: int) -> list[Unit]:
    reader = ttrpc.reader()
    return [message for piece in pieces(stream, size) for message in reader.receive_data(piece)]


@pytest.mark.parametrize("piece", [4095, 65536, 8 << 20])
def test_the_longest_frames_and_messages_are_read_however_they_are_cut_and_are_not_kept(piece: int) -> None:
    wanted = [(number, PAYLOAD[:size]) for number, size in enumerate((4096, 0, LONGEST + 10, 3))]
    reader = mux.reader()
    stream = b"".join(frame(*each) for each in wanted)
    found = [frame for part in pieces(stream, piece) for frame in reader.receive_data(part)]
    assert [(conn_id, payload) for (conn_id, _), payload in found] == wanted
    assert len(pickle.dumps(reader)) < 1000
    assert read(message_of(1, Type.RESPONSE, PAYLOAD[:LONGEST]) + NEXT, piece) == [
        ((LONGEST, 1, 2, 0), PAYLOAD[:LONGEST]),
        ((4, 9, 1, 0), b"next"),
    ]


@pytest.mark.parametrize("length", [LONGEST + 11, 0xFFFFFFFF])
def test_a_frame_beyond_the_maximum_ends_the_trunk_at_its_header_and_frames_before_it_are_read(length: int) -> None:
    good = Request(1, "", "", b"", None)
    for conn_id in (0, 1, 0xFFFFFFFF):
        ours = Connection(serve=PLUGIN_SERVICE, call=RUNTIME_SERVICE)
        header = struct.pack(">II", conn_id, length)
        found = ours.receive_data(frame(PLUGIN_SERVICE, message_of(1, Type.REQUEST, b"")) + header[:7])
        assert list(found) == [good]
        with pytest.raises(RemoteProtocolError, match=f"connection {conn_id}: a frame of {length} bytes"):
            list(ours.receive_data(header[7:]))
