"""What a pod can write into the journal is bounded, and what adapters of the first format have written can be read."""

from __future__ import annotations

import json
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

ENTRIES = [Entry(type_, 0, "0.1", b'{"n":1.10}') for type_ in ("a", "b", "c")]
FIRST_FORMAT: dict[str, Any] = {
    # Each of these must be there, with these types: otherwise the reader of the first version leaves the record out.
    **dict.fromkeys(("created", "sandbox", "cgroup", "spec", "labels", "type", "version"), str),
    **dict.fromkeys(("pid", "started", "number"), int),
    "names": list,
    "conf": (str, type(None)),
}


def target(id_: str, size: int = 10) -> Target:
    linux = api.LinuxContainer(cgroups_path=f"/{id_}")
    made = api.Container(id=id_, pid=7, linux=linux, annotations={"é": '"'})
    return of_container(made, api.PodSandbox(id="pod", labels={"l": "x" * size}))


def request(process: Process, id_: str, entry: Entry) -> dict[str, Any]:
    """What a delete would ask with."""
    known = process.ledger.target(id_)
    assert known is not None
    return dict(json.loads(encode(known, "delete", entry, [])))


def create(ledger: Ledger, made: Target) -> None:
    for entry in ENTRIES:
        ledger.add(made, entry)


def delete(ledger: Ledger, id_: str) -> None:
    for entry in ledger.take(id_):
        ledger.deleted(id_, entry)


@pytest.mark.parametrize("size", [1 << 20, MOST_KEPT - 1000, 10])
def test_short_lived_containers_do_not_fill_the_state_directory(size: int, tmp_path: Path) -> None:
    ledger = Process(tmp_path).ledger
    create(ledger, target("lasting", MOST_KEPT - 1000))
    largest = 0
    for number in range(150):
        create(ledger, target(f"c{number}", size))
        delete(ledger, f"c{number}")
        largest = max(largest, (tmp_path / "journal").stat().st_size)
    assert largest < (1 << 20) + 6 * MOST_KEPT
    assert ledger.ids() == ["lasting"]


def test_spec_and_labels_are_in_the_file_once_and_are_known_to_each_plugins_delete(tmp_path: Path) -> None:
    first = Process(tmp_path)
    create(first.ledger, target("c1", 5000))
    assert (tmp_path / "journal").read_bytes().count(b"x" * 5000) == 1
    whole = request(first, "c1", ENTRIES[2])
    first.ledger.deleted("c1", first.ledger.take("c1")[0])
    for _ in range(2):
        first.die()
        first = Process(tmp_path)
        assert list(first.ledger.take("c1")) == ENTRIES[1:]
        assert request(first, "c1", ENTRIES[2]) == whole
        (tmp_path / "journal").unlink()  # then it is written anew
        first.ledger.mend()
        assert (tmp_path / "journal").read_bytes().count(b"x" * 5000) == 1


def test_a_spec_beyond_the_bound_is_not_kept_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Process(tmp_path)
    create(first.ledger, target("c1", MOST_KEPT))
    assert len(request(first, "c1", ENTRIES[0])["labels"]["l"]) == MOST_KEPT, "as long as the process lives"
    first.die()
    after = Process(tmp_path)
    assert [record.getMessage() for record in caplog.records] == [
        "container c1: its spec and labels have more than 32 KiB: a delete after this process goes without them"
    ]
    assert request(after, "c1", ENTRIES[0]) == {
        "conf": {"n": 1.10},
        **{"version": "0.1", "state": "delete", "id": "c1", "sandboxID": "pod", "pid": 7},
        "spec": {"resources": None},
    }


def test_the_docs_name_the_bound() -> None:
    assert f"{MOST_KEPT >> 10} KiB" in (DOCS / "operations.md").read_text()


def test_what_is_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new owner looks twenty times a second at what an earlier one adds."""
    life = Process(tmp_path)
    create(life.ledger, target("c1"))
    decoded: list[bytes] = []
    change = records.change

    def counted(line: bytes) -> records.Change | None:
        decoded.append(line)
        return change(line)

    monkeypatch.setattr(records, "change", counted)
    life.ledger.read_again()
    with (tmp_path / "journal").open("ab") as earlier:
        earlier.write(records.deleted("c1", ENTRIES[0].key))
    for _ in range(3):
        life.ledger.read_again()
    assert decoded == [records.deleted("c1", ENTRIES[0].key)]
    assert list(life.ledger.take("c1")) == ENTRIES[1:]


# The format


def test_the_first_version_can_read_what_is_written(tmp_path: Path) -> None:
    life = Process(tmp_path)
    create(life.ledger, target("c1"))
    create(life.ledger, target("c2", MOST_KEPT))
    delete(life.ledger, "c1")
    header, *lines = map(json.loads, (tmp_path / "journal").read_bytes().splitlines())
    assert (header["format"], len(lines)) == (1, 9)
    for line in lines:
        expected = FIRST_FORMAT if "created" in line else {"deleted": str, "type": str, "number": int}
        assert line.keys() == expected.keys()
        for key, kinds in expected.items():
            assert isinstance(line[key], kinds), key
        if "created" in line:
            assert isinstance(json.loads(line["spec"]), dict), "it is passed on as it is"
            assert isinstance(json.loads(line["labels"]), dict)


def test_what_the_first_version_has_written_is_read_without_what_is_beyond_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record had all: what a pod could write then must not hold up the upgrade."""
    recorded = Path(__file__).parent.parent / "golden" / "journal-of-the-first-version"
    text = recorded.read_bytes()
    line = text.splitlines()[1]
    giant = line.replace(b'"created":"c1"', b'"created":"c3"').replace(b"the-label", b'\\\\\\"' * 2 * MOST_KEPT)
    assert len(giant) > 4 * MOST_KEPT
    (tmp_path / "journal").write_bytes(text + giant + b"\n")
    (tmp_path / "journal").chmod(0o600)
    boot = tmp_path / "boot"
    boot.write_text("the-boot")
    monkeypatch.setattr(journal, "BOOT_ID", str(boot))
    life = Process(tmp_path)
    assert {id_: [entry.type for entry in life.ledger.take(id_)] for id_ in life.ledger.ids()} == {
        "c1": ["b"],
        "c2": ["a", "b"],
        "c3": ["a"],
    }
    entry = Entry("b", 0, "0.1", None)
    assert request(life, "c1", entry)["labels"] == {"l": "the-label"}
    assert request(life, "c2", entry)["spec"]["annotations"] == {"é": '"'}
    assert request(life, "c3", entry)["spec"] == {"resources": None}
