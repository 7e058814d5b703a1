"""Hostile patterns and annotations: what they must not do is change the decision about any other hook.

How long they take is measured by tests/bench/hooks.py.
"""

from __future__ import annotations

import json
import random

import pytest

from adapter.hooks.decode import HookError
from adapter.hooks.facts import Facts
from adapter.hooks.match import Matcher
from adapter.hooks.model import parse
from adapter.hooks.patterns import Patterns, fault
from adapter.hooks.steps import finish

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
SIZE = 4 << 10
NOTE = {"io.example.note": "true"}
RANDOM = random.Random(1)  # noqa: S311 - the same each time
LONG = {
    "one letter": "a" * SIZE,
    "two letters": "ab" * (SIZE // 2),
    "two letters by chance": "".join(RANDOM.choices("ab", k=SIZE)),
    "hexadecimal": "".join(RANDOM.choices("0123456789abcdef", k=SIZE)),
    "letters beyond ASCII": "é" * (SIZE // 2),
}
MANY = {
    "short": {f"k{number}": f"v{number}" for number in range(100)},
    "two letters by chance": {f"k{number}": "".join(RANDOM.choices("ab", k=80)) for number in range(100)},
}


def decided(facts: Facts, hostile: list[str]) -> list[str]:
    """Names of the good hooks that match, beside hostile ones, in both ways to ask, now and when all is warm."""
    bad = [hook(f"{number}.json", annotations={"": pattern}) for number, pattern in enumerate(hostile)]
    bad += [hook(f"{number}-key.json", annotations={pattern: ""}) for number, pattern in enumerate(hostile)]
    bad += [hook(f"{number}-command.json", commands=[pattern]) for number, pattern in enumerate(hostile)]
    matcher = Matcher(GOOD + bad)
    first = [each for each in matcher.match(facts) if each in GOOD]
    explained = [decision.named for decision in matcher.explain(facts) if decision.matched]
    assert [each for each in explained if each in GOOD] == first
    assert [each for each in matcher.match(facts) if each in GOOD] == first
    return files(first)


def test_the_hostile_patterns_are_patterns() -> None:
    assert not any(map(fault, HOSTILE))


LONG_FACTS = {name: Facts({**NOTE, "big": f"{text}needle"}, "/bin/bash", False) for name, text in LONG.items()}
MANY_FACTS = {name: Facts({**texts, **NOTE}, "/bin/bash", False) for name, texts in MANY.items()}
OF_LONG = ["class.json", "end.json", "literal.json", "middle.json", "old.json", "prefix.json"]
OF_MANY = ["class.json", "literal.json", "old.json", "prefix.json"]


@pytest.mark.parametrize("facts", [*LONG_FACTS.values(), *MANY_FACTS.values()], ids=[*LONG, *MANY])
def test_beside_hostile_patterns_one_by_one_and_all_at_once_annotations_match_the_same(facts: Facts) -> None:
    for hostile in ([], *([pattern] for pattern in HOSTILE), HOSTILE):
        assert decided(facts, hostile) == (OF_LONG if "big" in facts.annotations else OF_MANY), hostile


def test_a_long_command_is_a_command() -> None:
    assert decided(Facts(NOTE, f"/bin/{'a' * SIZE}sh", False), []) == OF_MANY


def test_patterns_with_more_literals_than_one_filter_holds_are_all_found() -> None:
    literals = ["".join(RANDOM.choices("abcdefghij.", k=2000)) for _ in range(60)]
    together = patterns(*literals)
    assert all(literal in together.find(literal) for literal in literals)
    # One that requires more than a filter can look for is found alone.
    long = ["x".join(RANDOM.choices("bcdefghij", k=700)) for _ in range(20)]
    large = f"({'|'.join(long)})$"
    together = patterns(large, "a$")
    assert together.find(f"<{long[3]}a") == {"a$"}
    assert together.find(f"<{long[3]}") == {large}


@pytest.mark.parametrize("pattern", [r"(a|b|\pL){40}q", r"\pL{100}", ".{0,1000}" * 8])
def test_a_program_beyond_the_limit_is_refused_with_the_limit(pattern: str) -> None:
    text = json.dumps({"hook": "/bin/true", "cmds": [pattern], "stages": []}).encode()
    with pytest.raises(HookError, match="more than 16384 instructions") as refused:
        parse(text)
    assert refused.value.line == 1
    assert repr(pattern) in str(refused.value)


def patterns(*texts: str) -> Patterns:
    together = Patterns()
    finish(together.add(texts))
    return together
