"""ttRPC messages: a header of ten bytes, then an envelope.

    +---------------+------------------+---------+----------+------------------+
    | length u32 BE | stream_id u32 BE | type u8 | flags u8 | `length` bytes   |
    +---------------+------------------+---------+----------+------------------+

Source: containerd/ttrpc PROTOCOL.md and channel.go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

HEADER = struct.Struct(">IIBB")
MAX_LENGTH = 4 << 20
"""Maximum bytes of an envelope, in both directions."""


class Type(IntEnum):
    """The type of a message."""

    REQUEST = 1
    RESPONSE = 2
    DATA = 3


class Code(IntEnum):
    """The gRPC status codes that NRI and the adapter use."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13


class Message(NamedTuple):
    """A message; `envelope` is None if the envelope was too long and was discarded."""

    stream_id: int
    type: int
    envelope: bytes | None


def message(stream_id: int, type_: Type, envelope: bytes) -> bytes:
    """Returns a message as bytes. The flags are 0: NRI's calls are unary."""
    return HEADER.pack(len(envelope), stream_id, type_, 0) + envelope


class MessageReader:
    """Cuts the byte stream of one logical connection into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._discard = 0  # remaining bytes of an oversized message

    def receive_data(self, data: bytes) -> Iterator[Message]:
        """Yields every message that is complete with `data`; an oversized message once its header is complete."""
        if self._discard:
            skipped = min(self._discard, len(data))
            self._discard -= skipped
            data = data[skipped:]
        buffer = self._buffer
        buffer += data
        while len(buffer) >= HEADER.size:
            length, stream_id, type_, _flags = HEADER.unpack_from(buffer)
            end = HEADER.size + length
            if length > MAX_LENGTH:
                self._discard = max(0, end - len(buffer))
                del buffer[:end]
                yield Message(stream_id, type_, None)
                continue
            if len(buffer) < end:
                break
            envelope = bytes(buffer[HEADER.size : end])
            del buffer[:end]
            yield Message(stream_id, type_, envelope)
