"""What a plugin and its keeper tell each other, and the record of a hold: lines of a name and a value."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress

from nri.holding.evidence import NO_ROOM

SUFFIX = ".hold"
MAX_MESSAGE = 16 << 10
"""Bytes of a message or a record."""


def encoded(fields: Mapping[str, object]) -> bytes:
    """Returns the bytes of a message. A line end in a value becomes a space."""
    lines = (f"{name} {str(value).replace(chr(10), ' ')}" for name, value in fields.items())
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def decoded(message: bytes) -> dict[str, str]:
    """Returns the fields of a message."""
    lines = message.decode("utf-8", "surrogateescape").split("\n")
    return {name: value for name, _, value in (line.partition(" ") for line in lines)}


class Records:
    """The records of a directory, one for each hold. A record is locked as long as a keeper has the hold."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def prepare(self) -> None:
        """Makes the directory. Raises OSError if it cannot be made, or if others may write to it."""
        with suppress(FileExistsError):
            os.makedirs(self.directory, 0o700)
        its = os.lstat(self.directory)
        if not stat.S_ISDIR(its.st_mode) or its.st_uid != os.geteuid() or its.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"{self.directory} is no directory that belongs to this user alone")

    def write(self, id_: str, fields: Mapping[str, object]) -> int:
        """Writes a record as a whole and locks it; returns its descriptor. Raises OSError, also if there is one."""
        fd = os.open(self._path(id_), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.lockf(fd, os.F_TLOCK, 0)
            os.write(fd, encoded(fields))
        except OSError:
            self.remove(id_, fd)
            raise
        return fd

    def remove(self, id_: str, fd: int) -> None:
        """Removes a record, and gives its lock back."""
        with suppress(OSError):
            os.unlink(self._path(id_))
        os.close(fd)

    def left(self) -> Iterator[tuple[str, int, dict[str, str]]]:
        """Yields the holds of keepers that have ended: id, the descriptor of the record, which is locked, and fields.

        To be called before this process has a hold: to close another descriptor of its record would unlock it. Raises
        OSError for want of room.
        """
        for id_ in self.ids():
            try:
                fd = os.open(self._path(id_), os.O_RDWR | os.O_CLOEXEC)
            except OSError as error:
                if error.errno in NO_ROOM:
                    raise
                continue
            try:
                os.lockf(fd, os.F_TLOCK, 0)
                is_there = os.fstat(fd).st_nlink > 0
                text = os.read(fd, MAX_MESSAGE)
            except OSError:  # its keeper lives
                is_there = False
            if is_there:
                yield id_, fd, decoded(text)
            else:
                os.close(fd)

    def ids(self) -> list[str]:
        """Returns the ids of all records."""
        try:
            return [name.removesuffix(SUFFIX) for name in os.listdir(self.directory) if name.endswith(SUFFIX)]
        except OSError:
            return []

    def _path(self, id_: str) -> str:
        return f"{self.directory}/{id_}{SUFFIX}"
