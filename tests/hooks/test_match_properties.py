"""Matching many hooks at once decides as a plain search of every pattern on every text does, every time."""

from __future__ import annotations

import re
from random import Random

import re2  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapter.hooks.facts import Facts
from adapter.hooks.match import Matcher, NamedHook
from adapter.hooks.model import Hook, When
from adapter.hooks.patterns import Patterns
from adapter.hooks.steps import finish

# fmt: off
PATTERNS = st.sampled_from([
    "", ".*", "^", "^.*", "^a$", "^(a|b)$", "^(?:|io\\.b)$", "^$", "a", "b|c", "io", "io.*b", "[ab]c?", "(?i)A", "\\bb",
    "(?s)^.$", "é", "^\\pL+$", "a{2,}", "a{600}|b", "\\pL{2}", "is this on", "\\x00is", "^a|b$", "^(a)(b)$", "(?m)^b$",
    r"\pL{10}7", r"[\pL\pN]+=on", "(a|b)*a(a|b){12}", "a{1000}|é", ".{0,60}b$", r"(\pL|-){12}x?$",
])
HOSTILE = [
    "(x+x+)+y", "(a+)+$", "[ab]*a[ab]{20}$", "[ab]*a[ab]{20}", "(a|b)*a(a|b){100}", "(a{0,30}){0,30}c", ".{0,1000}x",
    "a{1000}b{900}c", "(.*a){20}", "((a*)*)*c", "(a?){500}a{500}", "(.*)(.*)(.*)(.*)(.*)[0-9]q", r"\pL{10}7",
]
# fmt: on
UNITS = st.sampled_from(["a", "b", "ab", "é", "k=v,", "x-", "é=on", "aaaaaaaaaa7", "\n"])
TEXTS = st.one_of(
    st.sampled_from(
        ["", "a", "b", "ab", "c", "io.b", "io\nb", "A", "aa", "é", "x b", "a\nb", "\0is this on?\0", "aa" * 400]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.builds(lambda unit, times, end: unit * times + end, UNITS, st.sampled_from([50, 700]), UNITS),
)
LITERALS = st.builds(
    lambda words, form: form.format("|".join(words)),
    st.lists(st.text("abcdefghij.", min_size=1, max_size=300).map(re.escape), min_size=1, max_size=20),
    st.sampled_from(["({})", "^({})$", "({})$", "(?i)({})"]),
)
WHENS = st.builds(
    When,
    always=st.sampled_from([None, None, None, True, False]),
    annotations=st.dictionaries(PATTERNS, PATTERNS, max_size=2).map(lambda found: tuple(found.items())),
    commands=st.lists(PATTERNS, max_size=2).map(tuple),
    has_bind_mounts=st.sampled_from([None, None, None, True, False]),
    any_of=st.booleans(),
)
MANY = st.builds(
    lambda count, key, value, more: {f"{key}{number}": f"{value}{number % 7}" for number in range(count)} | more,
    st.sampled_from([20, 60]),
    TEXTS,
    TEXTS,
    st.dictionaries(TEXTS, TEXTS, max_size=2),
)
FACTS = st.builds(
    Facts,
    annotations=st.dictionaries(TEXTS, TEXTS, max_size=5) | MANY,
    command=st.none() | TEXTS,
    has_bind_mounts=st.booleans(),
)
REPEATED = 5
"""How often the same container is matched: each time the decision must be the same."""


def holds(when: When, facts: Facts) -> bool:
    """upstream's When.Match, one search after the other; an empty args is no match."""
    held = []
    if when.always is not None:
        held.append(when.always)
    if when.has_bind_mounts is not None:
        held.append(when.has_bind_mounts and facts.has_bind_mounts)
    for key, value in when.annotations:
        found = (re2.search(key, k) and re2.search(value, v) for k, v in facts.annotations.items())
        held.append(any(found))
    if when.commands:
        command = facts.command
        held.append(command is not None and any(re2.search(pattern, command) for pattern in when.commands))
    return any(held) if when.any_of else bool(held) and all(held)


def named(number: int, when: When) -> NamedHook:
    return NamedHook(f"{number:02}.json", "", Hook("/bin/true", (), (), None, when, ()))


@given(whens=st.lists(WHENS, max_size=12), containers=st.lists(FACTS, min_size=1, max_size=3))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_together_hooks_match_as_each_would_alone_every_time(whens: list[When], containers: list[Facts]) -> None:
    hooks = [named(number, when) for number, when in enumerate(whens)]
    matcher = Matcher(hooks)
    for facts in containers:
        expected = [each for each in hooks if holds(each.hook.when, facts)]
        for _ in range(REPEATED):
            assert matcher.match(facts) == expected
        decisions = matcher.explain(facts)
        assert [decision.named for decision in decisions if decision.matched] == expected
        assert [decision.named for decision in decisions] == hooks


def test_hostile_patterns_change_no_decision_about_another_hook() -> None:
    """How long they take is measured by tests/bench/hooks.py."""
    random = Random(1)  # noqa: S311 - the same each time
    good = [
        When(annotations=(("^io\\.example\\.", "^t"),), commands=("^/bin/.*sh$",)),
        When(annotations=(("", "needle$"),)),
        When(annotations=(("^io\\.[a-z]+\\.", "[a-z]{4}"), ("", "pin[0-9]")), any_of=True),
        When(annotations=(("", "^false$"),)),
    ]
    bad = [When(annotations=(pair,)) for pattern in HOSTILE for pair in ((pattern, ""), ("", pattern))]
    bad += [When(commands=(pattern,)) for pattern in HOSTILE]
    hooks = [named(number, when) for number, when in enumerate([*good, *bad])]
    for text in ("a" * 4096, "ab" * 2048, "é" * 2048, *("".join(random.choices(of, k=4096)) for of in ("ab", "0af"))):
        many = {f"k{number}": text[number : number + 80] for number in range(100)}
        for notes, expected in (({"big": f"{text}needle"}, [0, 1, 2]), (many, [0, 2])):
            facts = Facts({**notes, "io.example.note": "true"}, "/bin/bash", False)
            matcher = Matcher(hooks)
            for _ in range(2):
                assert [hooks.index(one) for one in matcher.match(facts) if one in hooks[:4]] == expected, text[:9]


@given(patterns=st.lists(LITERALS, min_size=1, max_size=100, unique=True), data=st.data())
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
def test_however_many_literals_the_patterns_have_each_is_found(patterns: list[str], data: st.DataObject) -> None:
    together = Patterns()
    finish(together.add(patterns))
    for pattern in data.draw(st.lists(st.sampled_from(patterns), max_size=5)):
        text = "<" + pattern.strip("^$()").split("|")[-1].replace("\\", "")
        assert together.find(text) == {each for each in patterns if re2.search(each, text)}


def test_patterns_with_more_literals_than_one_filter_holds_are_all_found() -> None:
    random = Random(1)  # noqa: S311 - the same each time
    literals = ["".join(random.choices("abcdefghij.", k=2000)) for _ in range(60)]
    together = Patterns()
    finish(together.add(literals))
    assert all(literal in together.find(literal) for literal in literals)
    # One that requires more than a filter can look for is found alone.
    long = ["x".join(random.choices("bcdefghij", k=700)) for _ in range(20)]
    large = f"({'|'.join(long)})$"
    together = Patterns()
    finish(together.add([large, "a$"]))
    assert [together.find(f"<{long[3]}{end}") for end in ("a", "")] == [{"a$"}, {large}]
