"""Tests of nri.wire, and the few ways of cutting bytes that they share."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from nri.proto import ttrpc_pb2
from nri.wire import ttrpc


def message_of(stream_id: int, type_: int, envelope: bytes) -> bytes:
    """A message as bytes."""
    return struct.pack(">IIBB", len(envelope), stream_id, type_, 0) + envelope


def frames_in(data: bytes) -> list[tuple[int, bytes]]:
    """The frames of a trunk, read without the code under test."""
    found = []
    while data:
        conn_id, length = struct.unpack_from(">II", data)
        assert length <= len(data) - 8, "the frame is not whole"
        found.append((conn_id, data[8 : 8 + length]))
        data = data[8 + length :]
    return found


def statuses(data: bytes, conn_id: int) -> list[tuple[int, int, str]]:
    """Stream id, code and text of the answers in what an end has sent on this connection."""
    found, reader = [], ttrpc.reader()
    for on, payload in frames_in(data):
        for (_, stream_id, type_, _), envelope in reader.receive_data(payload):
            assert (on, type_) == (conn_id, ttrpc.Type.RESPONSE)
            status = ttrpc_pb2.Response.FromString(envelope or b"").status
            found.append((stream_id, status.code, status.message))
    return found


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """`data` in pieces of `size` bytes; the last one may be shorter."""
    return (data[start : start + size] for start in range(0, len(data), size))
