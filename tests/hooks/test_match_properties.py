"""Matching many hooks at once decides as matching each of them by itself, whichever way it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from unittest import mock

import pytest
import re2  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from adapter.hooks.match import Facts, Matcher, Named
from adapter.hooks.model import Hook, When

# fmt: off
PATTERNS = st.sampled_from([
    "", ".*", "^", "^.*", "^a$", "^(a|b)$", "^(?:|io\\.b)$", "^$", "a", "b|c", "io", "io.*b", "[ab]c?", "(?i)A", "\\bb",
    "(?s)^.$", "é", "^\\pL+$", "a{2,}", "a{600}|b", "\\pL{2}", "is this on", "\\x00is", "^a|b$", "^(a)(b)$", "(?m)^b$",
])
# fmt: on
TEXTS = st.one_of(
    st.sampled_from(
        ["", "a", "b", "ab", "c", "io.b", "io\nb", "A", "aa", "é", "x b", "a\nb", "\0is this on?\0", "aa" * 400]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
WHENS = st.builds(
    When,
    always=st.sampled_from([None, None, None, True, False]),
    annotations=st.dictionaries(PATTERNS, PATTERNS, max_size=2).map(lambda found: tuple(found.items())),
    commands=st.lists(PATTERNS, max_size=2).map(tuple),
    has_bind_mounts=st.sampled_from([None, None, None, True, False]),
    any_of=st.booleans(),
)
FACTS = st.builds(
    Facts,
    annotations=st.dictionaries(TEXTS, TEXTS, max_size=5),
    command=st.none() | TEXTS,
    has_bind_mounts=st.booleans(),
)
# What makes everything go the way that little goes otherwise.
WAYS: Mapping[str, Mapping[str, object]] = {
    "at once": {},
    "late": {"conditions.SHORT": -1},
    "set apart": {"conditions.FIRST": 1, "conditions.SLOW": -1, "patterns.SLOW": -1e9},
    "large": {"patterns.LARGE": -1},
    "never one by one": {"table.FEW": -1},
    "always one by one": {"table.FEW": 1 << 20},
    "small groups": {"patterns.GROUP": 2, "conditions.STRETCH": 2, "conditions.FIRST": 1},
    "many filters": {"shard.SIZE": 1},
    "no filters": {"shard._filter": lambda patterns: None},
    "no literals": {"patterns._LITERALS": re.compile("(?!)")},
}

WORK_ENOUGH = {"conditions.WORK": 1e18}


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


def named(number: int, when: When) -> Named:
    return Named(f"{number:02}.json", "", Hook("/bin/true", (), (), None, when, (), ""))


@pytest.mark.parametrize("way", WAYS)
@given(whens=st.lists(WHENS, max_size=12), containers=st.lists(FACTS, min_size=1, max_size=3))
@settings(deadline=None, max_examples=150)
def test_together_hooks_match_as_each_would_alone(way: str, whens: list[When], containers: list[Facts]) -> None:
    with ExitStack() as changes:
        for name, value in {**WORK_ENOUGH, **WAYS[way]}.items():
            changes.enter_context(mock.patch(f"adapter.hooks.{name}", value))
        hooks = [named(number, when) for number, when in enumerate(whens)]
        matcher = Matcher(hooks)
        for facts in containers:
            expected = [each for each in hooks if holds(each.hook.when, facts)]
            assert matcher.match(facts) == expected
            assert [decision.named for decision in matcher.explain(facts) if decision.matched] == expected
            assert [decision.named for decision in matcher.explain(facts)] == hooks
