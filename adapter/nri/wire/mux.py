"""The multiplexer: frames of several logical connections on one stream.

    +----------------+----------------+-----------------------+
    | conn_id u32 BE | length u32 BE  | `length` bytes        |
    +----------------+----------------+-----------------------+

Connection 0 is reserved. A peer drops frames of unknown connections.
Source: containerd/nri pkg/net/multiplex/mux.go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from nri.errors import RemoteProtocolError

HEADER = struct.Struct(">II")
SIZE = HEADER.size
MAX_PAYLOAD = (4 << 20) + 10
"""Maximum payload of a frame: a ttRPC message of 4 MiB and its header. Go closes the trunk over a longer frame."""

FIRST_FRAME = 4096
"""Size of the buffer through which Go reads a ttRPC header. A longer frame with a header breaks the connection."""


def frames(conn_id: int, message: bytes) -> bytes:
    """Returns one ttRPC message as frames, split as Go splits it.

    The first frame, with the header, has at most 4096 bytes: it must fit the reader's buffer. The rest is one frame,
    because Go queues at most 256 frames.
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
        self._rest = bytearray()
        """The beginning of a frame."""
        self._wanted = 0
        """How long the rest must become before there is something to read in it."""

    def receive_data(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yields `(conn_id, payload)` of every frame that is complete with `data`.

        Raises RemoteProtocolError for a frame longer than MAX_PAYLOAD: the next frame cannot be found.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return
            data = bytes(self._rest)
            self._rest.clear()
            self._wanted = 0
        start, size = 0, len(data)
        while (body := start + SIZE) <= size:
            conn_id, length = HEADER.unpack_from(data, start)
            end = body + length
            if length > MAX_PAYLOAD:
                self._rest += data[start:]
                raise RemoteProtocolError(f"connection {conn_id}: a frame of {length} bytes, at most {MAX_PAYLOAD}")
            if end > size:
                self._wanted = end - start
                break
            yield conn_id, data[body:end]
            start = end
        if start < size:
            self._rest += data[start:]
