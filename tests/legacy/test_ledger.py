"""The ledger: whose create has had no delete yet, and what the creates knew."""

from __future__ import annotations

from adapter.legacy.config import Entry
from adapter.legacy.request import Target, of_container
from adapter.nri import api
from adapter.owed.ledger import Ledger


def target(id_: str, pid: int = 1) -> Target:
    return of_container(api.Container(id=id_, pid=pid), api.PodSandbox(id="pod"))


def entry(type_: str, number: int = 0, conf: bytes | None = None) -> Entry:
    return Entry(type_, number, "0.1", conf)


def test_it_starts_empty() -> None:
    ledger = Ledger()
    assert len(ledger) == 0
    assert "x" not in ledger
    assert ledger.take("x") == ()
    assert ledger.target("x") is None


def test_creates_are_taken_in_the_order_of_their_start() -> None:
    ledger = Ledger()
    for type_ in ("b", "a", "c"):
        ledger.add(target("x"), entry(type_))
    assert ledger.take("x") == (entry("b"), entry("a"), entry("c"))


def test_creates_are_taken_once() -> None:
    ledger = Ledger()
    ledger.add(target("x"), entry("a"))
    assert "x" in ledger
    assert ledger.take("x") == (entry("a"),)
    assert "x" not in ledger
    assert ledger.take("x") == ()
    assert len(ledger) == 0


def test_ids_are_kept_apart() -> None:
    ledger = Ledger()
    ledger.add(target("x"), entry("a"))
    ledger.add(target("y"), entry("b"))
    assert len(ledger) == 2
    assert ledger.take("y") == (entry("b"),)
    assert "x" in ledger


def test_a_second_create_of_the_same_plugin_changes_nothing_though_its_conf_did() -> None:
    ledger = Ledger()
    ledger.add(target("x"), entry("a", conf=b"1"))
    ledger.add(target("x"), entry("a", conf=b"2"))
    assert ledger.take("x") == (entry("a", conf=b"1"),)


def test_two_entries_of_one_type_are_two_creates() -> None:
    ledger = Ledger()
    ledger.add(target("x"), entry("a", 0))
    ledger.add(target("x"), entry("a", 1))
    assert ledger.take("x") == (entry("a", 0), entry("a", 1))


def pid(ledger: Ledger, id_: str) -> int:
    known = ledger.target(id_)
    assert known is not None
    return known.pid


def test_a_later_create_that_knows_the_pid_is_remembered() -> None:
    ledger = Ledger()
    for known in (0, 7, 8):
        ledger.remember(target("x", known))
        assert pid(ledger, "x") == known


def test_a_later_create_that_does_not_know_the_pid_is_not_remembered() -> None:
    ledger = Ledger()
    ledger.remember(target("x", 7))
    ledger.remember(target("x", 0))
    assert pid(ledger, "x") == 7


def test_what_creates_knew_outlives_the_delete_until_it_is_forgotten() -> None:
    ledger = Ledger()
    ledger.add(target("x"), entry("a"))
    ledger.remember(target("x", 7))
    ledger.take("x")
    assert pid(ledger, "x") == 7
    ledger.forget("x")
    ledger.forget("x")
    assert ledger.target("x") is None
