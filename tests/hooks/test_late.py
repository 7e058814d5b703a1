"""Searches that may take long: how much work goes into them, told by patterns that cost what a test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import pytest

from adapter.hooks import late
from adapter.hooks.late import PARTS, WORK, Allowance
from adapter.hooks.patterns import SAMPLES, Patterns
from adapter.hooks.table import Table

MEGABYTE = 1 << 20


class Costs:
    """Patterns that are all found where a text begins with y, and cost something for a sample."""

    def __init__(self, cost: float | Callable[[Sequence[bytes]], float]) -> None:
        self.samples: list[Sequence[bytes]] = []
        self._cost = cost if callable(cost) else lambda sample: cost

    def cost(self, number: int, samples: Sequence[Sequence[bytes]]) -> float:
        self.samples += samples
        return min(map(self._cost, samples))

    def searcher(self, number: int) -> Callable[[bytes], bool]:
        return lambda text: text.startswith(b"y")


def searched(allowance: Allowance, costs: Costs, *texts: bytes) -> set[int] | None:
    return allowance.search(cast(Patterns, costs), 0, dict(enumerate(texts)))


def test_an_easy_pattern_is_searched_for_in_any_text() -> None:
    assert searched(Allowance(0), Costs(1), b"y" * 10 * MEGABYTE, b"n" * MEGABYTE) == {0}


def test_a_little_text_is_searched_for_any_pattern() -> None:
    costs = Costs(1000)
    assert searched(Allowance(0), costs, b"y" * 500, b"n") == {0}
    assert costs.samples == []


def test_what_is_slow_is_limited_and_what_is_easy_goes_on() -> None:
    allowance = Allowance(WORK)
    assert searched(allowance, Costs(100), b"y" * MEGABYTE) is None
    assert searched(allowance, Costs(100), b"y" * 30_000) == {0}
    assert searched(allowance, Costs(100), b"y" * 30_000) is None
    assert searched(allowance, Costs(1), b"y" * MEGABYTE) == {0}


def test_many_searches_are_work_however_short_the_texts_are() -> None:
    assert searched(Allowance(WORK), Costs(10), *[b"y"] * 1000) is None
    assert searched(Allowance(WORK), Costs(10), b"y" * 1000) == {0}


def test_a_pattern_that_is_slow_only_with_more_text_is_slow() -> None:
    costs = Costs(lambda sample: 100 if sum(map(len, sample)) > PARTS[0] else 1)
    assert searched(Allowance(WORK), costs, b"y" * MEGABYTE) is None


@pytest.mark.parametrize("texts", [[bytes(MEGABYTE)], [bytes(80)] * 100, [bytes(700)], [bytes(3), bytes(5000)]])
def test_samples_are_of_about_the_size_they_are_to_be(texts: list[bytes]) -> None:
    costs = Costs(1)
    searched(Allowance(WORK), costs, *texts)
    assert len(costs.samples) == len(PARTS) * SAMPLES
    for sample in costs.samples[:SAMPLES]:
        assert 0 < sum(map(len, sample)) < 2 * PARTS[0]
    for sample in costs.samples[SAMPLES:]:
        assert 0 < sum(map(len, sample)) < 2 * PARTS[1]


def test_samples_are_from_all_of_a_text_and_others_each_time() -> None:
    text = b"".join(b"%07d " % number for number in range(MEGABYTE // 8))
    costs = Costs(1)
    for _ in range(5):
        searched(Allowance(WORK), costs, text)
    pieces = [piece for sample in costs.samples for piece in sample]
    assert len(set(pieces)) == len(pieces)
    for first in range(0, len(pieces), SAMPLES):
        places = sorted(text.index(piece) * SAMPLES // len(text) for piece in pieces[first : first + SAMPLES])
        assert places == list(range(SAMPLES))


def asked(
    conditions: dict[tuple[str, str], int], texts: dict[str, str], met: dict[int, str] | None = None
) -> tuple[dict[int, str], dict[int, str]]:
    found: tuple[dict[int, str], dict[int, str]] = (met or {}, {})
    late.look(Table(conditions), list(texts.items()), Allowance(WORK), *found)
    return found


def too_much_for(monkeypatch: pytest.MonkeyPatch, *too_much: bytes) -> None:
    really = Allowance.search

    def search(self: Allowance, patterns: Patterns, number: int, texts: dict[int, bytes]) -> set[int] | None:
        return None if set(texts.values()) & set(too_much) else really(self, patterns, number, texts)

    monkeypatch.setattr(Allowance, "search", search)


def test_each_condition_is_met_by_an_annotation_or_not() -> None:
    conditions = {("^k", "x$"): 0, ("^k", "y$"): 1, ("", "z"): 2, ("^l", ""): 3, ("^m", ""): 4, ("", ""): 5}
    assert asked(conditions, {"ka": "x", "kb": "xy", "l": "z", "n": "x"}) == (
        {0: "ka", 1: "kb", 2: "l", 3: "l", 5: "ka"},
        {},
    )


def test_without_annotations_nothing_is_met() -> None:
    assert asked({("", ""): 0, ("^k", "x$"): 1}, {}) == ({}, {})


def test_what_it_is_too_much_work_to_know_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    too_much_for(monkeypatch, b"long")
    conditions = {("^k", "l[o]"): 0, ("^l", "s[h]"): 1, ("^m", "l[o]"): 2}
    assert asked(conditions, {"k": "long", "l": "short"}) == ({1: "l"}, {0: "k"})


def test_where_the_key_is_too_much_work_all_of_its_conditions_are_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    too_much_for(monkeypatch, b"kk")
    conditions = {("k[k]", "x"): 0, ("k[k]", ""): 1, ("^l$", "x"): 2}
    assert asked(conditions, {"kk": "x", "l": "x"}) == ({2: "l"}, {0: "kk", 1: "kk"})


def test_what_is_met_already_stays_and_is_not_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    too_much_for(monkeypatch, b"long")
    assert asked({("^k", "l[o]"): 0, ("^k", "n[g]"): 1}, {"k": "long"}, met={0: "before"}) == ({0: "before"}, {1: "k"})


def test_values_of_other_keys_do_not_make_it_more_work(monkeypatch: pytest.MonkeyPatch) -> None:
    too_much_for(monkeypatch, b"long")
    assert asked({("^k$", "[ab]"): 0}, {"k": "a", "l": "long"}) == ({0: "k"}, {})
