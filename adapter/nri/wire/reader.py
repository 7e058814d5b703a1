"""Cuts a byte stream into units that have a header with their length: frames of a trunk, messages of a connection."""

from __future__ import annotations

from struct import Struct, unpack_from

Unit = tuple[tuple[int, ...], bytes | None]
"""The numbers of the header, and the body. The body is None if it was too long and was discarded."""


class Reader:
    """Cuts a byte stream into units."""

    def __init__(self, header: Struct, length: int, longest: int) -> None:
        """Takes the place of the length among the numbers of the header, and the maximum length."""
        self._format, self._size = header.format, header.size
        self._length, self._longest = length, longest
        self._rest = bytearray()
        """The beginning of a unit."""
        self._wanted = self._size
        """How long the rest must become before there is something to read in it."""
        self._discard = 0
        """The bytes of a body beyond the maximum that have not come yet."""

    def receive_data(self, data: bytes) -> list[Unit]:
        """Returns every unit that is complete with `data`; one beyond the maximum once its header is complete."""
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
            self._wanted = self._size
        found: list[Unit] = []
        start, size = 0, len(data)
        while (body := start + self._size) <= size:
            header = unpack_from(self._format, data, start)
            end = body + header[self._length]
            if end - body > self._longest:
                self._discard = max(0, end - size)
                found.append((header, None))
            elif end > size:
                self._wanted = end - start
                break
            else:
                found.append((header, data[body:end]))
            start = end
        self._rest += data[start:]
        return found
