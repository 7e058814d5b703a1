"""Tests of adapter.wire, and the few ways of cutting bytes that they share."""

from __future__ import annotations

import struct
from collections.abc import Iterator


def frames_in(data: bytes) -> list[tuple[int, bytes]]:
    """The frames of a trunk, read without the code under test."""
    found = []
    while data:
        conn_id, length = struct.unpack_from(">II", data)
        found.append((conn_id, data[8 : 8 + length]))
        data = data[8 + length :]
    return found


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """`data` in pieces of `size` bytes; the last one may be shorter."""
    return (data[start : start + size] for start in range(0, len(data), size))
