"""What a JSON Schema finds wrong with a file, in words, each with its line and column."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema

import adapter
from adapter import gojson
from adapter.describe.document import Path as Steps
from adapter.describe.document import name

HOOK_1_0_0 = "hooks/schemas/hook-1.0.0.json"
HOOK_0_1_0 = "hooks/schemas/hook-0.1.0.json"
CONF = "legacy/schemas/conf.json"
RESULT = "legacy/schemas/result.json"

_TYPES = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "a whole number",
    "object": "an object",
    "string": "a string",
}


class Fault(NamedTuple):
    """Something wrong at a place. `tolerated`: those who read the file as Go does make nothing of it."""

    line: int
    column: int
    message: str
    tolerated: bool = False


def find(text: bytes, schema: str) -> list[Fault]:
    """Returns what the schema finds wrong with a valid JSON text, from its top to its end."""
    try:
        data = load(text)
    except (ValueError, RecursionError):
        return [Fault(0, 0, "larger or deeper than can be checked", tolerated=True)]
    found = dict.fromkeys(
        fault for error in validator(schema).iter_errors(data) for fault in _faults(error, text)
    )  # a dict, for what is missing is reported as often as something is
    return sorted(found)


def find_in_hook(text: bytes) -> list[Fault]:
    """Returns what the schema of its version finds wrong with a hook file, which is valid JSON."""
    try:
        data = load(text)
        given = {gojson.fold(key): value for key, value in data.items()}
    except (ValueError, RecursionError, AttributeError):  # no object
        given = {}
    version = given.get("version") or ""
    # Without a version it is old, unless it looks new and its author has but forgotten it.
    old = version == "0.1.0" or (version == "" and not isinstance(given.get("hook"), dict))
    return find(text, HOOK_0_1_0 if old else HOOK_1_0_0)


def load(text: bytes) -> Any:
    """Returns what a valid JSON text holds. Raises ValueError and RecursionError for what Python cannot hold."""
    return json.loads(text.decode("utf-8", "replace"))


@cache
def validator(schema: str) -> jsonschema.Draft202012Validator:
    """Returns the validator of one of the schemas above."""
    path = Path(adapter.__file__).parent / schema
    return jsonschema.Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


def _faults(error: Any, text: bytes) -> Iterator[Fault]:
    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        for key in _unknown(error):
            yield _unknown_key(text, (*path, key), list(error.schema["properties"]))
    elif error.validator == "required":
        # Go reads keys without case.
        given = {gojson.fold(key) for key in error.instance}
        for key in error.validator_value:
            if gojson.fold(key) not in given:
                yield _fault(text, path, f"{name((*path, key))} is missing")
    else:
        yield _fault(text, path, f"{name(path)}: {_reason(error)}" if path else _reason(error))


def _unknown(error: Any) -> list[str]:
    known, comments = error.schema["properties"], list(error.schema["patternProperties"])
    return [key for key in error.instance if key not in known and not any(re.search(one, key) for one in comments)]


def _unknown_key(text: bytes, path: Steps, known: Sequence[str]) -> Fault:
    key = str(path[-1])
    by_fold = {gojson.fold(one): one for one in known}
    if gojson.fold(key) in by_fold:
        spelt = by_fold[gojson.fold(key)]
        return _fault(text, path, f"{name(path)} is read as {spelt!r}, but not by everybody")._replace(tolerated=True)
    similar = difflib.get_close_matches(gojson.fold(key), by_fold, n=1)
    meant = f"; did you mean {by_fold[similar[0]]!r}?" if similar else f"; known here: {', '.join(known)}"
    return _fault(text, path, f"{name(path)} is unknown and ignored{meant}")


def _reason(error: Any) -> str:
    if error.validator == "type":
        return f"must be {_TYPES[error.validator_value]}, not {_kind(error.instance)}"
    if error.validator == "enum":
        return f"{json.dumps(error.instance)} is none of {', '.join(filter(None, error.validator_value))}"
    if error.validator == "const":
        return f"must be {error.validator_value!r}"
    return str(error.schema.get("errorMessage", error.message))


def _kind(value: Any) -> str:
    names: dict[type, str] = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        type(None): "null",
    }
    return names.get(type(value), f"{value}")


def _fault(text: bytes, path: Steps, message: str) -> Fault:
    return Fault(*gojson.position(text, gojson.locate(text, path)), message)
