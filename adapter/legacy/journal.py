"""The ledger on disk, so that deletes are still owed after the adapter was killed: an append-only file of JSON lines.

The first line names the format and the boot. After another boot nothing is owed, for no process has survived it.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from adapter.errors import ConfigError, reason_of
from adapter.legacy.config import Entry
from adapter.legacy.request import Target
from adapter.owner import Owner

log = logging.getLogger(__name__)

FORMAT = 1
MOST_DEAD = 1000
"""Records of ended lives in the file, beyond which it is written anew."""
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NAMES = ("created", "sandbox", "cgroup", "type", "version")
_NUMBERS = ("pid", "started", "number")


class Create(NamedTuple):
    """A create that was started: for what, and by which plugin as configured then."""

    target: Target
    entry: Entry


class Journal:
    """The journal of the owner. An earlier owner may still add to it. Errors of the disk are logged, no event fails."""

    def __init__(self, owner: Owner, boot: str) -> None:
        """Reads what an earlier process has left. Raises OSError, ConfigError, and ValueError for a newer format."""
        self._path = os.path.join(owner.directory, "journal")
        self._owner = owner
        self._boot = boot
        self._header = {"format": FORMAT, "boot": boot}
        self._failed = False
        self._fd = owner.open("journal", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        text = self._text()
        try:
            self.creates, self.existed = replay(text, boot)
        except ValueError:
            os.close(self._fd)
            raise
        self._dead = text.count(b"\n") - len(self.creates)
        self._is_torn = not text.endswith(b"\n")
        """Whether the file ends with a part of a record, which the next record must not continue."""
        if not self.existed:
            os.ftruncate(self._fd, 0)
            self._is_torn = False
            self._write()

    def created(self, target: Target, entry: Entry) -> None:
        """Notes a create. To be called when its process was spawned and before the process is fed."""
        self._write(record_of(target, entry))

    def deleted(self, id_: str, entry: Entry) -> None:
        """Notes that the delete of a plugin has ended."""
        self._dead += 2
        self._write({"deleted": id_, "type": entry.type, "number": entry.number})

    def compact(self, creates: Iterable[Create]) -> None:
        """Writes the file anew with nothing but these creates, if much of it is of ended lives."""
        if self._dead <= MOST_DEAD or not self._owner.is_held or not self._owner.is_alone:
            return
        records = [self._header, *(record_of(*create) for create in creates)]
        new = f"{self._path}.new"
        fd = -1
        try:
            fd = self._owner.open("journal.new", os.O_RDWR | os.O_CREAT | os.O_APPEND)
            os.ftruncate(fd, 0)
            text = b"".join(map(_line, records))
            if os.write(fd, text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.rename(new, self._path)
        except (OSError, ConfigError) as error:
            self._complain(error)
        else:
            self._fd, fd = fd, self._fd
            self._is_torn = False
        finally:
            if fd >= 0:
                os.close(fd)
        self._dead = 0  # after a failure, it is tried again as late

    def read_again(self) -> list[Create]:
        """Returns the creates without a delete that the file has now."""
        return replay(self._text(), self._boot)[0]

    def close(self) -> None:
        """Closes the file."""
        os.close(self._fd)

    def _text(self) -> bytes:
        return os.pread(self._fd, os.fstat(self._fd).st_size, 0)

    def _write(self, *records: dict[str, Any]) -> None:
        status = os.fstat(self._fd)
        if not status.st_nlink:
            self._complain(FileNotFoundError(errno.ENOENT, "was removed"))
        if not status.st_size:  # a new file, or the disk was full
            records = self._header, *records
        line = b"\n" * self._is_torn + b"".join(map(_line, records))
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            self._complain(error)
            return
        self._is_torn = written < len(line)
        if self._is_torn:
            self._complain(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def _complain(self, error: OSError | ConfigError) -> None:
        if not self._failed:
            text = "%s: %s: what is owed would be forgotten with this process"
            log.error(text, self._path, reason_of(error))
        self._failed = True


def open_journal(owner: Owner) -> Journal | None:
    """Returns the journal in the owner's state directory, or None, with the reason in the log."""
    if not owner.has_directory:
        return None
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            boot = file.read().strip()
        return Journal(owner, boot)
    except ConfigError as error:
        log.error("%s: what is owed is forgotten with this process (state.directory)", error)
        return None
    except (OSError, ValueError) as error:
        log.warning("%s: %s: what is owed is forgotten with this process", owner.directory, error)
        return None


def replay(text: bytes, boot: str) -> tuple[list[Create], bool]:
    """Returns the creates without a delete in a journal's text, and whether it is a journal of this boot.

    A last record that is torn is left out, as no part of a record is JSON. One that lacks only the end of its line is
    not: with the next record it would be there again. Raises ValueError for a newer format.
    """
    lines = text.splitlines()
    header = _decoded(lines[0]) if lines else {}
    form = header.get("format")
    if isinstance(form, int) and form > FORMAT:
        raise ValueError(f"the journal has format {form}, this adapter knows {FORMAT}")
    if form != FORMAT or header.get("boot") != boot:
        return [], False
    creates: dict[tuple[str, str, int], Create] = {}
    for line in lines[1:]:
        record = _decoded(line)
        with suppress(AttributeError, KeyError, TypeError, ValueError):  # not written by an adapter
            if "created" in record:
                target, entry = _create(record)
                creates[target.id, *entry.key] = Create(target, entry)
            elif "deleted" in record:
                creates.pop((record["deleted"], record["type"], record["number"]), None)
    return list(creates.values()), True


def record_of(target: Target, entry: Entry) -> dict[str, Any]:
    """Returns the record of a create, which becomes a line of the file."""
    return {
        "created": target.id,
        "names": target.names,
        "sandbox": target.sandbox_id,
        "pid": target.pid,
        "started": target.started,
        "cgroup": target.cgroups_path,
        "spec": _text(target.spec),
        "labels": _text(target.labels),
        "type": entry.type,
        "number": entry.number,
        "version": entry.version,
        "conf": None if entry.conf is None else _text(entry.conf),
    }


def _create(record: dict[str, Any]) -> Create:
    record = {"started": 0, "names": [], **record}
    "".join([*record["names"], *(record[key] for key in _NAMES)]).encode()  # raises for other types, lone surrogates
    if {type(record[key]) for key in _NUMBERS} != {int} or not isinstance(record["names"], list):
        raise TypeError
    target = Target.restored(
        record["created"],
        record["sandbox"],
        record["pid"],
        record["cgroup"],
        spec=_bytes(record["spec"]),
        labels=_bytes(record["labels"]),
    )
    target.started = record["started"]
    target.names = tuple(record["names"])
    conf = None if record["conf"] is None else _bytes(record["conf"])
    return Create(target, Entry(record["type"], record["number"], record["version"], conf))


def _text(value: bytes) -> str:
    """Returns bytes as text that JSON can hold, whatever the bytes are."""
    return value.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (RecursionError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
