"""The multiplexer: frames of several logical connections on one stream.

    +----------------+----------------+-----------------------+
    | conn_id u32 BE | length u32 BE  | `length` bytes        |
    +----------------+----------------+-----------------------+

Connection 0 is reserved. A peer drops frames of unknown connections.
Source: containerd/nri pkg/net/multiplex/mux.go.
"""

from __future__ import annotations

import struct

from nri.wire.reader import Reader

HEADER = struct.Struct(">II")
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


def reader() -> Reader:
    """Returns what cuts the trunk: `(conn_id, length)` and payload of each frame."""
    return Reader(HEADER, 1, MAX_PAYLOAD)
