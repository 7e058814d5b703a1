"""The record of a pod or container: the lines of its file, and the creates without a delete. Pure.

A line is a create, or the end of a delete. Only the first create has the spec and the labels: those after it are of the
same pod or container.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from json.encoder import encode_basestring_ascii as _quote
from typing import Any, NamedTuple, TypeAlias

from adapter.legacy.config import Entry
from adapter.legacy.request import Target

MOST_KEPT = 32 << 10
"""Maximum bytes of spec and labels together. A larger pair is left out: pod authors choose its size."""
_NO_SPEC, _NO_LABELS = b'{"resources":null}', b"{}"
_CONTROL = re.compile(r"[\x00-\x1f]")
_NAMES = ("created", "sandbox", "cgroup", "type", "version")
_NUMBERS = ("pid", "started", "number")


Key: TypeAlias = tuple[str, int]
"""The key of an entry of conf.json."""


class Delete(NamedTuple):
    """A delete that has ended: of which id and plugin."""

    id: str
    key: Key


class Create(NamedTuple):
    """A create that was started: for what, and by which plugin as configured then."""

    target: Target
    entry: Entry
    at: float = 0.0
    """When the create was noted, on the clock that all processes share."""


Change: TypeAlias = Create | Delete


def is_kept(target: Target) -> bool:
    """Whether a record keeps the spec and labels of a target."""
    return len(target.spec) + len(target.labels) <= MOST_KEPT


def create_line(create: Create, *, is_first: bool) -> bytes:
    """Returns the line of a create; `is_first` is whether the record has no other."""
    target, entry, at = create
    is_whole = is_first and is_kept(target)
    spec, labels = (target.spec, target.labels) if is_whole else (_NO_SPEC, _NO_LABELS)
    record = (
        f'{{"created":{_quote(target.id)},"names":[{",".join(map(_quote, target.names))}],'
        f'"sandbox":{_quote(target.sandbox_id)},"pid":{target.pid},"started":{target.started},'
        f'"cgroup":{_quote(target.cgroups_path)},"at":{at!r},'
        f'"type":{_quote(entry.type)},"number":{entry.number},"version":{_quote(entry.version)}'
    )
    conf = b"null" if entry.conf is None else _quoted(entry.conf)
    return b'%b,"spec":%b,"labels":%b,"conf":%b}\n' % (record.encode(), _quoted(spec), _quoted(labels), conf)


def delete_line(id_: str, key: Key) -> bytes:
    """Returns the line of a delete that has ended."""
    return f'{{"deleted":{_quote(id_)},"type":{_quote(key[0])},"number":{key[1]}}}\n'.encode()


def parse(line: bytes) -> Change | None:
    """Returns the change in a line, None if no adapter has written the line.

    A torn line is not JSON. A line that lacks only its newline is JSON, and counts.
    """
    record = _decoded(line)
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        if "created" in record:
            return _create(record)
        id_, type_, number = record["deleted"], record["type"], record["number"]
        if (type(id_), type(type_), type(number)) == (str, str, int):
            return Delete(id_, (type_, number))
    return None


def without_deletes(changes: Iterable[Change | None], id_: str) -> list[Create]:
    """Returns the creates of an id without a delete. All get the first target, with the first known pid."""
    creates: dict[Key, Create] = {}
    for made in changes:
        if isinstance(made, Delete) and made.id == id_:
            creates.pop(made.key, None)
        elif isinstance(made, Create) and made.target.id == id_:
            target = next(iter(creates.values()), made).target
            if not target.pid:
                target.pid, target.started = made.target.pid, made.target.started
            creates[made.entry.key] = made._replace(target=target)
    return list(creates.values())


def _create(record: dict[str, Any]) -> Create:
    "".join([*record["names"], *(record[key] for key in _NAMES)]).encode()  # raises for other types, lone surrogates
    at = record["at"]
    if {type(record[key]) for key in _NUMBERS} != {int} or not isinstance(record["names"], list):
        raise TypeError
    if type(at) is not float or not math.isfinite(at):  # it could not be written again
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
    return Create(target, Entry(record["type"], record["number"], record["version"], conf), at)


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


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (RecursionError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
