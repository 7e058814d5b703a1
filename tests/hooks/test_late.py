"""Searches that may take long: how much time goes into them, told by a clock that only searches move."""

from __future__ import annotations

from typing import cast

import pytest

from adapter.hooks import late
from adapter.hooks.late import Budget
from adapter.hooks.patterns import Patterns
from adapter.hooks.table import Search, Table


class Time:
    """A clock, and patterns of which each takes a time of its own for a byte."""

    def __init__(self, *seconds_per_byte: float) -> None:
        self.now = 0.0
        self.searched: list[tuple[int, int]] = []
        self._costs = seconds_per_byte

    def __call__(self) -> float:
        return self.now

    def search(self, number: int, text: bytes) -> bool:
        self.searched.append((number, len(text)))
        self.now += self._costs[number] * len(text)
        return text.startswith(b"y")

    @property
    def patterns(self) -> Patterns:
        return cast(Patterns, self)


def test_a_short_text_is_searched_at_once() -> None:
    time = Time(1e-9)
    assert Budget(1, time).search((time.patterns, 0, b"yes")) is True
    assert Budget(1, time).search((time.patterns, 0, b"no")) is False
    assert time.searched == [(0, 3), (0, 2)]


def test_of_a_long_text_ever_larger_parts_are_tried_first() -> None:
    time = Time(1e-9)
    assert Budget(1, time).search((time.patterns, 0, b"y" * 20_000)) is True
    sizes = [size for _, size in time.searched]
    assert sizes == [32, 32, 32, 256, 256, 2048, 2048, 20_000 - 16384, 16384, 20_000]


@pytest.mark.parametrize("rate", [1e-3, 1e-5, 1e-6, 5e-7, 1e-7])
def test_a_slow_pattern_is_given_up_before_it_has_cost_much(rate: float) -> None:
    time = Time(rate)
    budget = Budget(0.02, time)
    assert budget.search((time.patterns, 0, b"y" * 1_000_000)) is None
    assert time.now < max(0.02, 3 * 32 * rate * 1.01)


def test_what_becomes_slower_with_more_text_is_given_up_early() -> None:
    class Quadratic(Time):
        def search(self, number: int, text: bytes) -> bool:
            self.searched.append((number, len(text)))
            self.now += 1e-8 * len(text) ** 2
            return True

    time = Quadratic()
    assert Budget(0.02, time).search((time.patterns, 0, b"y" * 1_000_000)) is None
    assert time.now < 0.003


def test_a_later_round_goes_on_where_the_one_before_has_stopped() -> None:
    time = Time(1e-7)
    budget, search = Budget(1, time), (time.patterns, 0, b"y" * 100_000)
    assert budget.search(search, 0.0001) is None
    tried = len(time.searched)
    assert budget.search(search, 0.0001) is None
    assert len(time.searched) == tried
    assert budget.search(search, 0.5) is True
    assert [size for _, size in time.searched[tried:]] == [2048, 2048, 16384, 16384, 100_000]


def test_nothing_is_searched_when_there_is_no_time_left() -> None:
    time = Time(1e-9)
    assert Budget(0, time).search((time.patterns, 0, b"y")) is None
    assert time.searched == []


def asked(
    budget: Budget, conditions: dict[tuple[str, str], int], texts: dict[str, str], met: dict[int, str] | None = None
) -> tuple[dict[int, str], dict[int, str]]:
    table = Table(conditions)
    met = met or {}
    undecided: dict[int, str] = {}
    late.look([(table, key, value) for key, value in texts.items()], budget, met, undecided)
    return met, undecided


def test_each_condition_is_met_by_an_annotation_or_not() -> None:
    conditions = {("^k", "x$"): 0, ("^k", "y$"): 1, ("", "z"): 2, ("^l", ""): 3, ("^m", ""): 4}
    met, undecided = asked(Budget(1e9), conditions, {"ka": "x", "kb": "xy", "l": "z", "n": "x"})
    assert met == {0: "ka", 1: "kb", 2: "l", 3: "l"}
    assert undecided == {}


def test_what_is_met_already_is_not_asked_again_and_stays() -> None:
    met, undecided = asked(Budget(-1), {("^k", "x$"): 0, ("^k", "y$"): 1}, {"ka": "y"}, met={0: "before"})
    assert met == {0: "before"}
    assert undecided == {1: "ka"}


def test_a_search_keeps_within_its_share() -> None:
    time = Time(1e-8)
    assert Budget(1, time).search((time.patterns, 0, b"y" * 1_000_000), 0.009) is None
    assert time.now < 0.009
    assert Budget(1, time).search((time.patterns, 0, b"y" * 1_000_000), 0.011) is True


def test_a_condition_that_one_annotation_meets_is_not_undecided_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "search", lambda self, search, share: True if search[2] == b"first z" else None)
    met, undecided = asked(Budget(1e9), {("", "[fz]"): 0, ("", "z{3}"): 1}, {"k": "zzz", "l": "first z"})
    assert (met, undecided) == ({0: "l"}, {1: "k"})


def test_fast_searches_come_first_and_each_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    needs = {"^k": 0.0, "[ab]{1,2}": 0.0, "b{2}": 1.0, "c{2}": 0.05, "d{2}": 0.01}

    def search(self: Budget, search: Search, share: float) -> bool | None:
        pattern = next(pattern for pattern, number in search[0].numbers.items() if number == search[1])
        searched.append(f"{pattern} {share}")
        return True if share >= needs[pattern] else None

    monkeypatch.setattr(Budget, "search", search)
    conditions = {("^k", pattern): number for number, pattern in enumerate(list(needs)[1:])}
    met, undecided = asked(Budget(1e9), conditions, {"k": "aa bbb ccc ddd"})
    assert (len(met), undecided) == (4, {})
    assert searched[0] == "^k 0.02"
    assert set(searched[1:5]) == {"[ab]{1,2} 0.02", "b{2} 0.02", "c{2} 0.02", "d{2} 0.02"}
    assert sorted(searched[5:]) == ["b{2} 0.1", "b{2} 0.3", "b{2} 1.0", "c{2} 0.1"]


def test_patterns_that_the_text_has_literals_of_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    monkeypatch.setattr(Budget, "search", lambda self, search, share: searched.append(search[1]))
    table = Table({("", "[ab]+"): 0, ("", "needle.*"): 1, ("", "[cd]+"): 2, ("", "needl[ei]"): 3})
    late.look([(table, "k", "needle")], Budget(1e9), {}, {})
    numbers = table._values.numbers
    assert set(searched[:2]) == {numbers["needle.*"], numbers["needl[ei]"]}
    assert set(searched[2:4]) == {numbers["[ab]+"], numbers["[cd]+"]}
