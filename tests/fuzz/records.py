"""Target: the bytes of a record's file.

Holds for all bytes: nothing is raised; what is read can be written, read again and asked a delete for; half of it is no
record. What is changed has another checksum, and is none.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from nri import api
from v010_adapter.base import gojson
from v010_adapter.legacy import request
from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.request import Target as Known
from v010_adapter.legacy.request import of_container
from v010_adapter.state.ledger import Ledger, Record, decode, encode, name_of
from v010_adapter.state.runtime_directory import RuntimeDirectory

from ..rig.loop import SteppedLoop
from . import mutations
from .target import Target

WORDS = (*("id", "names", "sandbox", "pid", "started", "cgroup", "at", "type", "number", "version"),)
ENTRIES = (Entry("a", 0, "0.1", b'{"n":1}'), Entry("a", 1, "0.1", None), Entry("b", 0, "", b'"\xff"'))


def check(data: bytes) -> None:
    """The bytes are the file's: of the id that they name, if they are a record."""
    try:
        name = name_of(known(json.loads(data.partition(b"\n")[0])["id"]))
    except (KeyError, RecursionError, TypeError, ValueError):
        name = name_of(known("none"))
    found = decode(name, data)
    if found is None:
        return
    written = encode(found)
    again = decode(name, written)
    assert again is not None
    assert encode(again) == written
    assert decode(name, written[:-3]) is None, "half of a file counts"
    on_disk(name, data, found)


@cache
def place() -> tuple[RuntimeDirectory, SteppedLoop, object]:
    """A directory that lasts as long as this process: it is removed with its last reference."""
    above = tempfile.TemporaryDirectory(prefix="fuzz-records-")
    directory = RuntimeDirectory(above.name, "containerd")
    assert directory.open()
    return directory, SteppedLoop(), above


def on_disk(name: str, data: bytes, found: Record) -> None:
    """An adapter goes on with such a file, deletes all that is owed, and adds what it does itself."""
    directory, loop, _ = place()
    file, id_ = Path(directory.path, name), found.target.id
    file.write_bytes(data)
    try:
        ledger = read(loop, directory)
        assert not ledger.fault
        assert ledger.keys(id_, float("-inf")) == found.owed.keys()
        for entry in ledger.begin_deletes(id_):
            delete(ledger, id_, entry)
        assert not (found.owed and file.exists())
        for entry in ENTRIES:
            ledger.add(known(id_), entry)
        assert read(loop, directory).begin_deletes(id_) == ENTRIES
    finally:
        file.unlink(missing_ok=True)


def read(loop: SteppedLoop, directory: RuntimeDirectory) -> Ledger:
    """The ledger of an adapter that starts."""
    ledger, is_read = Ledger(loop, directory), list[bool]()
    ledger.read_all(lambda: is_read.append(True))
    loop.until(lambda: bool(is_read))
    return ledger


def delete(ledger: Ledger, id_: str, entry: Entry) -> None:
    target = ledger.target(id_)
    assert target is not None
    asked = request.encode(target, "delete", entry, [])
    conf = b"null" if entry.conf is None else entry.conf
    if all(map(is_json, (target.spec, target.labels, conf))):
        assert is_json(asked), asked
    str(target).encode("utf-8", "replace")
    ledger.end_delete(id_, entry)


def is_json(text: bytes) -> bool:
    try:
        return bool(gojson.document(text))
    except gojson.JSONError:
        return False


def known(id_: str, pod: str = "pod") -> Known:
    linux = api.LinuxContainer(cgroups_path=f"/{id_}", resources=api.LinuxResources(cpu=api.LinuxCPU(cpus="0")))
    made = api.Container(id=id_, pid=7, linux=linux, annotations={"line\n": "\u2028é"})
    return of_container(made, api.PodSandbox(id=pod, labels={"of": "ü"}))


def seeds() -> Iterator[bytes]:
    """Records as the adapter writes them, and one that is cut."""
    record = Record(known("c1"))
    yield b""
    for number, entry in enumerate(ENTRIES):
        record.add(entry, float(number))
        yield encode(record)
    yield encode(record)[:-20]


def mutate(data: bytes, dice: random.Random) -> bytes:
    """Changes a value in a line, or a line for another one, or cuts or repeats the file."""
    lines = data.split(b"\n")
    place = dice.randrange(len(lines))
    lines[place] = dice.choice((mutations.json_text(lines[place], dice, WORDS), dice.choice(lines)))
    changed = b"\n".join(lines)
    return dice.choice((changed, changed, changed, data[: dice.randrange(len(data) + 1)], data + data))


TARGET = Target(check, seeds, mutate, WORDS)
