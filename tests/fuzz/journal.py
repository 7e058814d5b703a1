"""Target: the bytes of the journal's file.

Holds for all bytes: nothing is raised; a newer format is left alone; a torn end changes nothing; what is replayed can
be written, replayed again and asked a delete for; what is written to such a file is replayed with it.
"""

from __future__ import annotations

import io
import random
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from adapter.base import gojson
from adapter.host.lock import Lock
from adapter.legacy import request
from adapter.legacy.config import Entry
from adapter.legacy.request import Target as Known
from adapter.legacy.request import of_container
from adapter.nri import api
from adapter.owed import journal, records
from adapter.owed.journal import Journal
from adapter.owed.ledger import Ledger
from adapter.owed.records import FORMAT, Create

from . import mutations
from .target import Target

BOOT = "this-boot"
WORDS = (
    *("format", "boot", "created", "deleted", "sandbox", "pid", "started", "cgroup", "spec", "labels", "type"),
    *("number", "version", "conf", BOOT),
)
NEW = "new"
ENTRIES = (Entry("a", 0, "0.1", b'{"n":1}'), Entry("a", 1, "0.1", None), Entry("b", 0, "", b'"\xff"'))


def check(data: bytes) -> None:
    """The bytes are the file's, with this boot's header before them if the first byte is a space."""
    text = HEADER + data[1:] if data[:1] == b" " else data
    first, *rest = list(io.BytesIO(text)) or [b""]
    try:
        is_ours = records.is_of(first, BOOT)
    except ValueError as error:
        if f"this adapter knows {FORMAT}" not in str(error):
            raise
        return
    creates = replay(rest) if is_ours else []
    assert written(replay([*rest, b'{"created":"c1"'])) == written(replay(rest)), "a torn end counts"
    assert written(replay(written(creates).splitlines())) == written(creates)
    on_disk(text, creates)


def replay(told: list[bytes]) -> list[Create]:
    """What is owed after these lines."""
    return records.without_deletes(change for line in told if (change := records.parse(line)) is not None)


def written(creates: list[Create]) -> bytes:
    """The creates as lines of a journal."""
    return b"".join(records.create_line(*create, is_first=True) for create in creates)


HEADER = records.header(BOOT)


@cache
def place() -> tuple[Lock, object]:
    """The owner of a directory that lasts as long as this process: it is removed with its last reference."""
    directory = tempfile.TemporaryDirectory(prefix="fuzz-journal-")
    owner = Lock(directory.name)
    assert owner.take()
    Path(directory.name, "boot").write_text(BOOT)
    journal.BOOT_ID = f"{directory.name}/boot"
    return owner, directory


def on_disk(text: bytes, creates: list[Create]) -> None:
    """An adapter goes on with such a file, deletes all that is owed, and adds what it does itself."""
    owner, _ = place()
    Path(owner.directory, "journal").write_bytes(text)
    ledger = Ledger()
    ledger.resume_from(Journal(owner))
    try:
        assert not ledger.fault
        assert sorted(ledger.keys()) == sorted((create.target.id, create.entry.key) for create in creates)
        for id_ in ledger.ids():
            target = ledger.target(id_)
            assert target is not None
            owner.is_elsewhere(id_)
            for entry in ledger.begin_deletes(id_):
                asked = request.encode(target, "delete", entry, [])
                conf = b"null" if entry.conf is None else entry.conf
                if all(map(is_json, (target.spec, target.labels, conf))):
                    assert is_json(asked), asked
                str(target).encode("utf-8", "replace")
                ledger.end_delete(id_, entry)
        ledger.add(known(NEW), ENTRIES[0])
        ledger.resume_from(Journal(owner))
        assert list(ledger.keys()) == [(NEW, ENTRIES[0].key)]
    finally:
        ledger.resume_from(None)


def is_json(text: bytes) -> bool:
    try:
        return bool(gojson.document(text))
    except gojson.JSONError:
        return False


def known(id_: str) -> Known:
    linux = api.LinuxContainer(cgroups_path=f"/{id_}", resources=api.LinuxResources(cpu=api.LinuxCPU(cpus="0")))
    made = api.Container(id=id_, pid=7, linux=linux, annotations={"line\n": "\u2028é"})
    return of_container(made, api.PodSandbox(id="pod", labels={"of": "ü"}))


def seeds() -> Iterator[bytes]:
    """Histories as the adapter writes them, one of another boot, one of a newer format, one that is torn."""
    creates = [Create(known(id_), entry) for id_ in ("c1", "c2", "pod") for entry in ENTRIES]
    deleted = records.delete_line("c1", ("a", 0))
    yield from (HEADER, b" ", b" " + written(creates[:1]), b" " + written(creates), b" " + deleted)
    yield b" " + written(creates[:2]) + deleted + written(creates[:1]) + deleted[:20]
    yield HEADER.replace(b"this", b"that") + written(creates[:1])
    yield HEADER.replace(b'"format":1', b'"format":2') + b"{}\n"


def mutate(data: bytes, dice: random.Random) -> bytes:
    """Changes a value in a line, or drops, repeats or tears a line."""
    parts = data[1:].splitlines(keepends=True) or [b"{}\n"]
    index = dice.randrange(len(parts))
    line = parts[index]
    changed = mutations.json_text(line, dice, WORDS) + b"\n"
    torn = line[: dice.randrange(len(line))]
    parts[index] = dice.choice((changed, dice.choice((b"", line + line, torn, line + dice.choice(parts)))))
    return data[:1] + b"".join(parts)


TARGET = Target(check, seeds, mutate, WORDS)
