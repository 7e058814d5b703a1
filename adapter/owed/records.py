"""The lines of the journal: writing them, reading them, and the creates without a delete. Pure.

The first line names the format and the boot. Each other line is a create, or the end of a delete. Only the first create
of an id has its spec and labels: those after it are of the same pod or container.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from adapter.legacy.config import Entry
from adapter.legacy.request import Target

FORMAT = 1
MOST_KEPT = 32 << 10
"""Maximum bytes of spec and labels together. A larger pair is left out: pod authors choose its size."""
_LONG = 3 * MOST_KEPT
"""Maximum bytes of the pair in the file: the two bytes of é become six in JSON."""
_NO_SPEC, _NO_LABELS = b'{"resources":null}', b"{}"
_encode = json.JSONEncoder(separators=(",", ":")).encode
_NAMES = ("created", "sandbox", "cgroup", "type", "version")
_NUMBERS = ("pid", "started", "number")


class Delete(NamedTuple):
    """A delete that has ended: of which id and plugin."""

    id: str
    key: tuple[str, int]


class Create(NamedTuple):
    """A create that was started: for what, and by which plugin as configured then."""

    target: Target
    entry: Entry

    @property
    def delete(self) -> Delete:
        """The delete that belongs to it."""
        return Delete(self.target.id, self.entry.key)


Change: TypeAlias = Create | Delete


def header(boot: str) -> bytes:
    """Returns the first line."""
    return _line({"format": FORMAT, "boot": boot})


def is_of(line: bytes, boot: str) -> bool:
    """Whether this is the first line of a journal of this boot. Raises ValueError for a newer format."""
    record = _decoded(line)
    form = record.get("format")
    if isinstance(form, int) and form > FORMAT:
        raise ValueError(f"the journal has format {form}, this adapter knows {FORMAT}")
    return form == FORMAT and record.get("boot") == boot


def is_kept(target: Target) -> bool:
    """Whether the journal keeps the spec and labels of a target."""
    return len(target.spec) + len(target.labels) <= MOST_KEPT


def create_line(target: Target, entry: Entry, *, is_first: bool) -> bytes:
    """Returns the line of a create; `is_first` is whether the journal has no other of the id."""
    is_whole = is_first and is_kept(target)
    return _line(
        {
            "created": target.id,
            "names": target.names,
            "sandbox": target.sandbox_id,
            "pid": target.pid,
            "started": target.started,
            "cgroup": target.cgroups_path,
            "spec": _text(target.spec if is_whole else _NO_SPEC),
            "labels": _text(target.labels if is_whole else _NO_LABELS),
            "type": entry.type,
            "number": entry.number,
            "version": entry.version,
            "conf": None if entry.conf is None else _text(entry.conf),
        }
    )


def delete_line(id_: str, key: tuple[str, int]) -> bytes:
    """Returns the line of a delete that has ended."""
    return _line({"deleted": id_, "type": key[0], "number": key[1]})


def parse(line: bytes) -> Change | None:
    """Returns the change in a line, None if no adapter has written the line.

    A torn line is not JSON. A line that lacks only its newline is JSON, and counts.
    """
    record = _decoded(_without_excess(line))
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        if "created" in record:
            return _create(record)
        id_, type_, number = record["deleted"], record["type"], record["number"]
        if (type(id_), type(type_), type(number)) == (str, str, int):
            return Delete(id_, (type_, number))
    return None


def without_deletes(changes: Iterable[Change]) -> list[Create]:
    """Returns the creates without a delete. All creates of an id get the first target, with the first known pid."""
    lives: dict[str, dict[tuple[str, int], Create]] = {}
    for made in changes:
        if isinstance(made, Delete):
            lives.get(made.id, {}).pop(made.key, None)
            if not lives.get(made.id, True):
                del lives[made.id]
            continue
        of_id = lives.setdefault(made.target.id, {})
        target = next(iter(of_id.values()), made).target
        if not target.pid:
            target.pid, target.started = made.target.pid, made.target.started
        of_id[made.entry.key] = Create(target, made.entry)
    return [create for of_id in lives.values() for create in of_id.values()]


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


def _without_excess(line: bytes) -> bytes:
    """Returns a line without spec and labels if they are too long to be decoded: earlier adapters kept all of them.

    In JSON, a quotation mark in a text has a backslash before it: these are the keys.
    """
    if len(line) > _LONG:
        start, end = line.find(b',"spec":"'), line.rfind(b',"type":"')
        if 0 <= start < end - _LONG:
            nothing = _line({"spec": _text(_NO_SPEC), "labels": _text(_NO_LABELS)})
            return line[:start] + b"," + nothing[1:-2] + line[end:]
    return line


def _text(value: bytes) -> str:
    """Returns bytes as text that JSON can hold, whatever the bytes are."""
    return value.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _line(record: dict[str, Any]) -> bytes:
    return _encode(record).encode() + b"\n"


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (RecursionError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
