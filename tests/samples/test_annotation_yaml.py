"""The YAML that two of the samples read: what they understand they understand as PyYAML does, the rest they refuse."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from .plugins import SAMPLES, code, event

INJECTOR, ADJUSTER = (code(plugin) for plugin in ("device-injector", "ulimit-adjuster"))
load = INJECTOR["load"]
PIECES = (
    *("a", "b: ", "key", ": ", ":", "- ", "-", "\n", "\n  ", "\n    ", " ", "  ", "#", " #", ",", ", ", "[", "]", "{"),
    *("}", "'", "''", '"', "\\", "\\n", "\\u00e9", "|", ">", "&a", "*a", "!", "%", "@", "`", "?", "? ", "<<", "=", "é"),
    *("1", "-1", "+", "0", "010", "08", "0x1f", "0o7", "0b1", "1_000", "1.5", ".", "1e3", "1:30", ".inf", "2001-01-01"),
    *("~", "null", "true", "yes", "Off", "y", "---", "...", "/dev/null", "ens2.100", "0-3", "2,3", "v.com/d=0", "\r\n"),
)  # fmt: skip
TEXT = st.text(st.sampled_from("ab1 :-#,'\"[]{}é/=.0~%"), max_size=6)
VALUES = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXT, values, max_size=3),
    max_leaves=8,
)


def as_pyyaml(text: str) -> None:
    try:
        value = load(text)
    except (ValueError, RecursionError):
        return
    assert json.dumps(value) == json.dumps(yaml.safe_load(text))


UNDERSTOOD = {
    "- a\n- b: c\n  d: 1\n": ["a", {"b": "c", "d": 1}],
    "a:\n- b\n-\n  c: ~\nd:\n  - [e, 'it''s', \"f # g\"]": {"a": ["b", {"c": None}], "d": [["e", "it's", "f # g"]]},
    "# a\n- # b\n  c: # d\n    e # f\n\n-\n": [{"c": "e"}, None],
    "- - -1\n  - 010\n- {a: /b c, d: [e#f, g:h]}\r\n": [[-1, 8], {"a": "/b c", "d": ["e#f", "g:h"]}],
    '\n[{"a": "\\u00e9\\"",\n  b: null}]\n': [{"a": 'é"', "b": None}],
    "a": "a",
    "": None,
}
BEYOND = (
    *("a: &x b", "a: *x", "a: !!str b", "a: |\n  b", "a: b\n  c", "a: 'b\n  c'", "%YAML 1.1\n--- a", "\ta: b"),
    *("a: y", "a: N"),
)


def test_lists_and_mappings_are_understood_in_all_their_usual_forms_and_what_is_beyond_is_refused() -> None:
    for text, value in UNDERSTOOD.items():
        assert load(text) == value == yaml.safe_load(text)
    for text in BEYOND:
        with pytest.raises(ValueError, match=r"\w"):
            load(text)


def test_both_samples_have_the_same_reader() -> None:
    texts = [(SAMPLES / plugin).read_text() for plugin in ("device-injector", "ulimit-adjuster")]
    first, second = (
        text.partition("# --- The part of YAML")[2].partition('\n\n\nif __name__ == "__main__":')[0] for text in texts
    )
    assert first == second
    assert "def load(" in first


@settings(max_examples=1000)
@example("a:\n- b\n- c: 1\n  d: [x, {y: 'it''s'}]\n# end")
@example("- a: b # c\n-\n- - d\n  - e\n- # f\n  g: h")
@example('- "a # b": [ c d,\n  -1 ]')
@example("- a\n -b")
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_what_is_understood_is_understood_as_pyyaml_does(text: str) -> None:
    as_pyyaml(text)


@settings(max_examples=300)
@given(VALUES, st.sampled_from([True, False, None]))
def test_what_pyyaml_writes_is_understood_as_pyyaml_does(value: object, style: bool | None) -> None:
    as_pyyaml(yaml.safe_dump(value, default_flow_style=style, width=10**6, allow_unicode=True))


KEYS = {
    "ulimits.noderesource.dev/container.web": ADJUSTER,
    **{f"{kind}.noderesource.dev/pod": INJECTOR for kind in INJECTOR["ANNOTATIONS"]},
}


@settings(max_examples=500)
@given(
    st.sampled_from(sorted(KEYS)),
    st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | VALUES.map(json.dumps),
)
@example("sysctl.noderesource.dev/pod", "[" * 10_000)
@example("devices.noderesource.dev/pod", "- " * 10_000)
@example("ulimits.noderesource.dev/container.web", "- hard: " + "9" * 5000)
def test_any_annotation_gets_a_result_or_an_error_that_names_it(key: str, annotation: str) -> None:
    try:
        result = KEYS[key]["invoke"](event({key: annotation}))
    except ValueError as problem:
        assert str(problem).startswith(f"annotation {key}: ")  # noqa: PT017 - either is fine
    else:
        assert json.loads(json.dumps(result))["metadata"].keys() == {"adjusted"}
