"""Mistakes in the configuration that are not one value's: repeated keys, wrong shapes, broken YAML, anchors."""

from __future__ import annotations

import pytest

from adapter.settings import PluginSettings, parse

from .test_settings import DEFAULTS, errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hostRoot: /a\nhostRoot: /b", "conf.yaml:2: hostRoot: given twice"),
        ("log: {}\n\nlog: {level: debug}", "conf.yaml:3: log: given twice"),
        ("legacy:\n  timeout: 1\n  timeout: 1\n", "conf.yaml:3: legacy.timeout: given twice"),
        ("legacy:\n  plugins:\n    a: {}\n    a: {timeout: 1}\n", "conf.yaml:4: legacy.plugins.a: given twice"),
    ],
)
def test_a_key_that_is_given_twice_is_named_and_the_first_counts(text: str, said: str) -> None:
    given, [error] = parse(text, "conf.yaml")
    assert str(error) == said
    first = "".join(line + "\n" for number, line in enumerate(text.split("\n"), 1) if f"yaml:{number}:" not in said)
    assert given == parse(first, "conf.yaml")[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "conf.yaml:1: must be a mapping"),
        ("just text", "conf.yaml:1: must be a mapping"),
        ("42", "conf.yaml:1: must be a mapping"),
        ("\n\n[]", "conf.yaml:3: must be a mapping"),
        ("legacy: []", "conf.yaml:1: legacy: must be a mapping"),
        ("legacy:\n  plugins: konfine", "conf.yaml:2: legacy.plugins: must be a mapping"),
        ("legacy:\n  plugins:\n    konfine: fail", "conf.yaml:3: legacy.plugins.konfine: must be a mapping"),
        ("log: debug", "conf.yaml:1: log: must be a mapping"),
        ("runtime: ''", "conf.yaml:1: runtime: must be a mapping"),
    ],
)
def test_what_must_be_a_mapping_and_is_none_is_named(text: str, said: str) -> None:
    given, wrong = parse(text, "conf.yaml")
    assert [str(error) for error in wrong] == [said]
    assert given.log == DEFAULTS.log


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("log: {", 1),
        ("log:\n  level: info\n target: auto", 3),
        ("log:\n\tlevel: info", 2),
        ("a: b: c", 1),
        ("hostRoot: '/", 1),
        ("hostRoot: /\n---\nhostRoot: /", 2),
        ("legacy: *nowhere", 1),
        ("&a x: 1\n&a y: *b", 2),
        ("hostRoot: @x", 1),
        ("hostRoot: /\nlog: \x00", 2),
        ("hostRoot: /\n\nlog: \x07", 3),
        ("\ufeff\x1b[0m", 1),
        ("%YAML 3.0\n---\n{}", 1),
        ('hostRoot: "\\x"', 1),
        ("[" * 20 + "\n", 2),
    ],
    ids=ascii,
)
def test_a_mistake_in_the_yaml_itself_is_named_with_its_line_and_all_defaults_hold(text: str, line: int) -> None:
    given, [error] = parse(text, "conf.yaml")
    assert error.place == f"conf.yaml:{line}"
    assert error.reason
    assert "\n" not in str(error)
    assert given == DEFAULTS


def test_depth_without_end_is_a_mistake_and_no_crash() -> None:
    given, [error] = parse("legacy: " + "[" * 100_000, "conf.yaml")
    assert given == DEFAULTS
    assert error.place.startswith("conf.yaml")


def test_unusual_tags_build_nothing() -> None:
    for tag in ("!!python/object/apply:os.getcwd", "!!python/name:os.system", "!mine", "!!set"):
        [error] = errors(f"hostRoot: {tag} []")
        assert error.startswith("conf.yaml:1: hostRoot: ")


def test_anchors_stand_for_what_they_name() -> None:
    text = """\
legacy:
  plugins:
    a: &careful {onFailure: ignore, timeout: &long 20}
    b: *careful
    c: {timeout: *long}
"""
    given, wrong = parse(text, "conf.yaml")
    careful = PluginSettings(fail_create=False, timeout=20)
    assert wrong == []
    assert given.legacy.plugins == {"a": careful, "b": careful, "c": PluginSettings(timeout=20)}


def test_a_mistake_behind_an_anchor_is_named_where_it_stands_for_each_use() -> None:
    text = "legacy:\n  plugins:\n    a: &x {timeout: soon}\n    b: *x\n"
    assert [error.split(": must")[0] for error in errors(text)] == [
        "conf.yaml:3: legacy.plugins.a.timeout",
        "conf.yaml:3: legacy.plugins.b.timeout",
    ]


def test_an_anchor_that_holds_itself_is_a_mistake_and_no_crash() -> None:
    for text in (
        "legacy: &a {plugins: *a}",
        "legacy: {environment: &a {x: *a}}",
        "legacy: {path: &a [*a]}",
        "&a {log: *a}",
    ):
        given, wrong = parse(text, "conf.yaml")
        assert wrong
        assert given._replace(legacy=given.legacy._replace(plugins={})) == DEFAULTS


def test_anchors_that_multiply_do_not() -> None:
    """A billion laughs; their text must not come out in a message either."""
    lines = ["legacy:", "  environment: &a0 {x: y}"]
    lines += [f"  path{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    given, wrong = parse("\n".join(lines), "conf.yaml")
    assert given.legacy.environment == {"x": "y"}
    assert max(len(str(error)) for error in wrong) < 500
