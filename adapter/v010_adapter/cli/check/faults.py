"""Finds faults in a file with a JSON Schema, each with its line and column."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import jsonschema

import v010_adapter
from nri.errors import nearest
from v010_adapter.base import gojson
from v010_adapter.cli.check.report import NOTE, PROBLEM, Item
from v010_adapter.container_files.document import Path as ValuePath

HOOK_1_0_0 = "hooks/schemas/hook-1.0.0.json"
HOOK_0_1_0 = "hooks/schemas/hook-0.1.0.json"
CONF = "legacy/schemas/conf.json"

by_place = attrgetter("line", "column", "message")
"""Returns the sort key of the results for one file."""

_PLACEHOLDER = re.compile(r"\{\{.*?\}\}|@[A-Za-z_]\w*@|__(?!pycache|main|init)[A-Za-z]\w*?__", re.ASCII | re.DOTALL)
"""A placeholder of a template in one of the usual notations, but not a name of Python's own."""
_TYPES = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "a whole number",
    "object": "an object",
    "string": "a string",
}


def find(text: bytes, file: str, schema: str = "") -> list[Item]:
    """Returns the faults of a valid JSON text, from top to bottom. A fault that Go ignores is a note.

    Without `schema`, the text is a hook file, and its version decides on the schema. In a hook file, a placeholder
    that nobody has replaced is the only fault at its place.
    """
    try:
        data = json.loads(text.decode("utf-8", "replace"))
        unreplaced = {} if schema else dict(_placeholders(data, ()))
    except (ValueError, RecursionError):  # a value that Python cannot represent
        return [Item(NOTE, "larger or deeper than can be checked", file)]
    faults = [(path, f"{gojson.path_name(path)}: {reason}", PROBLEM) for path, reason in unreplaced.items()]
    for error in validator(schema or _schema_of_hook(data)).iter_errors(data):
        faults += [fault for fault in _faults(error) if fault[0] not in unreplaced]
    entries = {
        Item(status, message, file, *gojson.position(text, gojson.locate(text, path)))
        for path, message, status in faults
    }
    return sorted(entries, key=by_place)


def _placeholders(value: Any, path: ValuePath) -> Iterator[tuple[ValuePath, str]]:
    """Yields the path of each string with a placeholder, keys included, and what is wrong with it."""
    if isinstance(value, str) and (match := _PLACEHOLDER.search(value)):
        yield path, f"{match[0]} is a placeholder that nobody has replaced"
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in members:
        if isinstance(step, str):
            yield from _placeholders(step, (*path, step))
        yield from _placeholders(member, (*path, step))


def _schema_of_hook(data: Any) -> str:
    fields = {gojson.fold(key): value for key, value in data.items()} if isinstance(data, dict) else {}
    version = fields.get("version") or ""
    # A file without a version is an old one, unless its hook is an object: then the author forgot the version.
    old = version == "0.1.0" or (version == "" and not isinstance(fields.get("hook"), dict))
    return HOOK_0_1_0 if old else HOOK_1_0_0


@cache
def validator(schema: str) -> jsonschema.Draft202012Validator:
    path = Path(v010_adapter.__file__).parent / schema
    return jsonschema.Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


def _faults(error: Any) -> Iterator[tuple[ValuePath, str, str]]:
    """Yields the path, the message and the status of each fault in an error of jsonschema."""
    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        known, comments = error.schema["properties"], "|".join(error.schema["patternProperties"])
        for key in error.instance:
            if key not in known and not re.search(comments, key):
                yield ((*path, key), *_unknown_key((*path, key), key, list(known)))
    elif error.validator == "required":
        given = {gojson.fold(key) for key in error.instance}  # Go reads keys in any case
        for key in error.validator_value:
            if gojson.fold(key) not in given:
                yield path, f"{gojson.path_name((*path, key))} is missing", PROBLEM
    else:
        yield path, f"{gojson.path_name(path)}: {_reason(error)}" if path else _reason(error), PROBLEM


def _unknown_key(path: ValuePath, key: str, known: list[str]) -> tuple[str, str]:
    by_fold = {gojson.fold(spelling): spelling for spelling in known}
    if gojson.fold(key) in by_fold:
        return f"{gojson.path_name(path)} is read as {by_fold[gojson.fold(key)]!r}, but not by everybody", NOTE
    similar = nearest(gojson.fold(key), by_fold)
    hint = f"did you mean {by_fold[similar]!r}?" if similar else f"known here: {', '.join(known)}"
    return f"{gojson.path_name(path)} is unknown and ignored; {hint}", PROBLEM


def _reason(error: Any) -> str:
    if error.validator == "type":
        actual = json.dumps(error.instance)
        shown = actual if actual[0] in "-0123456789" else gojson.kind(actual.encode())
        return f"must be {_TYPES[error.validator_value]}, not {shown}"
    if error.validator == "enum":
        return f"{json.dumps(error.instance)} is none of {', '.join(filter(None, error.validator_value))}"
    if error.validator == "const":
        return f"must be {error.validator_value!r}"
    return str(error.schema.get("errorMessage", error.message))
