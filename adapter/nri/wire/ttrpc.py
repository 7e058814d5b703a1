"""ttRPC messages: a header of ten bytes, then an envelope.

    +---------------+------------------+---------+----------+------------------+
    | length u32 BE | stream_id u32 BE | type u8 | flags u8 | `length` bytes   |
    +---------------+------------------+---------+----------+------------------+

Source: containerd/ttrpc PROTOCOL.md and channel.go.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TypeAlias

HEADER = struct.Struct(">IIBB")
SIZE = HEADER.size
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


Message: TypeAlias = tuple[int, int, bytes | None]
"""Stream id, type and envelope; the envelope is None if it was too long and was discarded."""


class MessageReader:
    """Cuts the byte stream of one logical connection into messages."""

    def __init__(self) -> None:
        self._rest = bytearray()
        """The beginning of a message."""
        self._wanted = 0
        """How long the rest must become before there is something to read in it."""
        self._discard = 0
        """The bytes of an oversized message that have not come yet."""

    def receive_data(self, data: bytes) -> list[Message]:
        """Returns every message that is complete with `data`; an oversized message once its header is complete."""
        if self._discard:
            skipped = min(self._discard, len(data))
            self._discard -= skipped
            data = data[skipped:]
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return []
            data = bytes(self._rest)
            self._rest.clear()
            self._wanted = 0
        found: list[Message] = []
        start, size = 0, len(data)
        while (body := start + SIZE) <= size:
            length, stream_id, type_, _flags = HEADER.unpack_from(data, start)
            end = body + length
            if length > MAX_LENGTH:
                self._discard = max(0, end - size)
                found.append((stream_id, type_, None))
            elif end > size:
                self._wanted = end - start
                break
            else:
                found.append((stream_id, type_, data[body:end]))
            start = end
        if start < size:
            self._rest += data[start:]
        return found
