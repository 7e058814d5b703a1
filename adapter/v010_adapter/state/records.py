"""The record of a pod or container: which plugins are owed a delete for it; and its file. Pure.

The lines of the file are JSON: what is known, spec, labels; for each create what was run, and its conf, which may be
empty. Spec, labels and conf are as plugins get them. The first line begins with the number of the format. The last
line is a checksum: a file that is damaged at any byte is no record.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quote
from typing import NamedTuple, TypeAlias
from zlib import crc32

from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.request import Target
from v010_adapter.state.runtime_directory import file_name

FORMAT = 1
"""The number of the format. It changes with what the lines mean."""
_FORMAT = re.compile(rb'\{"format":(\d+),')
PREFIX = "+"
"""How the names of all files begin."""

Key: TypeAlias = tuple[str, int]
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
        self.owed: dict[Key, Create] = {}
        """The creates whose delete has not begun."""
        self.running: dict[Key, Create] = {}
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
        key = entry[:2]  # its key
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


@lru_cache(100)
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
