"""Which hooks a container gets, why, and in which order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest

from v010_adapter.cli.check import faults
from v010_adapter.cli.hooks.explain import explain
from v010_adapter.hooks import match, patterns
from v010_adapter.hooks.facts import Facts
from v010_adapter.hooks.match import Matcher, NamedHook
from v010_adapter.hooks.model import Hook, When, parse
from v010_adapter.hooks.patterns import Patterns

from .real_files import CONTAINERS, FILES, installed


def hook(file: str = "a.json", **conditions: Any) -> NamedHook:
    """A hook with these conditions: fields of When, annotations as a dictionary."""
    annotations = tuple(dict(conditions.pop("annotations", {})).items())
    return NamedHook(file, "", Hook("/bin/true", (), (), None, When(annotations=annotations, **conditions), ()))


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


def test_a_pair_of_patterns_is_decided_by_one_annotation() -> None:
    chosen = [hook(annotations={"a": "1", "b": "2"})]
    matcher = Matcher(chosen)
    assert matcher.deciding(chosen, {"a": "2", "b": "1", "ab": "2"}) == {"ab": "2"}
    assert matcher.deciding([], {"a": "1"}) == {}


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
