"""The files of the records. A file is replaced as a whole, so nobody finds half of one."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from adapter.host.runtime_directory import RuntimeDirectory, file_name
from adapter.owed import records
from adapter.owed.records import Record

_NEW = "new."


class RecordFiles:
    """The files of one runtime. Each method may raise OSError."""

    def __init__(self, directory: RuntimeDirectory) -> None:
        self.directory = directory
        self._new = f"{_NEW}{os.urandom(6).hex()}"
        """The file that becomes a record when it is whole. Each process has its own."""

    @property
    def is_there(self) -> bool:
        """Whether the directory can be used."""
        return self.directory.fd >= 0

    def names(self, pod: str = "", *, is_alone: bool = False) -> list[str]:
        """Returns the names of all records, or of those of a pod and its containers.

        `is_alone` is whether no other process writes: then what killed processes have not finished is removed.
        """
        prefix = f"+{file_name(pod)}+" if pod else "+"
        with suppress(FileNotFoundError):  # it was removed
            names = os.listdir(self.directory.path)
            for name in names if is_alone else ():
                if name.startswith(_NEW):
                    os.unlink(name, dir_fd=self.directory.fd)
            return [name for name in names if name.startswith(prefix)]
        return []

    def read(self, name: str) -> bytes | None:
        """Returns a file, None if there is none."""
        try:
            with open(self.directory.open_file(name, os.O_RDONLY), "rb", buffering=0) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, record: Record) -> None:
        """Makes a file be as its record; without creates there is none."""
        fd = self.directory.fd
        if record.creates:
            self._write_new(records.encode(record))
            os.rename(self._new, record.name, src_dir_fd=fd, dst_dir_fd=fd)
        else:
            with suppress(FileNotFoundError):
                os.unlink(record.name, dir_fd=fd)

    def _write_new(self, text: bytes) -> None:
        fd = self.directory.open_file(self._new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            if os.write(fd, text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)
