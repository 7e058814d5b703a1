"""The records on disk: a file `+POD+ID` for each pod and container. `records` has its lines."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import NamedTuple

from adapter.host.runtime_directory import RuntimeDirectory, file_name
from adapter.legacy.request import Target
from adapter.owed import records
from adapter.owed.records import Create

COUNTED = "counted"
"""The file that tells that the first start is over."""
LARGEST = 1 << 20
"""Maximum bytes of a record that is read: a plugin's conf and MOST_KEPT are far smaller."""


class Record(NamedTuple):
    """What a file has."""

    id: str = ""
    creates: list[Create] = []  # noqa: RUF012 - nobody changes it
    """The creates without a delete."""
    is_whole: bool = True
    """False if some line is no line of a record."""


def name_of(target: Target) -> str:
    """Returns the name of the record of a pod or container."""
    return f"+{file_name(target.sandbox_id)}+{file_name(target.id)}"


class RecordFiles:
    """The files of one runtime. Each method may raise OSError. Without a directory there are none."""

    def __init__(self, directory: RuntimeDirectory) -> None:
        self._directory = directory

    @property
    def is_there(self) -> bool:
        """Whether the directory can be used."""
        return self._directory.fd >= 0

    def path(self, name: str) -> str:
        """Returns the path of a record."""
        return os.path.join(self._directory.path, name)

    @property
    def are_counted(self) -> bool:
        """Whether an adapter has counted what ran before it came to this node."""
        return os.path.lexists(self.path(COUNTED))

    def note_counted(self) -> None:
        """Notes that what ran at the first start has been counted."""
        os.close(self._directory.open_file(COUNTED, os.O_WRONLY | os.O_CREAT))

    def names(self, pod: str = "") -> list[str]:
        """Returns the names of all records, or of those of a pod and its containers."""
        prefix = f"+{file_name(pod)}+" if pod else "+"
        if not self.is_there:
            return []
        with suppress(FileNotFoundError):  # it was removed
            return [name for name in os.listdir(self._directory.path) if name.startswith(prefix)]
        return []

    def read(self, name: str) -> Record:
        """Returns a record; an empty one if there is no file."""
        try:
            with open(self._directory.open_file(name, os.O_RDONLY), "rb") as file:
                lines = list(filter(None, file.read(LARGEST).splitlines()))
        except FileNotFoundError:
            return Record()
        changes = [change for line in lines if (change := records.parse(line))]
        id_ = next((change.target.id for change in changes if isinstance(change, Create)), "")
        if not name.endswith(f"+{file_name(id_)}"):
            return Record(is_whole=False)
        return Record(id_, records.without_deletes(changes, id_), is_whole=len(changes) == len(lines))

    def append(self, name: str, line: bytes, *, is_first: bool) -> None:
        """Adds a line to a record; the first one replaces what was there.

        An empty line before it ends a line that was torn by a kill or a full disk.
        """
        self._write(name, os.O_TRUNC if is_first else os.O_APPEND, line if is_first else b"\n" + line)

    def replace(self, name: str, creates: list[Create]) -> None:
        """Makes a record have just these creates; removes it if there are none."""
        if creates:
            lines = [records.create_line(create, is_first=not number) for number, create in enumerate(creates)]
            self._write(f"new{name}", os.O_TRUNC, b"".join(lines))
            os.rename(f"new{name}", name, src_dir_fd=self._directory.fd, dst_dir_fd=self._directory.fd)
        else:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._directory.fd)

    def _write(self, name: str, flags: int, text: bytes) -> None:
        fd = self._directory.open_file(name, flags | os.O_WRONLY | os.O_CREAT)
        try:
            if os.write(fd, text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)
