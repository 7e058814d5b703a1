"""The journal: whatever moment the adapter dies at, the next one owes what this one owed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapter.legacy import journal
from adapter.legacy.config import Entry
from adapter.legacy.journal import Journal, open_journal, replay
from adapter.legacy.ledger import Ledger
from adapter.legacy.request import Target, encode, of_container
from adapter.nri import api
from adapter.owner import Owner

BOOT = "this-boot"
ENTRIES = [
    Entry("a", 0, "0.1", b'{"n": 1.10}'),
    Entry("a", 1, "0.1", None),
    Entry("b\xff", 0, "", b'"\xff\xed\xa0\x80"'),
]


def target(id_: str = "c1", pid: int = 7) -> Target:
    linux = api.LinuxContainer(cgroups_path=f"/{id_}", resources=api.LinuxResources(cpu=api.LinuxCPU(cpus="0")))
    made = api.Container(id=id_, pid=pid, linux=linux, annotations={"line\n": "\u2028é"})
    return of_container(made, api.PodSandbox(id="pod", labels={"of": "ü"}))


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    boot = tmp_path / "boot_id"
    boot.write_text(f"{BOOT}\n")
    monkeypatch.setattr(journal, "_BOOT_ID", str(boot))
    return tmp_path / "state" / "deep"


def owner_of(directory: Path) -> Owner:
    owner = Owner(str(directory))
    assert owner.take()
    return owner


def opened(directory: Path) -> Journal:
    made = open_journal(owner_of(directory))
    assert made is not None
    return made


def closed(journal: Journal) -> None:
    """Ends a process that had the journal."""
    os.close(journal._owner._fd)
    journal.close()


def ledger_of(journal: Journal) -> Ledger:
    ledger = Ledger()
    ledger.keep_in(journal)
    return ledger


def owed(text: bytes) -> set[tuple[str, Entry]]:
    return {(create.target.id, create.entry) for create in replay(text, BOOT)[0]}


def test_when_the_process_of_a_found_pid_started_is_known_to_the_next_adapter(directory: Path) -> None:
    found = target()
    found.started = 12345
    made = opened(directory)
    ledger_of(made).add(found, ENTRIES[0])
    closed(made)
    [create] = opened(directory).creates
    assert (create.target.pid, create.target.started) == (7, 12345)


def test_the_names_for_the_log_are_known_to_the_next_adapter_unless_an_older_one_has_written(directory: Path) -> None:
    pod = api.PodSandbox(id="pod", namespace="default", name="web")
    made = opened(directory)
    ledger_of(made).add(of_container(api.Container(id="c1", name="nginx"), pod), ENTRIES[0])
    closed(made)
    [create] = opened(directory).creates
    assert str(create.target) == "container default/web/nginx (c1)"
    file = directory / "journal"
    file.write_bytes(file.read_bytes().replace(b'"names":["default","web","nginx"],', b""))
    [create] = replay(file.read_bytes(), BOOT)[0]
    assert str(create.target) == "container c1"


@pytest.mark.parametrize("names", ['"web"', '{"web":1}', "null", '["web",1]', '["\\ud800"]'])
def test_a_record_with_names_that_are_none_is_left_out(names: str) -> None:
    header, record = (
        journal._line(part) for part in ({"format": 1, "boot": BOOT}, journal.record_of(target(), ENTRIES[0]))
    )
    assert replay(header + record, BOOT)[0]
    spoilt = record.replace(b'"names":["","",""]', b'"names":' + names.encode())
    assert spoilt != record
    assert replay(header + spoilt, BOOT) == ([], True)


# Whatever moment


STEPS = st.lists(st.tuples(st.sampled_from("cd"), st.sampled_from("xyz"), st.sampled_from(ENTRIES)), max_size=12)


@settings(max_examples=60)
@given(STEPS)
def test_every_prefix_of_the_file_with_its_last_record_torn_anywhere_is_the_ledger_that_was(
    steps: list[tuple[str, str, Entry]],
) -> None:
    written = bytearray(json.dumps({"format": 1, "boot": BOOT}).encode() + b"\n")
    was: list[tuple[int, set[tuple[str, Entry]]]] = [(len(written), set())]
    model: set[tuple[str, Entry]] = set()
    for step, id_, entry in steps:
        if step == "c" and (id_, entry) not in model:
            model = model | {(id_, entry)}
            written += journal._line(journal.record_of(target(id_), entry))
        elif step == "d" and (id_, entry) in model:
            model = model - {(id_, entry)}
            written += journal._line({"deleted": id_, "type": entry.type, "number": entry.number})
        was.append((len(written), model))
    for length in range(was[0][0], len(written) + 1):
        expected = [ledger for end, ledger in was if end - len("\n") <= length][-1]
        assert owed(bytes(written[:length])) == expected, f"{length} bytes of it"


def test_what_a_create_knew_is_what_the_next_adapter_asks_the_delete_with(directory: Path) -> None:
    for entry in ENTRIES:
        first = opened(directory)
        ledger = ledger_of(first)
        known = target()
        ledger.add(known, entry)
        closed(first)
        second = opened(directory)
        after = ledger_of(second)
        [owed_entry] = after.take("c1")
        restored = after.target("c1")
        assert restored is not None
        assert owed_entry == entry
        assert encode(restored, "delete", owed_entry, []) == encode(known, "delete", entry, [])
        after.deleted("c1", owed_entry)
        closed(second)


def test_a_delete_that_has_ended_is_not_owed_again_and_one_that_has_not_is(directory: Path) -> None:
    first = opened(directory)
    ledger = ledger_of(first)
    for entry in ENTRIES:
        ledger.add(target(), entry)
    taken = ledger.take("c1")
    ledger.deleted("c1", taken[0])
    closed(first)
    assert list(ledger_of(opened(directory)).take("c1")) == ENTRIES[1:]


def test_a_delete_that_could_not_be_started_is_owed_still(directory: Path) -> None:
    ledger = ledger_of(opened(directory))
    ledger.add(target(), ENTRIES[0])
    [entry] = ledger.take("c1")
    assert ledger.put_back("c1", entry)
    assert not ledger.put_back("c1", entry)
    assert ledger.take("c1") == (entry,)


def test_the_file_is_written_anew_when_most_of_it_is_of_ended_lives(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MOST_DEAD", 20)
    first = opened(directory)
    ledger = ledger_of(first)
    ledger.add(target("lasting"), ENTRIES[0])
    ledger.add(target("stopping"), ENTRIES[1])
    [stopping] = ledger.take("stopping")
    for number in range(200):
        ledger.add(target(f"c{number}"), ENTRIES[0])
        [entry] = ledger.take(f"c{number}")
        ledger.deleted(f"c{number}", entry)
    text = (directory / "journal").read_bytes()
    assert text.count(b"\n") < 40
    assert owed(text) == {("lasting", ENTRIES[0]), ("stopping", stopping)}
    closed(first)
    assert sorted(ledger_of(opened(directory)).ids()) == ["lasting", "stopping"]


# Which file


def test_the_first_start_knows_that_there_was_no_journal(directory: Path) -> None:
    first = opened(directory)
    assert not first.existed
    assert oct(directory.stat().st_mode & 0o777) == "0o700"
    closed(first)
    second = opened(directory)
    assert second.existed
    closed(second)


def test_after_another_boot_nothing_is_owed(directory: Path, tmp_path: Path) -> None:
    first = opened(directory)
    ledger_of(first).add(target(), ENTRIES[0])
    closed(first)
    (tmp_path / "boot_id").write_text("another\n")
    second = opened(directory)
    assert not second.existed
    assert second.creates == []
    closed(second)


def test_a_torn_record_does_not_spoil_the_next(directory: Path) -> None:
    first = opened(directory)
    ledger_of(first).add(target("c1"), ENTRIES[0])
    closed(first)
    file = directory / "journal"
    file.write_bytes(file.read_bytes() + b'{"created":"c2"')
    second = opened(directory)
    ledger = ledger_of(second)
    ledger.add(target("c3"), ENTRIES[0])
    closed(second)
    assert sorted(ledger_of(opened(directory)).ids()) == ["c1", "c3"]


def test_a_newer_journal_is_left_alone_and_said(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory.mkdir(parents=True)
    newer = json.dumps({"format": 2, "boot": BOOT}).encode() + b"\n{}\n"
    (directory / "journal").write_bytes(newer)
    assert open_journal(owner_of(directory)) is None
    assert "format 2, this adapter knows 1" in caplog.text
    assert (directory / "journal").read_bytes() == newer


@pytest.mark.parametrize("content", [b"", b"\n", b"[]\n", b"\xff\n{}", b'{"format":1}\n'], ids=repr)
def test_a_file_that_is_no_journal_is_begun_anew(directory: Path, content: bytes) -> None:
    directory.mkdir(parents=True)
    (directory / "journal").write_bytes(content)
    made = opened(directory)
    assert (made.existed, made.creates) == (False, [])
    closed(made)


@pytest.mark.parametrize(
    "line",
    [
        b'{"created":"c2"}',
        b'{"created":["c2"],"sandbox":"","pid":0,"cgroup":"","spec":"","labels":"","type":"a","number":0,"conf":null}',
        b'{"created":"c2","sandbox":"","pid":0,"cgroup":"","spec":5,"labels":"","type":"a","number":0,"conf":null}',
        b'{"deleted":"c1"}',
        b'{"deleted":{},"type":"a","number":0}',
        b"[" * 100000,
    ],
    ids=lambda line: line[:30].decode(),
)
def test_a_record_that_is_none_costs_no_other(directory: Path, line: bytes) -> None:
    first = opened(directory)
    ledger_of(first).add(target("c1"), ENTRIES[0])
    closed(first)
    with (directory / "journal").open("ab") as file:
        file.write(line + b"\n")
    assert ledger_of(opened(directory)).ids() == ["c1"]


@pytest.mark.parametrize("header", [b'{"format":"x"}', b'{"format":null}', b'{"format":[1]}'], ids=repr)
def test_a_header_that_is_none_begins_the_file_anew(directory: Path, header: bytes) -> None:
    directory.mkdir(parents=True)
    (directory / "journal").write_bytes(header + b"\n")
    assert not opened(directory).existed


def test_a_disk_that_was_full_at_the_start_does_not_spoil_what_is_written_later(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", fail)
    made = opened(directory)
    ledger = ledger_of(made)
    ledger.add(target("c1"), ENTRIES[0])
    monkeypatch.undo()
    ledger.add(target("c2"), ENTRIES[0])
    assert owed((directory / "journal").read_bytes()) == {("c2", ENTRIES[0])}


def test_a_journal_that_is_a_link_is_left_alone_and_said(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    owner = owner_of(directory)
    (directory / "journal").symlink_to("elsewhere")
    assert open_journal(owner) is None
    assert "what is owed is forgotten with this process" in caplog.text


def test_a_directory_that_cannot_be_made_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert open_journal(Owner(str(tmp_path / "file" / "state"))) is None
    assert len(caplog.records) == 1


def test_a_full_disk_costs_no_event_and_is_said_once(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = opened(directory)
    os.dup2(os.open("/dev/full", os.O_WRONLY), made._fd)
    ledger = ledger_of(made)
    for id_ in ("c1", "c2"):
        ledger.add(target(id_), ENTRIES[0])
    assert sorted(ledger.ids()) == ["c1", "c2"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_journal_that_was_removed_is_said_once(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    ledger = ledger_of(opened(directory))
    ledger.add(target("c1"), ENTRIES[0])
    (directory / "journal").unlink()
    for id_ in ("c2", "c3"):
        ledger.add(target(id_), ENTRIES[0])
    assert [record.getMessage() for record in caplog.records] == [
        f"{directory}/journal: was removed: what is owed would be forgotten with this process"
    ]


def test_a_record_that_was_written_in_part_costs_no_other(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = opened(directory)
    ledger = ledger_of(made)
    ledger.add(target("c1"), ENTRIES[0])
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:30]))
    ledger.add(target("c2"), ENTRIES[0])
    monkeypatch.undo()
    ledger.add(target("c3"), ENTRIES[0])
    assert owed((directory / "journal").read_bytes()) == {("c1", ENTRIES[0]), ("c3", ENTRIES[0])}
    assert "No space left on device" in caplog.text
    closed(made)


def test_what_an_earlier_owner_adds_meanwhile_is_not_cut_off(directory: Path) -> None:
    first = opened(directory)
    ledger_of(first).add(target("c1"), ENTRIES[0])
    file = directory / "journal"
    part = journal._line(journal.record_of(target("c2"), ENTRIES[0]))
    with file.open("ab") as earlier:
        earlier.write(part[:20])
        earlier.flush()
        closed(first)
        second = opened(directory)
        earlier.write(part[20:])
    assert {create.target.id for create in second.read_again()} == {"c1", "c2"}
    closed(second)


def test_a_file_that_cannot_be_written_anew_stays_and_leaks_no_descriptor(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MOST_DEAD", 2)
    made = opened(directory)
    ledger = ledger_of(made)
    ledger.add(target("lasting"), ENTRIES[0])
    (directory / "journal.new").mkdir()
    before = set(os.listdir("/proc/self/fd"))
    for number in range(5):
        ledger.add(target(f"c{number}"), ENTRIES[0])
        [entry] = ledger.take(f"c{number}")
        ledger.deleted(f"c{number}", entry)
    assert set(os.listdir("/proc/self/fd")) == before
    assert owed((directory / "journal").read_bytes()) == {("lasting", ENTRIES[0])}
    closed(made)
