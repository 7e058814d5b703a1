"""Text from plugins and pods is shown on one line, without control characters and values of variables."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nri.text import printable
from v010_adapter.monitoring.sanitize import MAX_TEXT, for_log

ODD = [0x2028, 0x2029, 0x200E, 0x202E, 0xD800, 0xDFFF, 0xFEFF]
DANGEROUS = [chr(code) for code in [*range(32), *range(127, 160), *ODD]]


def test_what_moves_a_cursor_or_ends_a_line_is_escaped_and_what_can_be_printed_stays() -> None:
    for character in DANGEROUS:
        escaped = printable(f"a{character}é")
        assert escaped.isprintable()
        assert escaped == f"a{ascii(character)[1:-1]}é"
    for text in ("", "plain", "é 日本 \U0001f600", "a\\nb"):
        assert printable(text) == text


# ---- JSON


def test_json_text_is_decoded_to_what_json_has_a_place_for() -> None:
    texts: dict[bytes, Any] = {
        **{b"1e400": "1e400", b"-1e400": "-1e400", b"NaN": "NaN", b"1.50": 1.5, b"null": None, b"[[],{}]": [[], {}]},
        **{b"12345678901234567890123": 12345678901234567890123, b'"\\ud83d\\ude00"': "\U0001f600"},
        b'{"a":"x\ny"}': {"a": "x\ny"},
    }
    for text, decoded in texts.items():
        assert for_log(text) == for_log(text, secrets=True) == decoded
        json.dumps(for_log(text), allow_nan=False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4),
    max_leaves=12,
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_anything_can_be_logged_and_what_cannot_be_looked_into_is_its_length(text: bytes) -> None:
    shown, hidden = for_log(text, secrets=True), for_log(text)
    assert b"env" in text.lower() or b'"' in text or hidden in (shown, f"({len(text)} bytes)")
    assert json.loads(json.dumps([shown, hidden], allow_nan=False)) == [shown, hidden]


@given(JSON)
def test_with_secrets_values_stay_what_they_were(value: Any) -> None:
    assert for_log(json.dumps(value).encode(), secrets=True) == value


# ---- secrets

VALUE = "hunter2"
VARIABLES = {"env": [f"A={VALUE}"]}
PLACES: list[Any] = [
    {"env": [f"A={VALUE}", "B="]},
    {"Env": [f"A={VALUE}"]},
    {"spec": {"process": {"env": [f"A={VALUE}=x={VALUE}", f"={VALUE}"], "args": ["x"]}}},
    {"container": {**VARIABLES, "hooks": {"poststop": [VARIABLES]}}},
    {"env": [{"key": "A", "value": VALUE}, {"name": {"deep": VALUE}, "other": [VALUE], "Value": VALUE}]},
    {"env": {"A": VALUE, "name": VALUE, "B": {"C": VALUE}}},
    {"env": VALUE},
    {"env": [[VALUE], f"A={VALUE}", 5, None, True]},
    [[{"a": [VARIABLES]}]],
    {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(VARIABLES)}},
    json.dumps(json.dumps(VARIABLES)),
    {"results": [{"metadata": {"echo": " " + json.dumps([VARIABLES])}}]},
]


def shown(value: Any) -> Any:
    """Returns what the log shows of a value's JSON without secrets."""
    return for_log(json.dumps(value).encode())


def test_no_value_of_a_variable_is_shown_wherever_it_stands() -> None:
    texts = [json.dumps(value).encode() for value in PLACES]
    for text in (*texts, b'{"env": ["A=hunter2"], "env": ["B=hunter2"]}'):
        escaped = text.replace(b"env", b"\\u0065nv").replace(b"Env", b"\\u0045nv")
        lone = text.replace(VALUE.encode(), VALUE.encode() + b"\\ud800")
        for form in (text, escaped, lone, b" " + text + b"\n"):
            assert VALUE not in json.dumps(for_log(form)), form
            assert VALUE in json.dumps(for_log(form, secrets=True))


def test_the_names_are_shown_and_what_is_no_variable_stays() -> None:
    request = {"env": ["A=1", "B", "C=", {"key": "D", "value": "2"}, {"name": "E", "value": None}], "args": ["A=1"]}
    hidden = ["A=***", "B", "C=", {"key": "D", "value": "***"}, {"name": "E", "value": "***"}]
    assert shown(request) == {"env": hidden, "args": ["A=1"]}
    assert shown({"env": {"F": "3"}}) == {"env": {"F": "***"}}
    odd = {"env": ["", 4, None], "a": [{"env": "G=4"}, {"env": ""}]}
    assert shown(odd) == {"env": ["", "***", None], "a": [{"env": "***"}, {"env": ""}]}, "that there is one can be seen"
    others = {"environment": ["A=1"], "env ": ["A=1"], "a": {"ENVS": "A=1"}, "json": '["b", 1.0]', "text": "{not json"}
    assert shown(others) == others


LONGEST, LONG = (b'["%s"]' % (b"x" * (size - 4)) for size in (MAX_TEXT, MAX_TEXT + 1))
DEEP = b"[" * 9_999 + b"]" * 9_999


def test_json_that_takes_long_to_look_into_and_text_that_is_no_json_are_left_out() -> None:
    long = (DEEP, b'{"a": %s}' % json.dumps(DEEP.decode()).encode(), LONG)
    for text in (*long, b'{"env": ["A=hunter2"', b"A=hunter2", b'{"env": ["A=hunter2"]} and more', b"\xc3\xbf"):
        assert for_log(text) == f"({len(text)} bytes)"
    assert for_log(b"") == ""
    assert for_log(LONGEST) == json.loads(LONGEST)
