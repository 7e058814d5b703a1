"""The ledger on disk, so that deletes are still owed after the adapter was killed: an append-only file of JSON lines.

After another boot nothing is owed, for no process has survived it.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from adapter.errors import ConfigError, reason_of
from adapter.host.lock import FORGOTTEN, Lock
from adapter.host.state_directory import identity
from adapter.legacy.config import Entry
from adapter.legacy.request import Target
from adapter.owed import records
from adapter.owed.records import Change, Create, Delete, without_deletes

log = logging.getLogger(__name__)

GROWTH = 1 << 20
"""A delete has the file written anew if it has twice the bytes of the last writing, and this many more."""
_PIECE = 1 << 16
"""Bytes of one write."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Journal:
    """The journal of the owner. An earlier owner may still add to it. No event fails for an error of the disk.

    A file that cannot be opened is tried again, and an incomplete file is written anew, as soon as possible.
    """

    def __init__(self, lock: Lock, on_fault: Callable[[], object] = lambda: None) -> None:
        """Takes the lock of the state directory, and what is called at each fault. Opens nothing yet."""
        self._path = os.path.join(lock.directory, "journal")
        self._lock = lock
        self._boot = ""
        self._fd = -1
        self._identity = 0, 0
        """Which file the open journal is."""
        self.existed = False
        """Whether an earlier process of this boot has left a journal."""
        self.fault = ""
        """Why what is owed would be forgotten with this process; empty if it would not."""
        self._on_fault = on_fault
        self._lacks_something = False
        """Whether the file lacks something that the ledger has."""
        self._is_read = False
        """Whether the ledger has all that earlier owners have written."""
        self._is_torn = False
        """Whether the file ends with a part of a record, which the next record must not continue."""
        self._known = 0
        """The bytes at the beginning of the file that have been read, or that this process has written."""
        self._own: set[int] = set()
        """Offsets of this process's own records beyond `_known`. Reading skips them: the ledger has them."""
        self._rewritten = 0
        """The bytes that this process has written when it last wrote the file anew."""
        self._is_worn = False
        """Whether the file has grown a lot and has records of the past. Creates alone are all owed."""
        self._ended: set[Delete] = set()
        """The deletes that ended while the file was not open: the file may still list them as owed."""

    def read(self) -> list[Change]:
        """Returns the changes that have not been read. The first call returns the creates without a delete."""
        if self._fd < 0:
            return self._first()
        news: list[Change] = []
        try:
            for change in self._news():
                news.append(change)  # noqa: PERF402 - the changes before an error count
        except OSError as error:
            self._complain(error)
            self._is_read = False
        return news

    def _first(self) -> list[Change]:
        self._lacks_something = True
        if not self._lock.has_directory:
            return []
        try:
            self._open()
            left = without_deletes(self._news())
        except (OSError, ConfigError, ValueError) as error:
            self._complain(error)
            self.close()
            return []
        self._lacks_something = not self.existed or self._is_torn
        ended, self._ended = self._ended, set()
        return [create for create in left if create.delete not in ended]

    def _open(self) -> None:
        with open(BOOT_ID, encoding="ascii") as file:
            self._boot = file.read().strip()
        fd, which = self._lock.open("journal", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            with open(fd, "rb", closefd=False) as file:
                header = file.readline()
            self.existed = records.is_of(header, self._boot)
        except (OSError, ValueError):
            os.close(fd)
            raise
        self._fd, self._identity, self._known = fd, which, len(header)
        self._own, self._rewritten = set(), 0
        if not self.existed:
            self._known = os.fstat(fd).st_size

    def _news(self) -> Iterator[Change]:
        """Yields the changes of other processes that have not been read. An incomplete last line is read later."""
        with open(self._fd, "rb", closefd=False) as file:
            at = file.seek(self._known)
            line = b"\n"
            for line in file:
                change = None if at in self._own else records.parse(line)
                at += len(line)
                if line.endswith(b"\n"):
                    self._known = at
                if change is not None:
                    yield change
        self._own = {offset for offset in self._own if offset >= self._known}
        self._is_torn = not line.endswith(b"\n")
        self._is_read = True

    def add_create(self, target: Target, entry: Entry, *, is_first: bool) -> None:
        """Notes a create. To be called when its process was spawned and before the process is fed.

        `is_first` is whether no other plugin is owed a delete for the id.
        """
        self._ended.discard(Delete(target.id, entry.key))
        if self._fd < 0:
            return
        if is_first and not records.is_kept(target):
            log.warning(
                "%s: its spec and labels have more than %d KiB: a delete after this process goes without them",
                *(target, records.MOST_KEPT >> 10),
            )
        self._append(records.create_line(target, entry, is_first=is_first))

    def add_delete(self, id_: str, entry: Entry) -> None:
        """Notes that the delete of a plugin has ended."""
        if self._fd < 0:
            self._ended.add(Delete(id_, entry.key))
        else:
            self._append(records.delete_line(id_, entry.key))
            self._is_worn = self._known > 2 * self._rewritten + GROWTH

    def _append(self, line: bytes) -> None:
        begins_anew = self._is_torn or not (self._lock.is_held and self._lock.is_alone)
        text = b"\n" * begins_anew + line  # what the other process has written may be torn
        try:
            written = os.write(self._fd, text)
            end = os.lseek(self._fd, 0, os.SEEK_CUR)
            if end - len(text) == self._known:
                self._known = end
            elif written > begins_anew:  # an earlier owner has written, too, or a record is torn
                self._own.add(end - written + begins_anew)
            self._is_torn = written < len(text)
            if self._is_torn:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._complain(error)

    @property
    def must_be_written(self) -> bool:
        """Whether the owner must write the file anew: it is incomplete, gone, or has grown a lot."""
        if not self._lock.is_held:
            return False
        if not self._lacks_something and not self._is_there():
            self._complain(FileNotFoundError(errno.ENOENT, "was removed or cut off"))
        return self._lacks_something or self._is_worn

    def _is_there(self) -> bool:
        try:
            status = os.stat(self._path)
            return identity(status) == self._identity and status.st_size >= self._known
        except OSError:
            return False

    @property
    def is_ours(self) -> bool:
        """Whether no earlier owner adds to the file any more."""
        return self._lock.is_alone

    def write(self, creates: Iterable[Create]) -> None:
        """Writes the file anew with these creates alone. They must have been read after `is_ours` was true."""
        if self._fd < 0 or not self._is_read or not self._lock.is_held:
            return
        new = f"{self._path}.new"
        fd = -1
        try:
            fd, which = self._lock.open("journal.new", os.O_RDWR | os.O_CREAT | os.O_APPEND)
            os.ftruncate(fd, 0)
            size = self._fill(fd, creates)
            os.rename(new, self._path)
        except (OSError, ConfigError) as error:
            self._complain(error)
            with suppress(OSError):
                os.unlink(new)
        else:
            self._fd, fd = fd, self._fd
            self._identity = which
            self._own = set()
            self._known = self._rewritten = size
            self._is_torn = self._lacks_something = self._is_worn = False
            if self.fault:
                log.info("%s has all that is owed again", self._path)
                self.fault = ""
        finally:
            if fd >= 0:
                os.close(fd)

    def _fill(self, fd: int, creates: Iterable[Create]) -> int:
        """Writes the file; returns its bytes."""
        written: set[str] = set()
        with open(fd, "wb", buffering=_PIECE, closefd=False) as file:
            file.write(records.header(self._boot))
            for create in creates:
                file.write(records.create_line(*create, is_first=create.target.id not in written))
                written.add(create.target.id)
            return file.tell()

    def close(self) -> None:
        """Closes the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _complain(self, error: OSError | ConfigError | ValueError) -> None:
        self._lacks_something = True
        place = getattr(error, "filename", None)
        place = place if isinstance(place, str) else self._path
        reason = str(error) if isinstance(error, ConfigError) else f"{place}: {reason_of(error)}"
        if not self.fault:
            log.error("%s: %s", reason, FORGOTTEN)
        self.fault = f"{reason}: {FORGOTTEN}"
        self._on_fault()
