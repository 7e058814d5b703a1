"""The record of a pod or container: which plugins are owed a delete for it; and its file. Pure.

The lines of the file are JSON: what is known, spec, labels; for each create what was run, and its conf, which may be
empty. A last line tells that none is missing. Spec, labels and conf are as plugins get them.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quote
from typing import Any, NamedTuple, TypeAlias

from v010_adapter.host.runtime_directory import file_name
from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.request import Target

MOST_KEPT = 32 << 10
"""Maximum bytes of spec and labels together. A larger pair is left out: pod authors choose its size."""
PREFIX = "+"
"""How the names of all files begin."""
_END = b"end"
_CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f]")
"""What no JSON has in a line."""

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
        """As its creates knew it."""
        self.name = name_of(target)
        """The name of its file."""
        self.owed: dict[Key, Create] = {}
        """The creates whose delete has not begun."""
        self.running: dict[Key, Create] = {}
        """The creates whose delete has begun in this process. For other processes they are owed."""

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
    lines = [b'{"at":%r,%b' % (at, _encoded(entry)) for entry, at in creates]
    return b"\n".join((_known(record.target, record.target.started), *lines, _END)) if lines else b""


@lru_cache(1)
def _known(target: Target, started: int) -> bytes:
    """Returns the lines that all plugins of an event have in common. `started` may be found out between two events."""
    spec, labels = target.spec, target.labels
    if len(spec) + len(labels) > MOST_KEPT:
        spec, labels = b'{"resources":null}', b"{}"
    text = (
        f'{{"id":{_quote(target.id)},"names":[{",".join(map(_quote, target.names))}],'
        f'"sandbox":{_quote(target.sandbox_id)},"pid":{target.pid},"started":{started},'
        f'"cgroup":{_quote(target.cgroups_path)}}}'
    )
    return b"%b\n%b\n%b" % (text.encode(), spec, labels)


@lru_cache(100)
def _encoded(entry: Entry) -> bytes:
    """Returns the part of a create that is the same at each event, and the line after it."""
    text = f'"type":{_quote(entry.type)},"number":{entry.number},"version":{_quote(entry.version)}}}'
    return b"%b\n%b" % (text.encode(), entry.conf or b"")


def decode(name: str, text: bytes) -> Record | None:
    """Returns the record in a file, None if the file is damaged, or another one's."""
    try:
        record = _record(*text.split(b"\n"))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None
    record.name = name
    return record if name.endswith(f"+{file_name(record.target.id)}") and not _CONTROL.search(text) else None


def _record(first: bytes, spec: bytes, labels: bytes, *lines: bytes) -> Record:
    known = json.loads(first)
    target = Target.restored(*_values(known, id=str, sandbox=str, pid=int, cgroup=str), spec=spec, labels=labels)
    target.started, names = _values(known, started=int, names=list)
    target.names = tuple(names)
    "".join(names).encode()  # raises for others than texts
    record = Record(target)
    *creates, end = lines
    for made, conf in zip(creates[::2], creates[1::2], strict=True):
        at, type_, number, version = _values(json.loads(made), at=float, type=str, number=int, version=str)
        entry = Entry(type_, number, version, conf or None)
        record.owed[entry.key] = Create(entry, at)
        if not math.isfinite(at):
            raise ValueError("at")
    if not creates or end != _END:
        raise ValueError("cut")
    return record


def _values(document: Any, **kinds: type) -> list[Any]:
    """Returns values. Raises TypeError or ValueError for one of another kind, or that could not be written again."""
    values = [document[key] for key in kinds]
    if [*map(type, values)] != [*kinds.values()]:
        raise TypeError(f"not {kinds}")
    "".join(value for value in values if isinstance(value, str)).encode()  # raises for a lone surrogate
    return values
