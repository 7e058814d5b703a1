"""What stands in a line of the log: one record, whatever it holds and whoever has written it."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nri.syslog import CUT
from v010_adapter.monitoring.logs import LineFormatter

FORGED = "2026-01-01 00:00:00,000 ERROR forged"
CONTROLS = "\n\r\0\x0b\x0c\x1b\x7f\x85\x9b\u2028\u2029\u202e\udcff"
HIDDEN = '{"env": ["A=***"]}'


def record(text: object, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("test", logging.WARNING, __file__, 1, text, arguments, None)
    if fields:
        made.fields = fields
    return made


def failed(error: BaseException) -> logging.LogRecord:
    """A record of an exception that was raised."""
    made = record("failed")
    try:
        raise error
    except type(error):
        made.exc_info = sys.exc_info()
    return made


def as_json(made: logging.LogRecord, **options: Any) -> dict[str, Any]:
    line = LineFormatter(**options, as_json=True).format(made)
    assert line.isascii()
    assert line.isprintable()
    decoded = json.loads(line, parse_constant=pytest.fail)
    assert isinstance(decoded, dict)
    return decoded


def as_text(made: logging.LogRecord, **options: Any) -> str:
    return LineFormatter(**options, head=False).format(made)


# ---- a record is a line


@given(st.text(), st.text())
@example(f"no{CONTROLS}{FORGED}", "\ud800")
def test_whatever_a_record_says_it_is_one_line(message: str, field: str) -> None:
    made = record("%s: %s", "konfine", message, plugin=field)
    assert as_text(made) == f"konfine: {''.join(c if c.isprintable() else ascii(c)[1:-1] for c in message)}"
    said = {"level": "warning", "message": f"konfine: {message}", "plugin": field}
    assert as_json(made) | {"time": ""} == {"time": "", **said}


def test_a_record_has_time_and_level(monkeypatch: pytest.MonkeyPatch) -> None:
    made = record("hello", us=12)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S* WARNING hello", LineFormatter().format(made))
    made.created, made.msecs = 1_700_000_000.0426, 42.0
    expected = {"time": "2023-11-14T22:13:20.042Z", "level": "warning", "message": "hello", "us": 12}
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "ELSEWHERE-5")
        time.tzset()
        told = as_json(made)
    time.tzset()
    assert told == expected, "RFC 3339, whatever the time zone"


def test_a_record_of_a_traced_event_names_the_trace_also_where_the_line_is_cut() -> None:
    for made in (record("a: %s", "b"), record("%s", "x" * 10_000)):
        untraced, message = as_text(made, limit=200), made.getMessage()
        assert "trace_id" not in as_json(made)
        made.trace_id = "0af7\n"
        assert as_text(made, limit=200)[:30] == rf"trace_id=0af7\n {untraced}"[:30]
        assert as_json(made)["trace_id"] == "0af7\n"
        assert as_json(made)["message"] == message


# ---- tracebacks


def test_a_traceback_keeps_its_lines_none_of_which_looks_like_a_record_and_json_has_it_in_one() -> None:
    later = RuntimeError(f"late\n{FORGED}\r{FORGED}\x1b[2J")
    later.__cause__ = KeyError(f"early\n{FORGED}")
    later.add_note(f"a note\n{FORGED}")
    lines = as_text(failed(later)).split("\n")
    assert lines[0] == "failed"
    assert all(line.startswith("    ") for line in lines[1:])
    said = ["RuntimeError: late", rf"{FORGED}\r{FORGED}\x1b[2J", "a note", FORGED]
    assert lines[-4:] == [f"    {line}" for line in said]
    assert all(map(str.isprintable, lines))
    in_json = as_json(failed(ValueError("first\nsecond")))["traceback"]
    assert re.fullmatch(
        r"Traceback \(most recent call last\):\n  File .*\nValueError: first\nsecond", in_json, re.DOTALL
    )


# ---- whatever is in it


class Bomb:
    def __str__(self) -> str:
        raise RuntimeError("boom")


LOOP: list[Any] = []
LOOP.append(LOOP)
DEEP: Any = []
for _ in range(100_000):
    DEEP = [DEEP]


def test_a_record_that_cannot_be_written_is_replaced_by_one_that_says_so() -> None:
    unwritable: list[tuple[Any, tuple[object, ...], str]] = [
        *(("%s %s", ("one",), "TypeError"), ("%d", ("x",), "TypeError")),
        *(("%s", (Bomb(),), "RuntimeError"), (Bomb(), (), "RuntimeError")),
    ]
    for text, arguments, error in unwritable:
        what = text if isinstance(text, str) else "Bomb"
        expected = f"a record cannot be written ({error} at test_log_lines.py:1): {what}"
        made = record(text, *arguments, plugin="p")
        assert as_text(made) == expected
        assert (as_json(made)["message"], as_json(made)["level"]) == (expected, "warning")
    for value in (LOOP, DEEP, Bomb(), 10**5000, float("inf"), {1}):
        assert as_json(record("hello %s", "you", spec=value))["message"].endswith(": hello %s")
        assert as_text(record("hello %s", "you", spec=value)) == "hello you", "text does without the fields"


# ---- secrets


def test_json_among_the_arguments_is_shown_without_the_values_of_variables_unless_secrets_are_shown() -> None:
    made = record("request: %s, result: %s", b'{"env":["A=hunter2"]}', b"A=hunter2\n", stdout=b'{"env":["A=hunter2"]}')
    assert as_text(made) == f'request: {HIDDEN}, result: "(10 bytes)"'
    assert "hunter2" not in LineFormatter(as_json=True).format(made)
    assert as_json(made)["stdout"] == {"env": ["A=***"]}
    assert as_text(made, secrets=True) == r'request: {"env": ["A=hunter2"]}, result: "A=hunter2\n"'
    assert as_json(made, secrets=True)["stdout"] == {"env": ["A=hunter2"]}


# ---- length

# A high surrogate without a low one: JSON makes one character of a pair.
CHARACTERS = st.characters(exclude_categories=["Cs"]) | st.sampled_from('x"\\\n\u2028\U0001f600\ud800')
LONG = st.text(CHARACTERS, min_size=1, max_size=40).map(lambda text: text * 500)


@given(LONG, LONG, st.integers(1000, 9000))
@example("x" * 5000, '"' * 5000, 1000)
@example("\U0001f600" * 5000, "\ud800" * 5000, 1001)
def test_a_line_is_no_longer_than_it_may_be_and_json_stays_json(message: str, field: str, limit: int) -> None:
    made = record("%s", message, plugin="p", result={"metadata": {"a": field}}, stdout=json.dumps([field]).encode())
    line = LineFormatter(limit, as_json=True).format(made)
    assert len(line) <= limit
    data = json.loads(line)
    assert message.startswith(data["message"].removesuffix(CUT))
    assert (data["level"], data["plugin"]) == ("warning", "p")
    text = LineFormatter(limit).format(made)
    assert len(text.encode()) <= limit


def test_only_what_is_too_long_is_shortened_and_no_more_than_needed() -> None:
    made = record("%s", "x" * 10_000, result={"error": "no"}, stdout="y" * 500, stderr="z" * 500)
    line = LineFormatter(2000, as_json=True).format(made)
    assert 1000 < len(line) <= 2000
    assert [json.loads(line)[key] for key in ("result", "stdout")] == [{"error": "no"}, "y" * 500]
    data = as_json(record("hello", request={"a": "x" * 10_000}), limit=2000)
    assert re.fullmatch(f'{{"a": "x+{CUT}', data["request"])
    assert data["message"] == "hello"
    assert len(LineFormatter().format(made)) > 10_000, "without a limit"
    for text, told in (("x" * 10, "x" * 10), ("x" * 11, f"{'x' * 7}{CUT}")):
        assert as_text(record(text), limit=10) == told
    head, *_, last = as_text(failed(ValueError("x" * 10_000)), limit=1000).split("\n")
    assert (head, len(last.encode()), last[-2:]) == ("failed", 1000, f"x{CUT}"), "each line by itself"
