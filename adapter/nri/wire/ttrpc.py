"""ttRPC messages: a header of ten bytes, then an envelope.

    +---------------+------------------+---------+----------+------------------+
    | length u32 BE | stream_id u32 BE | type u8 | flags u8 | `length` bytes   |
    +---------------+------------------+---------+----------+------------------+

Source: containerd/ttrpc PROTOCOL.md and channel.go.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from nri.wire.reader import Reader

HEADER = struct.Struct(">IIBB")
MAX_LENGTH = 4 << 20
"""Maximum bytes of an envelope, in both directions."""


class Type(IntEnum):
    """The type of a message."""

    REQUEST = 1
    RESPONSE = 2
    DATA = 3


class Code(IntEnum):
    """The gRPC status codes that NRI and this package use."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13


def reader() -> Reader:
    """Returns what cuts a logical connection: `(length, stream_id, type, flags)` and envelope of each message."""
    return Reader(HEADER, 0, MAX_LENGTH)
