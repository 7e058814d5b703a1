"""The schemas refuse what the parsers refuse, but for the differences that are wanted, which stand here."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema

import v010_adapter
from v010_adapter.cli.check import faults
from v010_adapter.errors import ConfigError
from v010_adapter.hooks.decode import HookError
from v010_adapter.hooks.model import PRECREATE, STAGES, parse
from v010_adapter.legacy import config, result

PACKAGE = Path(v010_adapter.__file__).parent
RESULT_SCHEMA = "legacy/schemas/result.json"
# What only the schema refuses: Go makes do with it, but it does not do what its author thinks.
STRICTER = [
    b'{"version": "1.0.0", "hook": {"path": "/x", "env": ["HOME"]}, "stages": []}',  # which is no KEY=VALUE
    b'{"hook": "/x", "stages": [], "hasBindMount": true}',
    b'{"hook": "/x", "Stages": []}',
    b'{"hook": "/x", "stages": [], "cmds": null}',
]


def is_stricter(error: jsonschema.ValidationError) -> bool:
    """Whether a key is unknown, or an entry of the environment no KEY=VALUE; no program can get a NUL."""
    is_no_variable = error.validator == "pattern" and "env" in error.path and "\0" not in str(error.instance)
    return error.validator == "additionalProperties" or is_no_variable


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


TEXTS = ["", "/", "/x", "x", "a/b", "a=b", "=", "^x$", "nul\0", "/nul\0", "a=\0", "é\u2028", "0.1", "Prestart"]
VALUES = [False, {}, [], -1, 0, 1, 10**9, 10**9 + 1, 2**63, 1.5, *TEXTS, [[]], [5], {"path": "/x"}, {"a": 5}]
OLD = {"hook": "/x", "arguments": ["a"], "stages": ["prestart"], "cmds": ["a"], "annotations": ["a"]}
PROGRAM = {"path": "/x", "args": ["a"], "env": ["A=b"], "timeout": 5}
WHEN = {"always": True, "annotations": {"a": "b"}, "commands": ["a"], "hasBindMounts": True}
# fmt: off
WHOLE: list[tuple[str, dict[str, Any]]] = [
    (faults.HOOK_1_0_0, {"version": "1.0.0", "hook": PROGRAM, "when": WHEN, "stages": [*STAGES, PRECREATE]}),
    (faults.HOOK_0_1_0, OLD | {"version": "0.1.0", "hasbindmounts": True, "stages": [*STAGES, PRECREATE]}),
    (faults.HOOK_0_1_0, {"hook": "/x", "stage": ["prestart"], "cmd": ["a"], "annotation": ["a"]}),
    *((faults.HOOK_0_1_0, OLD | {name: []}) for name in ("stage", "cmd", "annotation")),
    (faults.CONF, {"version": "0.1", "plugins": [{"type": "a", "conf": 5}, {"type": "/a"}]}),
    # What a result's parser leaves to whoever uses it is not here.
    (RESULT_SCHEMA, {"plugin": "a", "version": "0.1", "error": "a", "metadata": {"a": "b"}}),
]
# fmt: on
SCHEMAS = {schema for schema, _ in WHOLE}


def changed(value: Any) -> Iterator[Any]:
    """Yields other values, and the value with each part of it changed or left out."""
    yield from VALUES
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, part in parts:
        for other in changed(part):
            made = copy.copy(value)
            made[place] = other
            yield made
        made = copy.copy(value)
        del made[place]
        yield made


def test_schema_and_parser_agree() -> None:
    for schema, whole in WHOLE:
        for data in (whole, *changed(whole)):
            errors = [error for error in faults.validator(schema).iter_errors(data) if not is_stricter(error)]
            assert bool(errors) == bool(refusal(schema, json.dumps(data).encode())), (schema, data)


def test_what_is_called_a_stricter_schema_or_beyond_one_is_that() -> None:
    rows = [*(("^$", text) for text in STRICTER), *BEYOND_A_SCHEMA.items()]
    for reason, text in rows:
        schema = faults.HOOK_1_0_0 if b"1.0.0" in text else faults.HOOK_0_1_0
        assert re.search(reason, refusal(schema, text)), text
        assert faults.validator(schema).is_valid(json.loads(text)) is (reason != "^$"), text


def test_each_schema_of_the_package_is_tested_valid_itself_and_known_by_a_name_that_needs_no_host() -> None:
    assert {str(path.relative_to(PACKAGE)) for path in PACKAGE.glob("*/schemas/*.json")} == SCHEMAS
    for schema in SCHEMAS:
        whole = json.loads((PACKAGE / schema).read_text())
        jsonschema.Draft202012Validator.check_schema(whole)
        assert whole["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert whole["$id"].startswith("urn:nri-v010-adapter:")
