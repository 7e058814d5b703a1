"""The multiplexer: frames of several logical connections on one stream.

    +----------------+----------------+-----------------------+
    | conn_id u32 BE | length u32 BE  | `length` bytes        |
    +----------------+----------------+-----------------------+

Connection 0 is reserved; a peer drops frames of connections that it does not know.
Source: containerd/nri pkg/net/multiplex/mux.go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from adapter.errors import RemoteProtocolError

HEADER = struct.Struct(">II")
MAX_PAYLOAD = (4 << 20) + 10
"""Longest payload of a frame: a ttRPC message of 4 MiB and its header. Go closes the trunk over a longer one."""

FIRST_FRAME = 4096
"""A Go reader takes a frame whole or dies, and reads a ttRPC header through a buffer of this size."""


def frames(conn_id: int, message: bytes) -> bytes:
    """Returns one ttRPC message as the frames Go itself would send.

    At most two, for Go queues no more than 256 frames: the first 4096 bytes, so that the header arrives in a
    frame that fits the reader's buffer, then all the rest.
    """
    length = len(message)
    if length <= FIRST_FRAME:
        return HEADER.pack(conn_id, length) + message
    return b"".join(
        (
            HEADER.pack(conn_id, FIRST_FRAME),
            message[:FIRST_FRAME],
            HEADER.pack(conn_id, length - FIRST_FRAME),
            message[FIRST_FRAME:],
        )
    )


class FrameReader:
    """Cuts the trunk's byte stream into frames."""

    def __init__(self) -> None:
        """Starts with nothing buffered."""
        self._buffer = bytearray()

    def receive_data(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yields `(conn_id, payload)` of every frame that is complete with `data`.

        Raises RemoteProtocolError for a frame longer than MAX_PAYLOAD: there is no way to find the next one.
        """
        buffer = self._buffer
        if not buffer and len(data) >= HEADER.size:
            conn_id, length = HEADER.unpack_from(data)
            if len(data) == HEADER.size + length <= HEADER.size + MAX_PAYLOAD:
                yield conn_id, data[HEADER.size :]  # the usual case: one frame, and all of it
                return
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= HEADER.size:
                conn_id, length = HEADER.unpack_from(buffer, start)
                if length > MAX_PAYLOAD:
                    raise RemoteProtocolError(f"connection {conn_id}: a frame of {length} bytes, at most {MAX_PAYLOAD}")
                end = start + HEADER.size + length
                if len(buffer) < end:
                    break
                payload = bytes(buffer[start + HEADER.size : end])
                start = end
                yield conn_id, payload
        finally:
            del buffer[:start]
