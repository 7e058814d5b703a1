"""Which hooks a container gets, why, and in which order: as if each pattern were searched in each text, every time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest
import re2  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from v010_adapter.cli.check import faults
from v010_adapter.cli.hooks.explain import explain
from v010_adapter.hooks import match, patterns
from v010_adapter.hooks.facts import Facts
from v010_adapter.hooks.match import Matcher, NamedHook
from v010_adapter.hooks.model import Hook, When, parse
from v010_adapter.hooks.patterns import Patterns

from ..peers import hook_cases
from .real_files import CONTAINERS, FILES, installed


def named(file: str, when: When) -> NamedHook:
    return NamedHook(file, "", Hook("/bin/true", (), (), None, when, ()))


def hook(file: str = "a.json", **conditions: Any) -> NamedHook:
    """A hook with these conditions: fields of When, annotations as a dictionary."""
    annotations = tuple(dict(conditions.pop("annotations", {})).items())
    return named(file, When(annotations=annotations, **conditions))


def container(
    annotations: dict[str, str] | None = None, command: str | None = "/bin/sh", *, binds: bool = False
) -> Facts:
    return Facts(annotations or {}, command, binds)


def verdict(of: NamedHook, facts: Facts) -> tuple[bool | None, str]:
    """Whether the hook matches and why; both ways to ask must agree."""
    matcher = Matcher([of])
    [decision] = explain(matcher, facts)
    assert matcher.match(facts) == ([of] if decision.matched else [])
    return decision.matched, decision.reason


def files(hooks: Iterable[NamedHook]) -> list[str]:
    return [named.file for named in hooks]


NOTE = {"example.com/note": "hello world", "b": ""}
HELLO = "'example.com/note': 'hello world'"
NO_CONDITION = "no condition is given, so it never matches"
NO_BINDS = "the container has no bind mounts but those of the runtime"

# fmt: off
AND: list[tuple[dict[str, Any], Facts, bool, str]] = [
    ({}, container(NOTE, binds=True), False, NO_CONDITION),
    ({"always": True}, container(), True, "always is true"),
    ({"always": False, "commands": ["sh"]}, container(), False, "always is false"),
    ({"has_bind_mounts": True}, container(binds=True), True, "the container has bind mounts"),
    ({"has_bind_mounts": True}, container(), False, NO_BINDS),
    # annotations: key and value of the same one, found anywhere in them
    ({"annotations": {"note$": "lo w"}}, container(NOTE), True, f"the annotation {HELLO} matches 'note$': 'lo w'"),
    ({"annotations": {"": ""}}, container({"": ""}), True, "the annotation '': '' matches '': ''"),
    ({"annotations": {"^b$": "", "z": ""}}, container(NOTE), False, "no annotation matches 'z': ''"),
    ({"annotations": {"^b$": "", "n": "o"}}, container(NOTE), True,
     f"the annotation 'b': '' matches '^b$': '' and the annotation {HELLO} matches 'n'"),
    # the command; upstream fails a container without one
    ({"commands": ["bash", "bin", "sh$"]}, container(), True, "the command '/bin/sh' matches 'sh$'"),
    ({"commands": ["bash", "^sh"]}, container(), False, "the command '/bin/sh' matches none of 'bash', '^sh'"),
    ({"commands": [""]}, container(command=""), True, "the command '' matches ''"),
    ({"commands": [".*"]}, container(command=None), False, "the container has no args, so no command"),
    # several
    ({"always": True, "has_bind_mounts": True, "commands": ["sh"]}, container(binds=True), True,
     "always is true and the container has bind mounts and the command '/bin/sh' matches 'sh'"),
]
OR: list[tuple[dict[str, Any], Facts, bool, str]] = [
    ({}, container(NOTE, binds=True), False, NO_CONDITION),
    ({"has_bind_mounts": False}, container(), False, "hasBindMounts is false"),
    ({"has_bind_mounts": False, "commands": ["sh"]}, container(), True, "the command '/bin/sh' matches 'sh'"),
    ({"annotations": {".*": "x"}, "commands": ["y"]}, container(NOTE), False,
     "no annotation matches '.*': 'x' and the command '/bin/sh' matches none of 'y'"),
    ({"annotations": {".*": "h"}, "commands": ["y"]}, container(NOTE, None), True, "the annotation 'example.com/note'"),
]
# fmt: on


@pytest.mark.parametrize(("table", "any_of"), [(AND, False), (OR, True)], ids=["all must hold", "one suffices"])
def test_conditions_decide_and_are_the_reason(table: list[tuple[Any, Facts, bool, str]], any_of: bool) -> None:
    for when, facts, matched, reason in table:
        found = verdict(hook(any_of=any_of, **when), facts)
        assert (found[0], found[1][: len(reason)]) == (matched, reason), when


def test_a_reason_is_one_line_of_bearable_length() -> None:
    matched, reason = verdict(hook(annotations={"(?s).*": "2J"}), container({"\n" * 300: "\x1b[2J" * 300}))
    assert matched
    assert reason.isprintable()
    assert len(reason) < 300


def test_the_reason_names_the_same_annotation_whatever_their_order() -> None:
    for notes in ({"b": "x", "a": "x"}, {"a": "x", "b": "x"}):
        assert "'a': 'x'" in verdict(hook(annotations={".*": "x"}), container(notes))[1]


ORDERS = [
    [".z", "10", "9", "_", "a", "B-1", "b", "Z", "ß", "é"],
    # rune by rune: Python makes another letter of a final sigma, which would come first, and two letters of İ
    ["\u03b1\u03c2-2", "\u0391\u03a3-1"],
    ["ia", "İb", "i\u0307a"],
    # bytes that are no text are U+FFFD
    ["\uffef", "\udcff", "\U00010000"],
    # equal ones have no fixed order upstream
    ["A", "a"],
]


def test_hooks_come_in_the_order_of_their_names_lower_cased_as_go_does() -> None:
    for names in ORDERS:
        expected = [f"{name}.json" for name in names]
        matcher = Matcher(hook(name, always=True) for name in reversed(expected))
        assert files(matcher.match(container())) == expected
        assert files(rule.named for rule in matcher.rules) == expected


@pytest.mark.parametrize(("content", "letters", "placeholders"), FILES.values(), ids=FILES)
def test_a_file_of_another_project_matches_its_containers_and_its_template_is_named(
    content: dict[str, Any], letters: str, placeholders: list[str]
) -> None:
    """Which containers get the hook, and what `check` says of the file and of its template."""
    text = json.dumps(installed(content)).encode()
    matcher = Matcher([NamedHook("x.json", "", parse(text, precreate=True))])
    assert "".join(letter for letter, facts in CONTAINERS.items() if matcher.match(facts)) == letters
    told = [entry.message for entry in faults.find(json.dumps(content).encode(), "x.json")]
    of_template = [message for message in told if message.endswith("is a placeholder that nobody has replaced")]
    assert [message.split()[1] for message in of_template] == placeholders
    assert [message for message in told if message not in of_template and "version is missing" not in message] == []


# ---- many at once


# fmt: off
PATTERNS = st.sampled_from([
    *hook_cases.PATTERNS, "is this on", "\\x00is", "needle$",
    # Hostile ones, which must change no decision about another hook.
    "(x+x+)+y", "(a+)+$", "[ab]*a[ab]{20}$", "(a{0,30}){0,30}c", "((a*)*)*c", "(.*)(.*)(.*)(.*)(.*)[0-9]q",
])
# fmt: on
TEXTS = hook_cases.SOME_TEXT | st.sampled_from(["\0is this on?\0", "x-" * 700 + "needle"]) | st.text(max_size=5)
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
    annotations=st.dictionaries(TEXTS, TEXTS, max_size=5) | hook_cases.MANY_ANNOTATIONS,
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


@given(whens=st.lists(WHENS, max_size=12), containers=st.lists(FACTS, min_size=1, max_size=3))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_together_hooks_match_as_each_would_alone_every_time(whens: list[When], containers: list[Facts]) -> None:
    hooks = [named(f"{number:02}.json", when) for number, when in enumerate(whens)]
    matcher = Matcher(hooks)
    for facts in containers:
        expected = [each for each in hooks if holds(each.hook.when, facts)]
        for _ in range(REPEATED):
            assert matcher.match(facts) == expected
        decisions = explain(matcher, facts)
        assert [decision.named for decision in decisions if decision.matched] == expected
        assert [decision.named for decision in decisions] == hooks


def test_patterns_with_more_literals_than_one_filter_holds_are_all_found() -> None:
    random = Random(1)  # noqa: S311 - the same each time
    literals = ["".join(random.choices("abcdefghij.", k=2000)) for _ in range(60)]
    together = Patterns(literals)
    assert all(literal in together.find(literal) for literal in literals)
    # One that requires more than a filter can look for is found alone.
    long = ["x".join(random.choices("bcdefghij", k=700)) for _ in range(20)]
    large = f"({'|'.join(long)})$"
    together = Patterns([large, "a$"])
    assert [together.find(f"<{long[3]}{end}") for end in ("a", "")] == [{"a$"}, {large}]


def test_where_re2_cannot_be_imported_a_pattern_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_re2", Mock(side_effect=ImportError("libstdc++.so.6: no such file")))
    patterns.fault.cache_clear()
    assert patterns.fault("a") == "google-re2 cannot be imported: libstdc++.so.6: no such file"
    patterns.fault.cache_clear()


def test_only_short_keys_without_a_pattern_are_remembered_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    find = Patterns.find
    monkeypatch.setattr(Patterns, "find", lambda self, text: asked.append(text) or find(self, text))  # type: ignore[func-returns-value]
    monkeypatch.setattr(match, "USUAL_KEYS", 3)
    matcher = Matcher([hook(annotations={"^a$": "^b$"})])
    long = "x" * (match.USUAL_KEY + 1)

    def looked_for(*keys: str) -> set[str]:
        asked.clear()
        assert len(matcher.match(container(dict.fromkeys(keys, "b"), None))) == keys.count("a")
        return {*asked} - {"b"}

    assert looked_for("a", "1", "2", long[1:], long) == {"a", "1", "2", long[1:], long}
    assert looked_for("a", "1", "2", long[1:], long) == {"a", long}
    assert looked_for("3") == {"3"}, "with it, the others are forgotten"
    assert looked_for("1", "3") == {"1"}
