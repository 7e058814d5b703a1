"""Which plugins got a create for which id, so that each of them gets one delete for it; and the files of that.

A create counts once its plugin was spawned, whatever the result. Memory has a `Record` of each id, and the disk has a
copy of it for other processes. Whoever changes a record has the lock of its id (`turns`), and replaces the file before
the plugin gets its request. No event fails for an error of the disk. Which copy counts at an event:

    memory    once all files have been read, and while no other adapter writes (`is_current`)
    the file  else: it is read when the turn of the event has come
    memory    for an id in `_unwritten`, whose file could not be written, or is damaged. It is written again and again

The lines of a file are JSON: what is known, spec, labels; for each create what was run, and its conf, which may be
empty. Spec, labels and conf are as plugins get them. The first line begins with the number of the format. The last
line is a checksum: a file that is damaged at any byte is no record.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from json.encoder import encode_basestring_ascii as _quote
from typing import NamedTuple, TypeAlias
from zlib import crc32

from v010_adapter.base.loop import CLOSED, NO_TIMER, Loop
from v010_adapter.errors import reason_of
from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.request import MOST_KEPT, Target
from v010_adapter.state.runtime_directory import FORGOTTEN, RuntimeDirectory, file_name

log = logging.getLogger(__name__)

RETRY = 1.0
"""Seconds until records that could not be written or read are tried again."""
FOREIGN = (
    "%s/%s has format %d, of another version of the adapter: it is kept, and its deletes do not come from this one"
)
SLICE, LEAST = 100 << 10, 1 << 10
"""Bytes of records that are made, written or read in one turn of the loop, which take a few milliseconds.

A record counts at least LEAST bytes: so much work are the calls that read or write its file.
"""
FORMAT = 1
"""The number of the format. It changes with what the lines mean."""
_FORMAT = re.compile(rb'\{"format":(\d+),')
PREFIX = "+"
"""How the names of all files begin."""

EntryKey: TypeAlias = tuple[str, int]
"""The key of an entry of conf.json."""


class Create(NamedTuple):
    """A create that was started: by which plugin as configured then."""

    entry: Entry
    at: float
    """When the create was noted, on the clock that all processes share."""


class Record:
    """A pod or container, and the creates whose delete has not ended. Without such creates it has no file."""

    __slots__ = ("name", "owed", "running", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        """As its creates knew it. What a Synchronize has told has NRI's messages until `cut`."""
        self.name = name_of(target)
        """The name of its file."""
        self.owed: dict[EntryKey, Create] = {}
        """The creates whose delete has not begun."""
        self.running: dict[EntryKey, Create] = {}
        """The creates whose delete has begun in this process. For other processes they are owed."""

    def cut(self) -> None:
        """Lets go of NRI's messages."""
        self.target = self.target.kept()

    @property
    def size(self) -> int:
        """The bytes that are kept, after `cut`."""
        return len(self.target.spec) + len(self.target.labels)

    def add(self, entry: Entry, at: float) -> bool:
        """Adds a create; returns whether its plugin was owed no delete. Else only the moment is new."""
        key = entry.type, entry.number
        earlier = self.owed.get(key)
        self.owed[key] = Create(entry if earlier is None else earlier.entry, at)
        return earlier is None

    def begin_deletes(self) -> tuple[Entry, ...]:
        """Returns the plugins that are owed a delete; the deletes count as running."""
        owed, self.owed = self.owed, {}
        self.running.update(owed)
        return tuple(create.entry for create in owed.values())

    def put_back(self, entry: Entry) -> bool:
        """Notes that a plugin's delete could not be started; returns whether the plugin is owed it still."""
        create = self.running.pop(entry.key, None)
        if create is not None:
            self.owed[entry.key] = create
        return create is not None


class Ledger:
    """The creates without a delete, by id, and what the creates knew."""

    def __init__(self, loop: Loop, directory: RuntimeDirectory) -> None:
        self._loop = loop
        self._directory = directory
        self._records: dict[str, Record] = {}
        self._unwritten: dict[str, Record] = {}
        """The records whose file must be written again, or removed: those of forgotten ids."""
        self._uncut: list[Record] = []
        """The records that still have NRI's messages. Their files need no writing."""
        self._is_shared = False
        """Whether another adapter may write records."""
        self._is_read = False
        """Whether all files have been read since another adapter may have written some."""
        self._foreign: set[str] = set()
        """The names of the files that another version of the adapter has written, in another format."""
        self._on_read: list[Callable[[], object]] = []
        self._has_told_read = False
        """Whether `_on_read` has been called once already, because some files could not be read."""
        self._on_written: list[Callable[[], object]] = []
        self._upkeep: Iterator[int] | None = None
        """Makes, writes and reads records in slices, and yields the bytes of each; None if nothing is to be done."""
        self._timer = NO_TIMER
        """Begins the upkeep again, after an error of the disk."""
        self.fault = ""
        """Why a kill of this process would forget what is owed, or repeat what is done; empty if it would not."""
        self.on_fault: Callable[[bool], object] = lambda is_so: None
        """Told whether there is such a reason, when that changes."""
        self.read_all()

    def __contains__(self, id_: str) -> bool:
        """Whether some plugin is owed a delete for the id."""
        record = self._records.get(id_)
        return record is not None and bool(record.owed)

    @property
    def is_read(self) -> bool:
        """Whether all files have been read, perhaps a while ago."""
        return self._is_read

    @property
    def is_current(self) -> bool:
        """Whether memory has all that the files have."""
        return self._is_read and not self._is_shared

    def ids(self) -> list[str]:
        """Returns the ids that are owed a delete."""
        return [id_ for id_, record in self._records.items() if record.owed]

    def keys(self, id_: str, since: float) -> set[EntryKey]:
        """Returns the plugins whose creates of an id have been noted since a moment."""
        record = self._records.get(id_)
        return {key for key, create in record.owed.items() if create.at >= since} if record is not None else set()

    def target(self, id_: str) -> Target | None:
        """Returns what the creates of an id knew."""
        record = self._records.get(id_)
        return None if record is None else record.target

    def containers_of(self, pod: str) -> list[str]:
        """Returns the ids of the containers of a pod that have not been forgotten."""
        for name in () if self.is_current else self._names(prefix_of(pod)) or ():
            self._read(name)
        return [id_ for id_, record in self._records.items() if record.target.sandbox_id == pod != id_]

    @property
    def foreign(self) -> str:
        """Which records are left to another version of the adapter; empty if there are none."""
        text = "{}: records in another format, whose deletes are left to the version that has written them: {:.1000}"
        return text.format(self._directory.path, ", ".join(sorted(self._foreign))) if self._foreign else ""

    # Creates and deletes

    def keep(self, target: Target) -> Record:
        """Keeps what a create knows of its target. A later create counts, unless only an earlier one knew the pid."""
        record = self._records.get(target.id)
        if record is None:
            record = self._records[target.id] = Record(target.kept())
        elif target.pid or not record.target.pid:
            record.target = target.kept()
        return record

    def keep_later(self, target: Target) -> None:
        """Keeps what a Synchronize tells of an id without a record. There may be thousands: it is made in slices."""
        self._uncut.append(self._records.setdefault(target.id, Record(target)))
        if self._upkeep is None:
            self._begin_upkeep()

    def add(self, target: Target, entry: Entry) -> None:
        """Notes that a plugin's create is started. Of a plugin that is owed a delete, only the moment is new."""
        record = self.keep(target)
        is_first, is_new = not (record.owed or record.running), record.add(entry, self._loop.time())
        if is_first and record.target.is_cut:
            text = "%s: its spec and labels have more than %d KiB: a delete for which the runtime reports none has none"
            log.warning(text, target, MOST_KEPT >> 10, extra=target.named.extra)
        if is_new or self._is_shared:
            self._write(record)

    def add_later(self, id_: str, entries: Iterable[Entry]) -> None:
        """Notes creates that count as run, of an id with a record. There may be thousands: written in slices."""
        record = self._records[id_]
        for entry in entries:
            record.add(entry, self._loop.time())
        self._write_later(record)

    def begin_deletes(self, id_: str) -> tuple[Entry, ...]:
        """Returns the plugins that are owed a delete, as configured at their creates.

        Their deletes run until the caller calls `end_delete` or `put_back`.
        """
        record = self._records.get(id_)
        return () if record is None else record.begin_deletes()

    def end_delete(self, id_: str, entry: Entry) -> None:
        """Notes that a plugin's delete has ended, if it was owed one."""
        record = self._records.get(id_)
        if record is not None and record.running.pop(entry.key, None) is not None:
            self._write(record)

    def put_back(self, id_: str, entry: Entry) -> bool:
        """Notes that a plugin's delete could not be started; returns whether the plugin is owed it still."""
        record = self._records.get(id_)
        return record is not None and record.put_back(entry)

    def forget(self, id_: str) -> None:
        """Forgets what the creates of an id knew: it has been removed."""
        self._records.pop(id_, None)

    # Reading

    def refresh(self, target: Target, *, is_locked: bool = False, is_stale: bool = False) -> None:
        """Reads the file of an id, if it may have more than memory, or if `is_stale` says so.

        `is_locked` is whether the caller has the lock of the id.
        """
        if is_stale or self._is_shared or not self._is_read:
            record = self._records.get(target.id)
            self._read(record.name if record else name_of(target), target.id, is_locked=is_locked)

    def expect_changes(self, is_shared: bool, is_remade: bool) -> None:
        """Other adapters may have written records, or may write them. `is_remade`: the directory was removed."""
        was_shared, self._is_shared = self._is_shared, is_shared
        if is_remade:
            self._write_all_later()
        if is_remade or (not is_shared and (was_shared or self._is_read)):
            self.read_all()

    def read_all(self, then: Callable[[], object] | None = None) -> None:
        """Reads all records, in slices, and calls back after the last one.

        If some cannot be read, memory counts: it calls back, and once more when they have been read.
        """
        self._is_read = False
        if then is not None:
            self._on_read, self._has_told_read = [then], False
        self._begin_upkeep()

    def _names(self, prefix: str) -> list[str] | None:
        """Returns the names of files that begin with a prefix; None if they cannot be read."""
        try:
            return self._directory.names(prefix, is_alone=not self._is_shared)
        except OSError as error:
            self._complain(error)
            return None

    def _read(self, name: str, id_: str = "", *, is_locked: bool = False) -> int:
        """Takes what a file has into memory; returns the bytes of the file, -1 if it cannot be read."""
        try:
            text = self._directory.read(name)
        except OSError as error:
            self._complain(error, name)
            return -1
        found = None if text is None else decode(name, text)
        id_ = id_ or (found.target.id if found else "")
        known = self._records.get(id_)
        if id_ in self._unwritten:
            pass  # memory counts
        elif text is not None and found is None:
            self._mend(name, text, known, is_locked=is_locked)
        elif known is not None:
            owed = found.owed if found is not None else {}
            known.owed = {key: create for key, create in owed.items() if key not in known.running}
        elif found is not None:
            self._records[id_] = found
        return len(text or b"")

    def _mend(self, name: str, text: bytes, known: Record | None, *, is_locked: bool) -> None:
        """A file is damaged: it is written again. If it is unknown here and to others, it is removed.

        Beside others, whoever has the lock of the id writes it: another one may have run the deletes meanwhile.

        A file in another format is left as it is, unless memory has a record with this name.
        """
        if known is not None and (known.owed or known.running):
            if is_locked:
                self._write(known)
            elif not self._is_shared:
                self._write_later(known)
        elif (number := format_of(text)) not in (0, FORMAT):
            if name not in self._foreign:
                log.warning(FOREIGN, self._directory.path, name, number)
            self._foreign.add(name)
        elif not self._is_shared:
            log.warning("%s/%s is damaged: the deletes that it had do not come", self._directory.path, name)
            with suppress(OSError):
                self._directory.replace(name, b"")

    # Writing

    def _write(self, record: Record) -> None:
        """Makes a file be as memory has its record; later, if that fails."""
        self._unwritten.pop(record.target.id, None)
        record.cut()
        self._foreign.discard(record.name)
        try:
            self._directory.replace(record.name, encode(record))
        except OSError as error:
            self._complain(error, record.name)
            self._write_later(record)

    def _write_later(self, record: Record) -> None:
        self._unwritten[record.target.id] = record
        self._begin_upkeep_later()

    def _write_all_later(self) -> None:
        """The directory is a new one. Of what other adapters have written there, they know more."""
        there = set(self._names(PREFIX) or ())
        for record in self._records.values():
            if (record.owed or record.running) and record.name not in there:
                self._write_later(record)

    def when_written(self, callback: Callable[[], object]) -> None:
        """Calls back when no file is to be written: at once, if they are few."""
        self._on_written.append(callback)
        self._begin_upkeep()
        self._is_done(self._write_each())

    @property
    def is_needed(self) -> bool:
        """Whether other adapters would need records that this process cannot write."""
        return self._is_shared and bool(self._unwritten)

    def when_not_needed(self, callback: Callable[[], object]) -> None:
        """Calls back, at once or later, when other adapters can read all records."""
        if self.is_needed:
            self.when_written(callback)
        else:
            callback()

    def write_now(self) -> None:
        """The process ends: writes what is to be written later."""
        for _ in self._write_each():
            pass

    def _cut_each(self) -> Iterator[int]:
        while self._uncut:
            record = self._uncut.pop()
            record.cut()
            yield record.size

    def _write_each(self) -> Iterator[int]:
        while self._unwritten:
            record = next(iter(self._unwritten.values()))
            self._write(record)
            if record.target.id in self._unwritten:
                return  # the disk is full
            yield record.size
        while self._on_written:
            self._on_written.pop()()

    # In slices, between which events are served

    def _begin_upkeep_later(self) -> None:
        if self._upkeep is None and self._timer.callback is None:
            self._timer = self._loop.call_at(self._loop.time() + RETRY, self._begin_upkeep)

    def _begin_upkeep(self) -> None:
        self._timer.cancel()
        self._upkeep = work = self._all_upkeep()
        self._loop.call_soon(partial(self._go_on, work))

    def _go_on(self, work: Iterator[int]) -> None:
        if work is self._upkeep and not self._is_done(work):
            self._loop.call_soon(partial(self._go_on, work))

    def _is_done(self, work: Iterator[int]) -> bool:
        """Does one slice of some work; returns whether that was all."""
        left = SLICE
        for size in work:
            left -= max(size, LEAST)
            if left <= 0:
                return False
        return True

    def _all_upkeep(self) -> Iterator[int]:
        yield from self._cut_each()
        yield from self._write_each()
        if not self._is_read:
            yield from self._read_each()
        self._upkeep = None
        if self._unwritten or not self._is_read:
            self._begin_upkeep_later()
        elif self.fault:
            log.info("the records have all that is owed again")
            self.fault = ""
            self.on_fault(False)
        callbacks = self._on_read if self._is_read or not self._has_told_read else []
        self._on_read, self._has_told_read = [] if self._is_read else self._on_read, True
        for callback in callbacks:
            callback()

    def _read_each(self) -> Iterator[int]:
        names = self._names(PREFIX)
        is_read = names is not None
        self._foreign.intersection_update(names or ())
        known = {record.name: id_ for id_, record in self._records.items()}  # others may have run their deletes
        for name, id_ in {**dict.fromkeys(names or (), ""), **known}.items():
            size = self._read(name, id_)
            is_read &= size >= 0
            yield size
        self._is_read = is_read

    def _complain(self, error: OSError, name: str = "") -> None:
        """Logs, once, what is not kept. That the directory cannot be used is told by `turns`."""
        self._begin_upkeep_later()
        if self._directory.fd != CLOSED:
            text = f"{self._directory.path}/{name}: {reason_of(error)}: {FORGOTTEN}"
            if not self.fault:
                log.warning("%s", text)
                self.on_fault(True)
            self.fault = text


def name_of(target: Target) -> str:
    """Returns the name of the file of a pod or container: `+POD+ID`."""
    return f"{PREFIX}{file_name(target.sandbox_id)}+{file_name(target.id)}"


def prefix_of(pod: str) -> str:
    """Returns how the names of the files of a pod and its containers begin."""
    return f"{PREFIX}{file_name(pod)}+"


def encode(record: Record) -> bytes:
    """Returns the file of a record, empty if there is to be none."""
    creates = (*record.running.values(), *record.owed.values())
    lines = b"".join([b'\n{"at":%r,%b' % (at, _encoded(entry)) for entry, at in creates])
    if not lines:
        return b""
    known, checksum = _known(record.target, record.target.started)
    return b"%b%b\n%d" % (known, lines, crc32(lines, checksum))


@lru_cache(1)
def _known(target: Target, started: int) -> tuple[bytes, int]:
    """Returns the lines that all plugins of an event have in common, and their checksum.

    `started` may be found out between two events.
    """
    text = (
        f'{{"format":{FORMAT},"id":{_quote(target.id)},"names":[{",".join(map(_quote, target.names))}],'
        f'"sandbox":{_quote(target.sandbox_id)},"pid":{target.pid},"started":{started},'
        f'"cgroup":{_quote(target.cgroups_path)}}}'
    )
    lines = b"%b\n%b\n%b" % (text.encode(), target.spec, target.labels)
    return lines, crc32(lines)


@lru_cache
def _encoded(entry: Entry) -> bytes:
    """Returns the part of a create that is the same at each event, and the line after it."""
    text = f'"type":{_quote(entry.type)},"number":{entry.number},"version":{_quote(entry.version)}}}'
    return b"%b\n%b" % (text.encode(), entry.conf or b"")


def format_of(file: bytes) -> int:
    """Returns the number of the format of a file, 0 if it has none."""
    found = _FORMAT.match(file)
    return int(found[1]) if found else 0


def decode(name: str, file: bytes) -> Record | None:
    """Returns the record in a file, None if the file is damaged, another one's, or has another format."""
    text, _, checksum = file.rpartition(b"\n")
    if format_of(text) != FORMAT or checksum != b"%d" % crc32(text):
        return None
    try:
        record = _record(*text.split(b"\n"))
    except (KeyError, TypeError, ValueError):  # no adapter has written it
        return None
    record.name = name
    return record if name.endswith(f"+{file_name(record.target.id)}") else None


def _record(first: bytes, spec: bytes, labels: bytes, *creates: bytes) -> Record:
    known = json.loads(first)
    target = Target.restored(*(known[key] for key in ("id", "sandbox", "pid", "cgroup")), spec=spec, labels=labels)
    target.started, target.names = known["started"], tuple(known["names"])
    record = Record(target)
    for line, conf in zip(creates[::2], creates[1::2], strict=True):
        made = json.loads(line)
        entry = Entry(made["type"], made["number"], made["version"], conf or None)
        record.owed[entry.key] = Create(entry, made["at"])
    return record
