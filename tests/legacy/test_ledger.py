"""The ledger: whose create has had no delete yet."""

from __future__ import annotations

from adapter.legacy.config import Entry
from adapter.legacy.ledger import Ledger, Record
from adapter.legacy.request import Subject, of_container
from adapter.nri import api


def subject(id_: str, pid: int = 1) -> Subject:
    return of_container(api.Container(id=id_, pid=pid), api.PodSandbox(id="pod"))


def taken(ledger: Ledger, id_: str) -> Record:
    record = ledger.take(id_)
    assert record is not None
    return record


def entry(type_: str, number: int = 0, conf: bytes | None = None) -> Entry:
    return Entry(type_, number, "0.1", conf)


def test_it_starts_empty() -> None:
    ledger = Ledger()
    assert len(ledger) == 0
    assert "x" not in ledger
    assert ledger.take("x") is None


def test_creates_are_taken_in_the_order_of_their_start() -> None:
    ledger = Ledger()
    for type_ in ("b", "a", "c"):
        ledger.add(subject("x"), entry(type_))
    assert taken(ledger, "x").entries == (entry("b"), entry("a"), entry("c"))


def test_creates_are_taken_once() -> None:
    ledger = Ledger()
    ledger.add(subject("x"), entry("a"))
    assert "x" in ledger
    assert ledger.take("x") is not None
    assert "x" not in ledger
    assert ledger.take("x") is None
    assert len(ledger) == 0


def test_ids_are_kept_apart() -> None:
    ledger = Ledger()
    x, y = subject("x"), subject("y")
    ledger.add(x, entry("a"))
    ledger.add(y, entry("b"))
    assert len(ledger) == 2
    assert taken(ledger, "y") == Record(y, (entry("b"),))
    assert "x" in ledger


def test_a_second_create_of_the_same_plugin_changes_nothing_though_its_conf_did() -> None:
    ledger = Ledger()
    first = subject("x")
    ledger.add(first, entry("a", conf=b"1"))
    ledger.add(subject("x"), entry("a", conf=b"2"))
    assert taken(ledger, "x") == Record(first, (entry("a", conf=b"1"),))


def test_two_entries_of_one_type_are_two_creates() -> None:
    ledger = Ledger()
    ledger.add(subject("x"), entry("a", 0))
    ledger.add(subject("x"), entry("a", 1))
    assert taken(ledger, "x").entries == (entry("a", 0), entry("a", 1))


def test_the_latest_subject_is_remembered() -> None:
    """Plugins of one chain get the same; after a restart of the runtime, the later one knows more."""
    ledger = Ledger()
    ledger.add(subject("x", 0), entry("a"))
    ledger.add(subject("x", 7), entry("b"))
    assert taken(ledger, "x").subject.pid == 7
