"""The schemas refuse what the parsers refuse, but for the differences that are wanted, which stand here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adapter
from adapter.base import gojson
from adapter.cli.check import faults
from adapter.errors import ConfigError
from adapter.hooks import model
from adapter.hooks.decode import HookError
from adapter.legacy import config, result

PACKAGE = Path(adapter.__file__).parent
RESULT_SCHEMA = "legacy/schemas/result.json"
SCHEMAS = (faults.HOOK_1_0_0, faults.HOOK_0_1_0, faults.CONF, RESULT_SCHEMA)
fuzzed = settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])


class Stricter(NamedTuple):
    """What only the schema refuses: Go makes do with it, but it does not do what its author thinks."""

    what: str
    example: bytes
    applies: Callable[[jsonschema.ValidationError], bool]


# Differences in what a key or a value is, which `as_go_sees_it` undoes: an unknown key is no key; a key may be written
# in another case; null is nothing, in a list or a map an empty text.
STRICTER = (
    Stricter(
        "an entry of the environment is KEY=VALUE",
        b'{"version": "1.0.0", "hook": {"path": "/x", "env": ["HOME"]}, "stages": []}',
        lambda error: _is_text(error, "env"),
    ),
)
UNKNOWN = b'{"hook": "/x", "stages": [], "hasBindMount": true}'
ANOTHER_CASE = b'{"hook": "/x", "Stages": []}'
NULL = b'{"hook": "/x", "stages": [], "cmds": null}'


def _is_text(error: jsonschema.ValidationError, *keys: str) -> bool:
    """Whether a text, under one of the keys, is not as it should be; no program can be started with a NUL in it."""
    return error.validator == "pattern" and not {*keys}.isdisjoint(error.path) and "\0" not in str(error.instance)


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
            model.parse(text, precreate=True)
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
    errors = list(faults.validator(schema).iter_errors(as_go_sees_it(data, whole, whole)))
    errors = [error for error in errors if not any(row.applies(error) for row in STRICTER)]
    reason = refusal(schema, json.dumps(data).encode())
    if any(re.search(part, reason) for part in BEYOND_A_SCHEMA):
        return
    assert bool(reason) == bool(errors), (reason, errors)


# Data that is mostly right: each value of its own kind four times out of five.

TEXTS = st.sampled_from(["", "/bin/true", "relative", "a=b", "=", "^x$", "(", "nul\0", "é\u2028", "0.1"])
ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 2), st.sampled_from([1.0, 1.5, 2**63, -(2**63) - 1]), TEXTS, st.just({}),
    st.just([]), st.lists(TEXTS, max_size=1), st.just([None]), st.just({"path": "/x"}),
)  # fmt: skip


def mostly(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 14).flatmap(lambda luck: right if luck else ANYTHING)


def lists(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return mostly(st.lists(mostly(of), max_size=3))


@st.composite
def objects(draw: st.DrawFn, /, **members: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Objects with most of the members, at times in another case, and at times with one that nobody knows."""
    data = {}
    for key, of in members.items():
        spelling = draw(st.sampled_from([key] * 12 + [key.title(), key.upper(), key.replace("s", "\u017f"), ""]))
        if spelling:
            data[spelling] = draw(of)
    if not draw(st.integers(0, 9)):
        data[draw(st.sampled_from(["unknown", "$schema", "//", "hooks"]))] = draw(ANYTHING)
    return data


STAGES = lists(st.sampled_from([*model.STAGES, "precreate", "prestart", "Prestart", ""]))
PATHS = st.sampled_from(["/bin/true"] * 5 + ["relative", "", "/nul\0"])
PATTERNS = st.sampled_from(["^x$", "", ".*", "(", "a|b"])
NOTHING: st.SearchStrategy[Any] = st.nothing()


def some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of the members."""
    chosen = st.sets(st.sampled_from(sorted(members)))
    return chosen.flatmap(lambda keys: objects(**{key: members[key] for key in sorted(keys)}))


NEW = objects(
    version=st.sampled_from(["1.0.0"] * 20 + ["1.0", None, 1]),
    hook=mostly(
        st.tuples(
            objects(path=mostly(PATHS)),
            some(
                args=lists(TEXTS), env=lists(st.sampled_from(["A=b", "A", "=b", "", "A=\0"])),
                timeout=mostly(st.sampled_from([-1, 0, 1, 10**9, 10**9 + 1, 2**63])),
            ),
        ).map(lambda parts: parts[0] | parts[1])
    ),
    when=mostly(
        some(
            always=mostly(st.booleans()), commands=lists(PATTERNS), hasBindMounts=mostly(st.booleans()),
            annotations=mostly(st.dictionaries(PATTERNS, mostly(PATTERNS), max_size=2)),
        )
    ),
    stages=STAGES,
)  # fmt: skip
OLD = st.tuples(
    objects(hook=mostly(PATHS), stages=STAGES),
    some(
        version=st.sampled_from(["0.1.0", "", "0.1.0", None, "0.2", 1]), arguments=lists(TEXTS), stage=STAGES,
        cmds=lists(PATTERNS), cmd=lists(PATTERNS), annotations=lists(PATTERNS), annotation=lists(PATTERNS),
        hasbindmounts=mostly(st.booleans()),
    ),
).map(lambda parts: parts[0] | parts[1])  # fmt: skip
TYPES = st.sampled_from(["konfine", "/opt/x", "a b", "", "nul\0"])
CONF = some(version=mostly(TEXTS), plugins=lists(objects(type=mostly(TYPES), conf=ANYTHING)))
RESULT = some(
    plugin=mostly(TEXTS), version=mostly(TEXTS), error=mostly(TEXTS), state=ANYTHING,
    metadata=mostly(st.dictionaries(TEXTS, mostly(TEXTS), max_size=2)),
)  # fmt: skip


def unambiguous(data: dict[str, Any]) -> bool:
    """Whether no key occurs twice in two spellings; what Go makes of these is the parsers' own affair."""
    return len({gojson.fold(key) for key in data}) == len(data)


@fuzzed
@given(NEW.filter(unambiguous))
def test_schema_and_parser_agree_on_hooks_of_version_1_0_0(data: Any) -> None:
    if data.get("version") is not None:  # otherwise it is of the old version
        agree(faults.HOOK_1_0_0, data)


@fuzzed
@given(OLD.filter(unambiguous))
def test_schema_and_parser_agree_on_hooks_of_version_0_1_0(data: Any) -> None:
    agree(faults.HOOK_0_1_0, data)


@fuzzed
@given(st.one_of(CONF, ANYTHING))
def test_schema_and_parser_agree_on_conf_json(data: Any) -> None:
    if data is not None:  # Go's nothing is an empty list
        agree(faults.CONF, data)


@fuzzed
@given(st.one_of(RESULT, ANYTHING))
def test_schema_and_parser_agree_on_results(data: Any) -> None:
    if data is not None:
        agree(RESULT_SCHEMA, data)


def new(**hook: object) -> dict[str, object]:
    return {"version": "1.0.0", "hook": {"path": "/x", **hook}, "stages": []}


EDGES: list[tuple[str, Any, bool]] = [
    (faults.HOOK_1_0_0, new(timeout=10**9), True),
    (faults.HOOK_1_0_0, new(timeout=10**9 + 1), False),
    (faults.HOOK_1_0_0, new(timeout=0), False),
    (faults.HOOK_1_0_0, new(path=""), False),
    (faults.HOOK_1_0_0, new(args=[]), True),
    (faults.HOOK_1_0_0, new() | {"version": "1.0.1"}, False),
    (faults.HOOK_0_1_0, {"hook": "/x", "stages": []}, True),
    (faults.HOOK_0_1_0, {"hook": "/x", "stage": [], "version": ""}, True),
    (faults.HOOK_0_1_0, {"hook": "/x", "stage": [], "version": "0.1.0"}, True),
    (faults.HOOK_0_1_0, {"hook": "/x", "stage": [], "version": "0.1"}, False),
    (faults.HOOK_0_1_0, {"hook": "/x", "stages": [], "stage": []}, False),
    (faults.HOOK_0_1_0, {"hook": "/x", "stages": [], "cmds": [], "cmd": []}, False),
    (faults.HOOK_0_1_0, {"hook": "/x", "stages": [], "annotations": [], "annotation": []}, False),
    (faults.CONF, {}, True),
    (faults.CONF, {"plugins": [{"type": "a"}, {"type": ""}]}, False),
    (RESULT_SCHEMA, {}, True),
    (RESULT_SCHEMA, {"state": "create", "id": "x", "pid": 7, "cgroupsPath": "/x"}, True),
    (RESULT_SCHEMA, {"metadata": {"a": 1}}, False),
]


def test_schema_and_parser_agree_at_the_edges() -> None:
    for schema, data, accepted in EDGES:
        assert (not refusal(schema, json.dumps(data).encode())) is accepted, data
        assert faults.validator(schema).is_valid(data) is accepted, data


def test_what_is_called_a_stricter_schema_or_beyond_one_is_that() -> None:
    for text in [*(row.example for row in STRICTER), UNKNOWN, ANOTHER_CASE, NULL, *BEYOND_A_SCHEMA.values()]:
        schema = faults.HOOK_1_0_0 if b"1.0.0" in text else faults.HOOK_0_1_0
        part = next((part for part, example in BEYOND_A_SCHEMA.items() if example == text), "^$")
        assert re.search(part, refusal(schema, text)), text
        assert bool(list(faults.validator(schema).iter_errors(json.loads(text)))) is (part == "^$"), text


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_schema_is_valid_itself_and_known_by_a_name_that_needs_no_host(schema: str) -> None:
    whole = json.loads((PACKAGE / schema).read_text())
    jsonschema.Draft202012Validator.check_schema(whole)
    assert whole["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert whole["$id"].startswith("urn:nri-v010-adapter:")


def test_every_schema_of_the_package_is_among_those_tested() -> None:
    assert {str(path.relative_to(PACKAGE)) for path in PACKAGE.glob("*/schemas/*.json")} == set(SCHEMAS)


def test_every_key_is_described_for_editors() -> None:
    for schema in SCHEMAS:
        whole = json.loads((PACKAGE / schema).read_text())
        assert not list(undescribed(whole, whole.get("$defs", {})))


def undescribed(schema: Any, definitions: Any) -> Iterator[str]:
    for key, of_key in schema.get("properties", {}).items():
        definition = definitions.get(of_key.get("$ref", "").removeprefix("#/$defs/"), {})
        if "description" not in {**definition, **of_key}:
            yield key
        yield from undescribed(of_key, definitions)
