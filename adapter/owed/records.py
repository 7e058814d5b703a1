"""The lines of the journal: writing them, reading them, and the creates without a delete. Pure.

The first line names the format and the boot. Each other line is a create, or the end of a delete. Only the first create
of an id has its spec and labels: those after it are of the same pod or container.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from json.encoder import encode_basestring_ascii as _quote
from typing import Any, NamedTuple, TypeAlias

from adapter.legacy.config import Entry
from adapter.legacy.request import Target

FORMAT = 1
MOST_KEPT = 32 << 10
"""Maximum bytes of spec and labels together. A larger pair is left out: pod authors choose its size."""
_LONG = 3 * MOST_KEPT
"""Maximum bytes of the pair in the file: the two bytes of é become six in JSON."""
_NO_SPEC, _NO_LABELS = b'{"resources":null}', b"{}"
_CONTROL = re.compile(r"[\x00-\x1f]")
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
    spec, labels = (target.spec, target.labels) if is_whole else (_NO_SPEC, _NO_LABELS)
    record = (
        f'{{"created":{_quote(target.id)},"names":[{",".join(map(_quote, target.names))}],'
        f'"sandbox":{_quote(target.sandbox_id)},"pid":{target.pid},"started":{target.started},'
        f'"cgroup":{_quote(target.cgroups_path)},'
        f'"type":{_quote(entry.type)},"number":{entry.number},"version":{_quote(entry.version)}'
    )
    conf = b"null" if entry.conf is None else _quoted(entry.conf)
    return b'%b,"spec":%b,"labels":%b,"conf":%b}\n' % (record.encode(), _quoted(spec), _quoted(labels), conf)


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
            return b'%b,"spec":%b,"labels":%b%b' % (line[:start], _quoted(_NO_SPEC), _quoted(_NO_LABELS), line[end:])
    return line


def _quoted(text: bytes) -> bytes:
    """Returns JSON, which may have invalid UTF-8, as a string of JSON."""
    if text.isascii():  # JSON has no control characters
        return b'"%b"' % text.replace(b"\\", rb"\\").replace(b'"', rb"\"")
    return _quote(text.decode("utf-8", "surrogateescape")).encode()


def _bytes(text: str) -> bytes:
    """Returns what `_quoted` took. Raises ValueError if that was no JSON, which has no control characters."""
    if _CONTROL.search(text):
        raise ValueError("a control character")
    return text.encode("utf-8", "surrogateescape")


def _line(record: dict[str, Any]) -> bytes:
    return _encode(record).encode() + b"\n"


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (RecursionError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
