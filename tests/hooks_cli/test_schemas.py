"""The schemas refuse what the parsers refuse, but for the differences that are wanted, which stand here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import v010_adapter
from v010_adapter.base import gojson
from v010_adapter.cli.check import faults
from v010_adapter.errors import ConfigError
from v010_adapter.hooks.decode import HookError
from v010_adapter.hooks.model import parse
from v010_adapter.legacy import config, result

PACKAGE = Path(v010_adapter.__file__).parent
RESULT_SCHEMA = "legacy/schemas/result.json"
# What only the schema refuses: Go makes do with it, but it does not do what its author thinks. `as_go_sees_it` undoes
# three of these differences: an unknown key is no key, a key may be in another case, and null is nothing.
STRICTER = [
    b'{"version": "1.0.0", "hook": {"path": "/x", "env": ["HOME"]}, "stages": []}',  # which is no KEY=VALUE
    b'{"hook": "/x", "stages": [], "hasBindMount": true}',
    b'{"hook": "/x", "Stages": []}',
    b'{"hook": "/x", "stages": [], "cmds": null}',
]


def is_no_variable(error: jsonschema.ValidationError) -> bool:
    """Whether an entry of the environment is no KEY=VALUE; no program can be started with a NUL in it."""
    return error.validator == "pattern" and "env" in error.path and "\0" not in str(error.instance)


# What only the parser refuses, for a schema cannot say it: by a pattern for the reason.
BEYOND_A_SCHEMA = {
    "the pattern ": b'{"hook": "/x", "stages": [], "cmds": ["("]}',
    # JSON Schema counts these as whole numbers.
    r"must be a whole number, not -?\d": (
        b'{"version": "1.0.0", "hook": {"path": "/x", "timeout": 1.0}, "stages": []}'
    ),
}


def refusal(schema: str, text: bytes) -> str:
    """Why the parser refuses a text, empty if it does not."""
    try:
        if schema == faults.CONF:
            config.parse(text, "conf.json")
        elif schema == RESULT_SCHEMA:
            result.parse(text)
        else:
            parse(text, precreate=True)
    except (ConfigError, HookError, result.ResultError) as error:
        return str(error)
    return ""


def as_go_sees_it(data: Any, schema: Any, whole: Any) -> Any:
    """The data without null, unknown keys, and with the known ones spelt as they are known."""
    while "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if isinstance(data, dict) and "properties" in schema:
        known = {gojson.fold(key): key for key in schema["properties"]}
        spelt = {known[gojson.fold(key)]: value for key, value in data.items() if gojson.fold(key) in known}
        of = schema["properties"]
        return {key: as_go_sees_it(value, of[key], whole) for key, value in spelt.items() if value is not None}
    if isinstance(data, dict) and isinstance(schema.get("additionalProperties"), dict):
        return {key: "" if value is None else value for key, value in data.items()}
    if isinstance(data, list) and "items" in schema:
        nothing: Any = {} if schema["items"].get("type") == "object" else ""
        return [nothing if each is None else as_go_sees_it(each, schema["items"], whole) for each in data]
    return data


def agree(schema: str, data: Any) -> None:
    """Asserts that schema and parser are of one mind about some data, differences aside."""
    whole = json.loads((PACKAGE / schema).read_text())
    found = faults.validator(schema).iter_errors(as_go_sees_it(data, whole, whole))
    errors = [error for error in found if not is_no_variable(error)]
    reason = refusal(schema, json.dumps(data).encode())
    if any(re.search(part, reason) for part in BEYOND_A_SCHEMA):
        return
    assert bool(reason) == bool(errors), (reason, errors)


TEXTS = st.sampled_from(["", "/bin/true", "relative", "a=b", "=", "^x$", "(", "nul\0", "é\u2028", "0.1", "Prestart"])
NUMBERS = st.sampled_from([-1, 0, 1, 10**9, 10**9 + 1, 2**63, -(2**63) - 1, 1.0, 1.5])
SMALL: list[Any] = [None, False, True, {}, [], [None], {"path": "/x"}]
ANYTHING = st.one_of(st.sampled_from(SMALL), NUMBERS, TEXTS, st.lists(TEXTS, max_size=1))


@st.composite
def described(draw: st.DrawFn, schema: Any, whole: Any) -> Any:
    """Data as a schema has it, but for one value in fifteen.

    Keys are at times in another case, and at times there is one that nobody knows.
    """
    while "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    kind = schema.get("type")
    if not draw(st.integers(0, 14)):
        return draw(ANYTHING)
    if "enum" in schema or "const" in schema:
        return draw(st.sampled_from(schema.get("enum") or [schema["const"]]))
    if "properties" in schema:
        data = {}
        for key, of in schema["properties"].items():
            if draw(st.integers(0, 14)) > (0 if key in schema.get("required", ()) else 8):
                spellings = [key] * 12 + [key.title(), key.upper(), key.replace("s", "\u017f")]
                data[draw(st.sampled_from(spellings))] = draw(described(of, whole))
        if not draw(st.integers(0, 9)):
            data[draw(st.sampled_from(["unknown", "$schema", "//", "hooks"]))] = draw(ANYTHING)
        return data
    if kind == "object":
        return draw(st.dictionaries(TEXTS, described(schema.get("additionalProperties", {}), whole), max_size=2))
    if kind == "array":
        return draw(st.lists(described(schema["items"], whole), max_size=3))
    return draw({"boolean": st.booleans(), "integer": NUMBERS, "string": TEXTS}.get(kind, ANYTHING))


SCHEMAS = (faults.HOOK_1_0_0, faults.HOOK_0_1_0, faults.CONF, RESULT_SCHEMA)


@pytest.mark.parametrize("schema", SCHEMAS)
@given(data=st.data())
@settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])
def test_schema_and_parser_agree(schema: str, data: st.DataObject) -> None:
    whole = json.loads((PACKAGE / schema).read_text())
    for name in ("spec", "adjust", "updates"):  # which a result's parser leaves to whoever uses them
        whole["properties"].pop(name, None)
    drawn = data.draw(described(whole, whole))
    # Go's nothing is an empty file; what Go makes of a key in two spellings is the parsers' own affair; and without a
    # version a hook's is of the old one.
    assume(drawn is not None and not (isinstance(drawn, dict) and len(set(map(gojson.fold, drawn))) < len(drawn)))
    assume(schema != faults.HOOK_1_0_0 or (isinstance(drawn, dict) and drawn.get("version") not in (None, "")))
    agree(schema, drawn)


def test_what_is_called_a_stricter_schema_or_beyond_one_is_that() -> None:
    rows = [*(("^$", text) for text in STRICTER), *BEYOND_A_SCHEMA.items()]
    for reason, text in rows:
        schema = faults.HOOK_1_0_0 if b"1.0.0" in text else faults.HOOK_0_1_0
        assert re.search(reason, refusal(schema, text)), text
        assert faults.validator(schema).is_valid(json.loads(text)) is (reason != "^$"), text


def test_each_schema_of_the_package_is_tested_valid_itself_and_known_by_a_name_that_needs_no_host() -> None:
    assert {str(path.relative_to(PACKAGE)) for path in PACKAGE.glob("*/schemas/*.json")} == {*SCHEMAS}
    for schema in SCHEMAS:
        whole = json.loads((PACKAGE / schema).read_text())
        jsonschema.Draft202012Validator.check_schema(whole)
        assert whole["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert whole["$id"].startswith("urn:nri-v010-adapter:")
