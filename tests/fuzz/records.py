"""Target: the bytes of a record's file.

Holds for all bytes: nothing is raised; a torn end changes nothing; what is read can be written, read again and asked a
delete for; what is written to such a file is read with it.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

from adapter.base import gojson
from adapter.host.runtime_directory import RuntimeDirectory
from adapter.legacy import request
from adapter.legacy.config import Entry
from adapter.legacy.request import Target as Known
from adapter.legacy.request import of_container
from adapter.nri import api
from adapter.owed import records
from adapter.owed.ledger import Ledger
from adapter.owed.record_files import name_of
from adapter.owed.records import Create

from ..processes import SteppedLoop
from . import mutations
from .target import Target

WORDS = (
    *("created", "deleted", "names", "sandbox", "pid", "started", "cgroup", "at", "spec", "labels", "type"),
    *("number", "version", "conf"),
)
NEW = "new"
ENTRIES = (Entry("a", 0, "0.1", b'{"n":1}'), Entry("a", 1, "0.1", None), Entry("b", 0, "", b'"\xff"'))


def check(data: bytes) -> None:
    """The bytes are the file's: of the id in its first create, if there is one."""
    lines = data.splitlines()
    changes = [change for line in lines if (change := records.parse(line))]
    target = next((change.target for change in changes if isinstance(change, Create)), known("none"))
    creates = replay(lines, target.id)
    assert written(replay([*lines, b'{"created":"c1"'], target.id)) == written(creates), "a torn end counts"
    assert written(replay(written(creates).splitlines(), target.id)) == written(creates)
    if target.id:  # else nobody has written it
        on_disk(data, creates[0].target if creates else target, creates)


def replay(told: list[bytes], id_: str) -> list[Create]:
    """What is owed after these lines."""
    return records.without_deletes((records.parse(line) for line in told), id_)


def written(creates: list[Create]) -> bytes:
    """The creates as lines of a record."""
    return b"".join(records.create_line(create, is_first=True) for create in creates)


@cache
def place() -> tuple[RuntimeDirectory, SteppedLoop, object]:
    """A directory that lasts as long as this process: it is removed with its last reference."""
    above = tempfile.TemporaryDirectory(prefix="fuzz-records-")
    directory = RuntimeDirectory(above.name, "containerd")
    assert directory.open()
    return directory, SteppedLoop(), above


def on_disk(data: bytes, target: Known, creates: list[Create]) -> None:
    """An adapter goes on with such a file, deletes all that is owed, and adds what it does itself."""
    directory, loop, _ = place()
    file = Path(directory.path, name_of(target))
    file.write_bytes(data)
    try:
        ledger = read(loop, directory)
        assert not ledger.fault
        assert ledger.keys(target.id, float("-inf")) == {create.entry.key for create in creates}
        for entry in ledger.begin_deletes(target.id):
            delete(ledger, target.id, entry)
        assert not (creates and file.exists())
        for entry in ENTRIES:
            ledger.add(known(target.id, target.sandbox_id), entry)
        assert read(loop, directory).begin_deletes(target.id) == ENTRIES
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
    """Records as the adapter writes them, and one that is torn."""
    at = map(float, count(1))
    creates = [Create(known("c1"), entry, next(at)) for entry in ENTRIES]
    deleted = records.delete_line("c1", ("a", 0))
    yield from (b"", written(creates[:1]), written(creates), deleted, written(creates) + deleted)
    yield written(creates[:2]) + deleted + written(creates[:1]) + deleted[:20]
    yield written(creates[:1]) + written([Create(known("c2"), ENTRIES[0], next(at))])


def mutate(data: bytes, dice: random.Random) -> bytes:
    """Changes a value in a line, or drops, repeats or tears a line."""
    parts = data.splitlines(keepends=True) or [b"{}\n"]
    index = dice.randrange(len(parts))
    line = parts[index]
    changed = mutations.json_text(line, dice, WORDS) + b"\n"
    torn = line[: dice.randrange(len(line))]
    parts[index] = dice.choice((changed, dice.choice((b"", line + line, torn, line + dice.choice(parts)))))
    return b"".join(parts)


TARGET = Target(check, seeds, mutate, WORDS)
