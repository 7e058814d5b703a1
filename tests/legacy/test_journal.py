"""The ledger and its journal: whatever moment the adapter dies at, the next one owes what this one owed.

What a pod can write into the journal is bounded, and what adapters of the first format have written can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adapter.legacy.config import Entry
from adapter.legacy.request import Target, encode, of_container
from adapter.nri import api
from adapter.owed import journal, records
from adapter.owed.ledger import Ledger
from adapter.owed.records import MOST_KEPT

from ..test_docs import DOCS
from .owning import Process

BOOT = "this-boot"
HEADER = records.header(BOOT)
ENTRIES = [
    Entry("a", 0, "0.1", b'{"n": 1.10}'),
    Entry("a", 1, "0.1", None),
    Entry("b\xff", 0, "", b'"\xff\xed\xa0\x80"'),
]
FIRST_FORMAT: dict[str, Any] = {
    # Each of these must be there, with these types: otherwise the reader of the first version leaves the record out.
    **dict.fromkeys(("created", "sandbox", "cgroup", "spec", "labels", "type", "version"), str),
    **dict.fromkeys(("pid", "started", "number"), int),
    "names": list,
    "conf": (str, type(None)),
}


def target(id_: str = "c1", pid: int = 7, size: int = 1) -> Target:
    linux = api.LinuxContainer(cgroups_path=f"/{id_}", resources=api.LinuxResources(cpu=api.LinuxCPU(cpus="0")))
    made = api.Container(id=id_, name="nginx", pid=pid, linux=linux, annotations={"line\n": '\u2028é"'})
    pod = api.PodSandbox(id="pod", namespace="default", name="web", labels={"of": "ü", "l": "x" * size})
    return of_container(made, pod)


def create(ledger: Ledger, made: Target) -> None:
    for entry in ENTRIES:
        ledger.add(made, entry)


def delete(ledger: Ledger, id_: str) -> None:
    for entry in ledger.begin_deletes(id_):
        ledger.end_delete(id_, entry)


def known(process: Process, id_: str = "c1") -> Target:
    found = process.ledger.target(id_)
    assert found is not None
    return found


def request(process: Process, id_: str = "c1") -> dict[str, Any]:
    """What a delete would ask with."""
    return dict(json.loads(encode(known(process, id_), "delete", ENTRIES[0], [])))


Start = Callable[[], Process]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    boot = tmp_path / "boot_id"
    boot.write_text(f"{BOOT}\n")
    monkeypatch.setattr(journal, "BOOT_ID", str(boot))
    return tmp_path / "state" / "deep"


@pytest.fixture
def start(directory: Path) -> Iterator[Start]:
    """Starts the next process, after the death of the one before."""
    started: list[Process] = []

    def next_() -> Process:
        if started:
            started.pop().die()
        started.append(Process(directory))
        return started[-1]

    yield next_
    for process in started:
        process.die()


def test_a_later_create_is_remembered_if_it_knows_the_pid_until_it_is_forgotten() -> None:
    ledger = Ledger()
    for pid, told in ((0, 0), (7, 7), (8, 8), (0, 8)):
        ledger.remember(target(pid=pid))
        found = ledger.target("c1")
        assert found is not None
        assert found.pid == told
    for _ in range(2):
        ledger.forget("c1")
        assert ledger.target("c1") is None


# What the next process knows


def test_what_a_create_knew_is_what_the_next_adapter_asks_the_delete_with(start: Start, directory: Path) -> None:
    found = target()
    found.started = 12345
    for entry in ENTRIES:
        start().ledger.add(found, entry)
        second = start()
        assert second.ledger.begin_deletes("c1") == (entry,)
        assert encode(known(second), "delete", entry, []) == encode(target(), "delete", entry, [])
        assert (known(second).started, str(known(second))) == (12345, "container default/web/nginx (c1)")
        second.ledger.end_delete("c1", entry)
    start().ledger.add(found, ENTRIES[0])
    file = directory / "journal"  # as an older version wrote it
    file.write_bytes(file.read_bytes().replace(b'"names":["default","web","nginx"],', b""))
    assert str(known(start())) == "container c1"


def test_the_first_pid_that_a_create_knew_counts(start: Start) -> None:
    for pid, entry in zip((0, 8, 9), ENTRIES, strict=True):
        start().ledger.add(target(pid=pid), entry)
    assert known(start()).pid == 8


def test_a_delete_that_has_ended_is_not_owed_again_and_one_that_has_not_is(start: Start) -> None:
    first = start()
    create(first.ledger, target())
    first.ledger.end_delete("c1", first.ledger.begin_deletes("c1")[0])
    second = start()
    assert list(second.ledger.begin_deletes("c1")) == ENTRIES[1:]
    assert second.ledger.put_back("c1", ENTRIES[1])
    assert not second.ledger.put_back("c1", ENTRIES[1])
    assert second.ledger.begin_deletes("c1") == (ENTRIES[1],), "it could not be started"


def test_what_is_read_is_not_read_again(start: Start, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new owner looks twenty times a second at what an earlier one adds."""
    life = start()
    create(life.ledger, target())
    decoded: list[bytes] = []
    change = records.parse
    monkeypatch.setattr(records, "parse", lambda line: decoded.append(line) or change(line))  # type: ignore[func-returns-value]
    life.ledger.read_again()
    with (directory / "journal").open("ab") as earlier:
        earlier.write(records.delete_line("c1", ENTRIES[0].key))
    for _ in range(3):
        life.ledger.read_again()
    assert decoded == [records.delete_line("c1", ENTRIES[0].key)]
    assert list(life.ledger.begin_deletes("c1")) == ENTRIES[1:]
    with (directory / "journal").open("ab") as earlier:  # its late delete, of an id that nobody is owed for now
        earlier.write(records.delete_line("c1", ENTRIES[1].key))
    life.ledger.read_again()
    assert life.ledger.ids() == []


# Which file, and which records


def test_the_first_start_and_another_boot_find_no_journal(start: Start, directory: Path, tmp_path: Path) -> None:
    first = start()
    assert not first.journal.existed
    assert oct(directory.stat().st_mode & 0o777) == "0o700"
    first.ledger.add(target(), ENTRIES[0])
    assert start().journal.existed
    (tmp_path / "boot_id").write_text("another\n")
    second = start()
    assert (second.journal.existed, second.ledger.ids()) == (False, [])


def test_a_newer_journal_is_left_and_said(start: Start, directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory.mkdir(parents=True)
    newer = json.dumps({"format": 2, "boot": BOOT}).encode() + b"\n{}\n"
    (directory / "journal").write_bytes(newer)
    process = start()
    process.ledger.add(target(), ENTRIES[0])
    assert [record.getMessage() for record in caplog.records] == [process.fault]
    assert "format 2, this adapter knows 1" in process.fault
    assert (directory / "journal").read_bytes() == newer


FORMATS = (b"1", b'"x"', b"null", b"[1]")
NO_JOURNALS = [b"", b"\n", b"[]\n", b"\xff\n{}", *(b'{"format":%s}\n' % format_ for format_ in FORMATS)]


def test_a_file_that_is_no_journal_is_begun_anew(start: Start, directory: Path) -> None:
    directory.mkdir(parents=True)
    for content in NO_JOURNALS:
        (directory / "journal").write_bytes(content)
        made = start()
        assert (made.journal.existed, made.ledger.ids(), made.fault) == (False, [], ""), content
        assert (directory / "journal").read_bytes() == HEADER


NO_RECORDS = [
    b'{"created":"c2"}',
    b'{"created":["c2"],"sandbox":"","pid":0,"cgroup":"","spec":"","labels":"","type":"a","number":0,"conf":null}',
    b'{"created":"c2","sandbox":"","pid":0,"cgroup":"","spec":5,"labels":"","type":"a","number":0,"conf":null}',
    b'{"deleted":{},"type":"a","number":0}',
    b"[" * 100000,
    b'{"created":"c2"',  # torn
]


def test_a_record_that_is_none_costs_no_other(start: Start, directory: Path) -> None:
    start().ledger.add(target("c1"), ENTRIES[0])
    for number, line in enumerate(NO_RECORDS):
        with (directory / "journal").open("ab") as file:
            file.write(line + b"\n" * line.endswith((b"}", b"[")))
        life = start()
        assert life.ledger.ids() == ["c1", *(f"new{earlier}" for earlier in range(number))], line[:30]
        life.ledger.add(target(f"new{number}"), ENTRIES[0])
    record = records.create_line(target(), ENTRIES[0], is_first=True)
    assert records.parse(record)
    for names in ('"web"', '{"web":1}', "null", '["web",1]', '["\\ud800"]'):
        spoilt = record.replace(b'"names":["default","web","nginx"]', b'"names":' + names.encode())
        assert spoilt != record
        assert records.parse(spoilt) is None
    assert records.parse(record.replace(b'"spec":"', b'"spec":"\\n')) is None, "no JSON has control characters"


# Its size


@pytest.mark.parametrize("size", [1 << 20, MOST_KEPT - 1000, 10])
def test_short_lived_containers_do_not_fill_the_state_directory(size: int, start: Start, directory: Path) -> None:
    ledger = start().ledger
    create(ledger, target("lasting", size=MOST_KEPT - 1000))
    largest = 0
    for number in range(150):
        create(ledger, target(f"c{number}", size=size))
        delete(ledger, f"c{number}")
        largest = max(largest, (directory / "journal").stat().st_size)
    assert largest < (1 << 20) + 6 * MOST_KEPT
    assert ledger.ids() == ["lasting"]


def test_a_journal_of_creates_that_are_all_owed_is_written_anew_by_the_first_delete(
    start: Start, directory: Path
) -> None:
    ledger = start().ledger
    journal = directory / "journal"
    first = journal.stat().st_ino
    while journal.stat().st_size < 2 << 20:
        create(ledger, target(f"c{len(ledger)}", size=MOST_KEPT - 1000))
        ledger.repair()
    assert journal.stat().st_ino == first
    delete(ledger, "c0")
    assert journal.stat().st_ino != first


def test_spec_and_labels_are_in_the_file_once_and_known_to_each_delete(start: Start, directory: Path) -> None:
    life = start()
    create(life.ledger, target(size=5000))
    assert (directory / "journal").read_bytes().count(b"x" * 5000) == 1
    whole = request(life)
    life.ledger.end_delete("c1", life.ledger.begin_deletes("c1")[0])
    for _ in range(2):
        life = start()
        assert list(life.ledger.begin_deletes("c1")) == ENTRIES[1:]
        assert request(life) == whole
        (directory / "journal").unlink()  # then it is written anew
        life.ledger.repair()
        assert (directory / "journal").read_bytes().count(b"x" * 5000) == 1


def test_a_spec_beyond_the_bound_is_dropped_as_log_and_docs_say(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    life = start()
    create(life.ledger, target(size=MOST_KEPT))
    assert len(request(life)["labels"]["l"]) == MOST_KEPT, "as long as the process lives"
    after = start()
    assert [record.getMessage() for record in caplog.records] == [
        "container default/web/nginx (c1): its spec and labels have more than 32 KiB: "
        "a delete after this process goes without them"
    ]
    assert request(after) == {
        "conf": {"n": 1.10},
        **{"version": "0.1", "state": "delete", "id": "c1", "sandboxID": "pod", "pid": 7},
        "spec": {"resources": None},
    }
    assert f"{MOST_KEPT >> 10} KiB" in (DOCS / "operations.md").read_text()


# The format


def test_the_first_version_can_read_what_is_written(start: Start, directory: Path) -> None:
    ledger = start().ledger
    create(ledger, target("c1"))
    create(ledger, target("c2", size=MOST_KEPT))
    delete(ledger, "c1")
    header, *lines = map(json.loads, (directory / "journal").read_bytes().splitlines())
    assert (header["format"], len(lines)) == (1, 9)
    for line in lines:
        expected = FIRST_FORMAT if "created" in line else {"deleted": str, "type": str, "number": int}
        assert line.keys() == expected.keys()
        for key, kinds in expected.items():
            assert isinstance(line[key], kinds), key
        for key in {"spec", "labels"} & expected.keys():
            assert isinstance(json.loads(line[key]), dict), "it is passed on as it is"


def test_what_the_first_version_wrote_is_read_up_to_the_bound(start: Start, directory: Path, tmp_path: Path) -> None:
    """Each record had all: what a pod could write then must not hold up the upgrade."""
    text = (Path(__file__).parent.parent / "golden" / "journal-of-the-first-version").read_bytes()
    line = text.splitlines()[1]
    giant = line.replace(b'"created":"c1"', b'"created":"c3"').replace(b"the-label", b'\\\\\\"' * 2 * MOST_KEPT)
    assert len(giant) > 4 * MOST_KEPT
    directory.mkdir(parents=True, mode=0o700)
    (directory / "journal").write_bytes(text + giant + b"\n")
    (directory / "journal").chmod(0o600)
    (tmp_path / "boot_id").write_text("the-boot")
    life = start()
    assert {id_: [entry.type for entry in life.ledger.begin_deletes(id_)] for id_ in life.ledger.ids()} == {
        "c1": ["b"],
        "c2": ["a", "b"],
        "c3": ["a"],
    }
    assert request(life, "c1")["labels"] == {"l": "the-label"}
    assert request(life, "c2")["spec"]["annotations"] == {"é": '"'}
    assert request(life, "c3")["spec"] == {"resources": None}
