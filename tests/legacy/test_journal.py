"""The journal: whatever moment the adapter dies at, the next one owes what this one owed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapter.legacy.config import Entry
from adapter.legacy.request import Target, encode, of_container
from adapter.nri import api
from adapter.owed import journal, records
from adapter.owed.records import Change, without_deletes

from .owning import Process

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
    monkeypatch.setattr(journal, "BOOT_ID", str(boot))
    return tmp_path / "state" / "deep"


def replay(text: bytes) -> set[tuple[str, Entry]]:
    """What is owed after these lines, whose first is a header."""
    changes: list[Change] = [change for line in text.splitlines()[1:] if (change := records.change(line))]
    return {(create.target.id, create.entry) for create in without_deletes(changes)}


def owed(directory: Path) -> set[tuple[str, Entry]]:
    return replay((directory / "journal").read_bytes())


def known(process: Process, id_: str = "c1") -> Target:
    found = process.ledger.target(id_)
    assert found is not None
    return found


HEADER = records.header(BOOT)


def test_the_start_of_a_found_process_and_the_names_for_the_log_are_known_to_the_next_adapter(directory: Path) -> None:
    pod = api.PodSandbox(id="pod", namespace="default", name="web")
    found = of_container(api.Container(id="c1", name="nginx", pid=7), pod)
    found.started = 12345
    first = Process(directory)
    first.ledger.add(found, ENTRIES[0])
    first.die()
    second = Process(directory)
    after = known(second)
    assert (after.pid, after.started, str(after)) == (7, 12345, "container default/web/nginx (c1)")
    second.die()
    file = directory / "journal"  # as an older version wrote it
    file.write_bytes(file.read_bytes().replace(b'"names":["default","web","nginx"],', b""))
    assert str(known(Process(directory))) == "container c1"


def test_the_pid_is_that_of_whichever_create_knew_it_first(directory: Path) -> None:
    first = Process(directory)
    for pid, entry in zip((0, 7, 8), ENTRIES, strict=True):
        first.ledger.add(target(pid=pid), entry)
    first.die()
    assert known(Process(directory)).pid == 7


@pytest.mark.parametrize("names", ['"web"', '{"web":1}', "null", '["web",1]', '["\\ud800"]'])
def test_a_record_with_names_that_are_none_is_left_out(names: str) -> None:
    record = records.created(target(), ENTRIES[0], is_first=True)
    assert records.change(record)
    spoilt = record.replace(b'"names":["","",""]', b'"names":' + names.encode())
    assert spoilt != record
    assert records.change(spoilt) is None


# Whatever moment


STEPS = st.lists(st.tuples(st.sampled_from("cd"), st.sampled_from("xyz"), st.sampled_from(ENTRIES)), max_size=12)


@settings(max_examples=60)
@given(STEPS)
def test_every_prefix_of_the_file_with_its_last_record_torn_anywhere_is_the_ledger_that_was(
    steps: list[tuple[str, str, Entry]],
) -> None:
    written = bytearray(HEADER)
    was: list[tuple[int, set[tuple[str, Entry]]]] = [(len(written), set())]
    model: set[tuple[str, Entry]] = set()
    for step, id_, entry in steps:
        if step == "c" and (id_, entry) not in model:
            model = model | {(id_, entry)}
            written += records.created(target(id_), entry, is_first=True)
        elif step == "d" and (id_, entry) in model:
            model = model - {(id_, entry)}
            written += records.deleted(id_, entry.key)
        was.append((len(written), model))
    for length in range(was[0][0], len(written) + 1):
        expected = [ledger for end, ledger in was if end - len("\n") <= length][-1]
        assert replay(bytes(written[:length])) == expected, f"{length} bytes of it"


def test_what_a_create_knew_is_what_the_next_adapter_asks_the_delete_with(directory: Path) -> None:
    for entry in ENTRIES:
        first = Process(directory)
        first.ledger.add(target(), entry)
        first.die()
        second = Process(directory)
        assert second.ledger.take("c1") == (entry,)
        assert encode(known(second), "delete", entry, []) == encode(target(), "delete", entry, [])
        second.ledger.deleted("c1", entry)
        second.die()


def test_a_delete_that_has_ended_is_not_owed_again_and_one_that_has_not_is(directory: Path) -> None:
    first = Process(directory)
    for entry in ENTRIES:
        first.ledger.add(target(), entry)
    first.ledger.deleted("c1", first.ledger.take("c1")[0])
    first.die()
    second = Process(directory)
    assert list(second.ledger.take("c1")) == ENTRIES[1:]
    assert second.ledger.put_back("c1", ENTRIES[1])
    assert not second.ledger.put_back("c1", ENTRIES[1])
    assert second.ledger.take("c1") == (ENTRIES[1],), "it could not be started"


# Which file


def test_the_first_start_knows_that_there_was_no_journal(directory: Path) -> None:
    first = Process(directory)
    assert not first.journal.existed
    assert oct(directory.stat().st_mode & 0o777) == "0o700"
    first.die()
    assert Process(directory).journal.existed


def test_after_another_boot_nothing_is_owed(directory: Path, tmp_path: Path) -> None:
    first = Process(directory)
    first.ledger.add(target(), ENTRIES[0])
    first.die()
    (tmp_path / "boot_id").write_text("another\n")
    second = Process(directory)
    assert (second.journal.existed, second.ledger.ids()) == (False, [])


def test_a_newer_journal_is_left_alone_and_said(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory.mkdir(parents=True)
    newer = json.dumps({"format": 2, "boot": BOOT}).encode() + b"\n{}\n"
    (directory / "journal").write_bytes(newer)
    process = Process(directory)
    process.ledger.add(target(), ENTRIES[0])
    assert [record.getMessage() for record in caplog.records] == [process.fault]
    assert "format 2, this adapter knows 1" in process.fault
    assert (directory / "journal").read_bytes() == newer


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"[]\n",
        b"\xff\n{}",
        b'{"format":1}\n',
        b'{"format":"x"}\n',
        b'{"format":null}\n',
        b'{"format":[1]}\n',
    ],
    ids=repr,
)
def test_a_file_that_is_no_journal_is_begun_anew(directory: Path, content: bytes) -> None:
    directory.mkdir(parents=True)
    (directory / "journal").write_bytes(content)
    made = Process(directory)
    assert (made.journal.existed, made.ledger.ids(), made.fault) == (False, [], "")
    assert (directory / "journal").read_bytes() == HEADER


@pytest.mark.parametrize(
    "line",
    [
        b'{"created":"c2"}',
        b'{"created":["c2"],"sandbox":"","pid":0,"cgroup":"","spec":"","labels":"","type":"a","number":0,"conf":null}',
        b'{"created":"c2","sandbox":"","pid":0,"cgroup":"","spec":5,"labels":"","type":"a","number":0,"conf":null}',
        b'{"deleted":"c1"}',
        b'{"deleted":{},"type":"a","number":0}',
        b"[" * 100000,
        b'{"created":"c2"',  # torn
    ],
    ids=lambda line: line[:30].decode(),
)
def test_a_record_that_is_none_costs_no_other(directory: Path, line: bytes) -> None:
    first = Process(directory)
    first.ledger.add(target("c1"), ENTRIES[0])
    first.die()
    with (directory / "journal").open("ab") as file:
        file.write(line + b"\n" * line.endswith((b"}", b"[")))
    second = Process(directory)
    assert second.ledger.ids() == ["c1"]
    second.ledger.add(target("c3"), ENTRIES[0])
    second.die()
    assert Process(directory).ledger.ids() == ["c1", "c3"]


def test_what_an_earlier_owner_adds_meanwhile_is_taken_and_not_cut_off(directory: Path) -> None:
    first = Process(directory)
    first.ledger.add(target("c1"), ENTRIES[0])
    part = records.created(target("c2"), ENTRIES[0], is_first=True)
    with (directory / "journal").open("ab") as earlier:
        earlier.write(part[:20])
        earlier.flush()
        first.owner.release(["c1"])
        second = Process(directory)
        earlier.write(part[20:] + records.deleted("c1", ENTRIES[0].key))
    second.ledger.read_again()
    assert second.ledger.ids() == ["c2"]
    first.die()
