"""Hostile patterns and annotations: what they must not do is change the decision about any other hook.

How long they take is measured by tests/bench_hooks.py.
"""

from __future__ import annotations

import random
import time

import pytest
import re2  # type: ignore[import-untyped]

from adapter.hooks.match import Facts, Matcher
from adapter.hooks.patterns import Patterns, fault
from adapter.hooks.shard import Single

from .examples import files, hook

HOSTILE = [
    "(x+x+)+y",
    "(a+)+$",
    "(a|b)*a(a|b){12}",
    "[ab]*a[ab]{20}$",
    "[ab]*a[ab]{20}",
    "(a|b)*a(a|b){100}",
    "[ab]*a[ab][ab][ab][ab][ab][ab][ab][ab][ab][ab][ab][ab][ab][ab]c",
    "(a{0,30}){0,30}c",
    ".{0,1000}x",
    "\\pL{10}7",
    "a{1000}b{900}c",
    "(.*a){20}",
    "((a*)*)*c",
    "(a?){500}a{500}",
    "(.*)(.*)(.*)(.*)(.*)[0-9]q",
]
GOOD = [
    hook("literal.json", annotations={"^io\\.example\\.note$": "^(true|yes)$"}),
    hook("prefix.json", annotations={"^io\\.example\\.": "^t"}, commands=["^/bin/.*sh$"]),
    hook("middle.json", annotations={"": "needle"}),
    hook("end.json", annotations={"big": "needle$"}),
    hook("class.json", annotations={"^io\\.[a-z]+\\.": "[a-z]{4}"}),
    hook("old.json", annotations={".*": "^on$|^true$"}, any_of=True),
    hook("none.json", annotations={"^io\\.example\\.note$": "^false$"}),
    hook("nowhere.json", annotations={"": "pin[0-9]"}),
]
MEGABYTE = 1 << 20
NOTE = {"io.example.note": "true"}
RANDOM = random.Random(1)  # noqa: S311 - the same each time
LONG = {
    "one letter": "a" * MEGABYTE,
    "two letters": "ab" * (MEGABYTE // 2),
    "two letters by chance": "".join(RANDOM.choices("ab", k=MEGABYTE)),
    "hexadecimal": "".join(RANDOM.choices("0123456789abcdef", k=MEGABYTE)),
    "letters beyond ASCII": "é" * (MEGABYTE // 2),
}
MANY = {
    "short": {f"k{number}": f"v{number}" for number in range(10_000)},
    "two letters by chance": {f"k{number}": "".join(RANDOM.choices("ab", k=80)) for number in range(10_000)},
}


def decided(facts: Facts, hostile: list[str]) -> list[str]:
    """Names of the good hooks that match, beside hostile ones, in both ways to ask, now and when all is warm."""
    bad = [hook(f"{number}.json", annotations={"": pattern}) for number, pattern in enumerate(hostile)]
    bad += [hook(f"{number}-key.json", annotations={pattern: ""}) for number, pattern in enumerate(hostile)]
    bad += [hook(f"{number}-command.json", commands=[pattern]) for number, pattern in enumerate(hostile)]
    matcher = Matcher(GOOD + bad)
    first = [each for each in matcher.match(facts) if each in GOOD]
    assert [
        decision.named for decision in matcher.explain(facts) if decision.matched and decision.named in GOOD
    ] == first
    assert [each for each in matcher.match(facts) if each in GOOD] == first
    return files(first)


def test_the_hostile_patterns_are_patterns() -> None:
    assert fault(HOSTILE) is None


LONG_FACTS = {name: Facts({**NOTE, "big": f"{text}needle"}, "/bin/bash", False) for name, text in LONG.items()}
MANY_FACTS = {name: Facts({**texts, **NOTE}, "/bin/bash", False) for name, texts in MANY.items()}
OF_LONG = ["class.json", "end.json", "literal.json", "middle.json", "old.json", "prefix.json"]
OF_MANY = ["class.json", "literal.json", "old.json", "prefix.json"]
ONE_BY_ONE = pytest.mark.parametrize("hostile", [[], *([pattern] for pattern in HOSTILE)], ids=["none", *HOSTILE])


@ONE_BY_ONE
@pytest.mark.parametrize("facts", LONG_FACTS.values(), ids=LONG)
def test_beside_a_hostile_pattern_a_long_annotation_changes_nothing(facts: Facts, hostile: list[str]) -> None:
    assert decided(facts, hostile) == OF_LONG


@ONE_BY_ONE
@pytest.mark.parametrize("facts", MANY_FACTS.values(), ids=MANY)
def test_beside_a_hostile_pattern_many_annotations_change_nothing(facts: Facts, hostile: list[str]) -> None:
    assert decided(facts, hostile) == OF_MANY


@pytest.mark.parametrize("facts", [*LONG_FACTS.values(), *MANY_FACTS.values()], ids=[*LONG, *MANY])
def test_many_hostile_patterns_at_once_change_nothing(facts: Facts) -> None:
    assert decided(facts, HOSTILE) == (OF_LONG if "big" in facts.annotations else OF_MANY)


def test_a_long_command_is_a_command() -> None:
    command = f"/bin/{'a' * MEGABYTE}sh"
    assert decided(Facts(NOTE, command, False), []) == ["class.json", "literal.json", "old.json", "prefix.json"]


def test_patterns_with_more_literals_than_one_filter_holds_are_all_found() -> None:
    literals = ["".join(RANDOM.choices("abcdefghij.", k=60)) for _ in range(3000)]
    found = Patterns(literals)
    assert all(found.numbers[literal] in found.find_each([literal.encode()])[0] for literal in literals)


def test_a_pattern_that_requires_more_than_a_filter_can_look_for_is_found_alone() -> None:
    long = ["x".join(RANDOM.choices("abcdefghij", k=700)) for _ in range(20)]
    together = Patterns([f"({'|'.join(long)})$", "a$"])
    assert together.find_each([f"<{long[3]}a".encode()]) == [[together.numbers["a$"]]]
    assert together.find_each([f"<{long[3]}".encode()]) == [[together.numbers[f"({'|'.join(long)})$"]]]


def test_a_filter_that_finds_no_literals_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    # What an automaton without memory would do: it is silent, which looks as if there was nothing to find.
    monkeypatch.setattr(re2.Filter, "Match", lambda self, text, potential=False: None)
    found = Patterns(["abc", "def"])
    assert all(isinstance(shard, Single) for shard in found.prepare())
    assert found.find_each([b"xdef"]) == [[found.numbers["def"]]]


def test_slow_patterns_are_set_apart_and_only_those() -> None:
    found = Patterns(["[ab]*a[ab]{20}c", "ab", "[a-c]{3}", "^.*b"])
    texts = ["".join(RANDOM.choices("ab", k=1000)).encode() for _ in range(4)]
    assert found.slow(texts) == {"[ab]*a[ab]{20}c"}


class Clock:
    """One that is many times slower or faster than it was, and at times jumps, as for whom a machine is taken away."""

    def __init__(self, speed: float, jumps: float = 0) -> None:
        self._speed, self._jumps = speed, jumps
        self._real, self._readings = time.thread_time, 0

    def __call__(self) -> float:
        self._readings += 1
        return self._real() * self._speed + self._readings // 7 * self._jumps


CLOCKS = {"slow": Clock(100), "fast": Clock(0.01), "jumping": Clock(1, jumps=0.1), "slow and jumping": Clock(30, 1)}


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
@pytest.mark.parametrize("facts", [*LONG_FACTS.values(), *MANY_FACTS.values()], ids=[*LONG, *MANY])
def test_no_machine_is_too_slow_to_decide_about_good_hooks(
    facts: Facts, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "thread_time", clock)
    assert decided(facts, ["[ab]*a[ab]{20}"]) == (OF_LONG if "big" in facts.annotations else OF_MANY)


def test_a_hostile_search_is_given_up_whatever_the_clock_says(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = hook(annotations={"": "[ab]*a[ab]{20}c"})
    facts = LONG_FACTS["two letters by chance"]
    for clock in (time.thread_time, *CLOCKS.values()):
        monkeypatch.setattr(time, "thread_time", clock)
        [decision] = Matcher([bad]).explain(facts)
        assert "would take too long" in decision.reason
