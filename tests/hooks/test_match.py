"""Which hooks a container gets, and why. Each verdict is that of go.podman.io/common/pkg/hooks, but for those named."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.hooks import match
from adapter.hooks.facts import Facts
from adapter.hooks.match import Matcher
from adapter.hooks.patterns import Patterns
from adapter.hooks.steps import finish

from .examples import container, files, hook, verdict

NOTE = {"example.com/note": "hello world", "b": ""}
HELLO = "'example.com/note': 'hello world'"
NO_CONDITION = "no condition is given, so it never matches"
NO_BINDS = "the container has no bind mounts but those of the runtime"

# fmt: off
AND: list[tuple[dict[str, Any], Facts, bool, str]] = [
    ({}, container(NOTE, binds=True), False, NO_CONDITION),
    ({"always": True}, container(), True, "always is true"),
    ({"always": False}, container(), False, "always is false"),
    ({"always": False, "commands": ["sh"]}, container(), False, "always is false"),
    ({"has_bind_mounts": True}, container(binds=True), True, "the container has bind mounts"),
    ({"has_bind_mounts": True}, container(), False, NO_BINDS),
    ({"has_bind_mounts": False}, container(), False, "hasBindMounts is false"),
    ({"has_bind_mounts": False, "always": True}, container(), False, "hasBindMounts is false"),
    # annotations: key and value of the same one, found anywhere in them
    ({"annotations": {"note$": "lo w"}}, container(NOTE), True, f"the annotation {HELLO} matches 'note$': 'lo w'"),
    ({"annotations": {"note$": "^$"}}, container(NOTE), False, "no annotation matches 'note$': '^$'"),
    ({"annotations": {"": ""}}, container(), False, "no annotation matches '': ''"),
    ({"annotations": {"": ""}}, container({"": ""}), True, "the annotation '': '' matches '': ''"),
    ({"annotations": {"^b$": "", "z": ""}}, container(NOTE), False, "no annotation matches 'z': ''"),
    ({"annotations": {"^b$": "", "n": "o"}}, container(NOTE), True,
     f"the annotation 'b': '' matches '^b$': '' and the annotation {HELLO} matches 'n'"),
    ({"annotations": {"a.c": ""}}, container({"a\nc": ""}), False, "no annotation matches 'a.c': ''"),
    ({"annotations": {"^a$": ""}}, container({"a\n": ""}), False, "no annotation matches '^a$': ''"),
    ({"annotations": {".*": "sh"}}, container(NOTE), False, "no annotation matches"),
    # the command; upstream fails a container without one
    ({"commands": ["bash", "sh$"]}, container(), True, "the command '/bin/sh' matches 'sh$'"),
    ({"commands": ["bash", "^sh"]}, container(), False, "the command '/bin/sh' matches none of 'bash', '^sh'"),
    ({"commands": [""]}, container(command=""), True, "the command '' matches ''"),
    ({"commands": [".*"]}, container(command=None), False, "the container has no args, so no command"),
    ({"commands": ["hello"]}, container(NOTE), False, "the command '/bin/sh' matches none"),
    # several
    ({"always": True, "commands": ["x"]}, container(), False, "the command '/bin/sh' matches none of 'x'"),
    ({"always": True, "has_bind_mounts": True, "commands": ["sh"]}, container(binds=True), True,
     "always is true and the container has bind mounts and the command '/bin/sh' matches 'sh'"),
    ({"always": True, "annotations": {"b": "x"}}, container(NOTE), False, "no annotation matches 'b': 'x'"),
    ({"has_bind_mounts": True, "annotations": {"b": ""}}, container(NOTE), False, "the container has no bind mounts"),
    ({"commands": ["sh"], "annotations": {"b": "x"}}, container(NOTE), False, "no annotation matches 'b': 'x'"),
]
OR: list[tuple[dict[str, Any], Facts, bool, str]] = [
    ({}, container(NOTE, binds=True), False, NO_CONDITION),
    ({"always": True}, container(), True, "always is true"),
    ({"has_bind_mounts": True, "commands": ["x"]}, container(binds=True), True, "the container has bind mounts"),
    ({"has_bind_mounts": True}, container(), False, NO_BINDS),
    ({"has_bind_mounts": False}, container(), False, "hasBindMounts is false"),
    ({"has_bind_mounts": False, "commands": ["sh"]}, container(), True, "the command '/bin/sh' matches 'sh'"),
    ({"annotations": {".*": "hello"}}, container(NOTE), True, f"the annotation {HELLO} matches"),
    ({"annotations": {".*": ""}}, container(), False, "no annotation matches '.*': ''"),
    ({"annotations": {".*": "x"}, "commands": ["y"]}, container(NOTE), False,
     "no annotation matches '.*': 'x' and the command '/bin/sh' matches none of 'y'"),
    ({"annotations": {".*": "x"}, "commands": ["sh"]}, container(NOTE), True, "the command '/bin/sh' matches 'sh'"),
    ({"annotations": {".*": "h"}, "commands": ["y"]}, container(NOTE), True, "the annotation 'example.com/note'"),
    ({"annotations": {".*": "h"}, "commands": ["y"]}, container(NOTE, None), True, "the annotation 'example.com/note'"),
    ({"commands": ["y"]}, container(command=None), False, "the container has no args, so no command"),
]
# fmt: on


@pytest.mark.parametrize(("table", "any_of"), [(AND, False), (OR, True)], ids=["all must hold", "one suffices"])
def test_conditions_decide_and_are_the_reason(table: list[tuple[Any, Facts, bool, str]], any_of: bool) -> None:
    for when, facts, matched, reason in table:
        found = verdict(hook(any_of=any_of, **when), facts)
        assert (found[0], found[1][: len(reason)]) == (matched, reason), when


def test_hooks_come_in_the_order_of_their_names_in_lower_case() -> None:
    names = ["b.json", "B-1.json", "a.json", "_.json", "10.json", "9.json", "Z.json", ".z.json", "é.json", "ß.json"]
    expected = [".z.json", "10.json", "9.json", "_.json", "a.json", "B-1.json", "b.json", "Z.json", "ß.json", "é.json"]
    matcher = Matcher(hook(name, always=True) for name in names)
    assert files(matcher.match(container())) == expected
    assert [decision.named.file for decision in matcher.explain(container())] == expected


@pytest.mark.parametrize(
    "names",
    [
        # rune by rune: Python makes another letter of a final sigma, which would come first, and two letters of İ
        ["\u03b1\u03c2-2", "\u0391\u03a3-1"],
        ["ia", "İb", "i\u0307a"],
        # bytes that are no text are U+FFFD
        ["\uffef", "\udcff", "\U00010000"],
        # equal ones have no fixed order upstream
        ["A", "a"],
    ],
)
def test_names_beyond_ascii_are_lower_cased_as_go_does(names: list[str]) -> None:
    names = [f"{name}.json" for name in names]
    assert files(Matcher(hook(name, always=True) for name in reversed(names)).match(container())) == names


def test_two_hooks_with_the_same_conditions_are_two_hooks() -> None:
    same = {"annotations": {"b": ".*"}, "commands": ["sh"]}
    hooks = [hook("a.json", **same), hook("b.json", **same), hook("c.json", any_of=True, annotations={"b": ""})]
    assert files(Matcher(hooks).match(container(NOTE))) == ["a.json", "b.json", "c.json"]


def test_no_hooks_are_no_hooks() -> None:
    assert Matcher([]).match(container(NOTE)) == []
    assert Matcher([]).explain(container(NOTE)) == []


def test_a_reason_is_one_line_of_bearable_length() -> None:
    key, value = "\n" * 300, "\x1b[2J" * 300
    matched, reason = verdict(hook(annotations={"(?s).*": "2J"}), container({key: value}))
    assert matched
    assert reason.isprintable()
    assert len(reason) < 300


def test_the_reason_names_the_same_annotation_whatever_their_order() -> None:
    for notes in ({"b": "x", "a": "x"}, {"a": "x", "b": "x"}):
        assert "'a': 'x'" in verdict(hook(annotations={".*": "x"}), container(notes))[1]


LOST_BEFORE = {
    "a large program": (("a{600}|b", "^a|b$"), {"é": "x b", "a": "a", "io\nb": "xx", "io.b/c": "ab", "a" * 800: "k1"}),
    "a class and a long key": ((r"^\pL+$", ""), {"k" * 600: "v", "x-1": "y"}),
    "classes and a long value": (("", r"[\pL\pN]+=on"), {"big": "key=val," * 255 + "é=on"}),
}


@pytest.mark.parametrize(("pair", "annotations"), LOST_BEFORE.values(), ids=LOST_BEFORE)
def test_a_hook_that_matches_is_injected_every_time(pair: tuple[str, str], annotations: dict[str, str]) -> None:
    one = Matcher([hook(annotations=dict([pair]))])
    for _ in range(30):
        assert files(one.match(container(annotations))) == ["a.json"]
        assert files(Matcher([hook(annotations=dict([pair]))]).match(container(annotations))) == ["a.json"]


def test_a_matcher_made_in_steps_compiles_one_pattern_at_each_step() -> None:
    hooks = [hook(f"{n}.json", annotations={f"k{n}": f"v{n}"}, commands=["sh", f"c{n}"]) for n in range(10)]
    steps = Matcher.in_steps(hooks)
    assert sum(1 for _ in steps) == 10 + 10 + 11
    made = finish(Matcher.in_steps(hooks))
    assert files(made.match(container({"k7": "v7"}))) == ["7.json"]


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
