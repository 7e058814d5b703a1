"""The schemas refuse what the parsers refuse, but for the differences that are wanted, which stand here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

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
    found = faults.validator(schema).iter_errors(as_go_sees_it(data, whole, whole))
    errors = [error for error in found if not is_no_variable(error)]
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


KINDS = {
    # Without a version a file is of the old one.
    faults.HOOK_1_0_0: NEW.filter(unambiguous).filter(lambda data: data.get("version") is not None),
    faults.HOOK_0_1_0: OLD.filter(unambiguous),
    # Go's nothing is an empty list, and an empty result.
    faults.CONF: st.one_of(CONF, ANYTHING).filter(lambda data: data is not None),
    RESULT_SCHEMA: st.one_of(RESULT, ANYTHING).filter(lambda data: data is not None),
}


@pytest.mark.parametrize("schema", KINDS)
@given(data=st.data())
@settings(deadline=None, max_examples=500, suppress_health_check=[HealthCheck.too_slow])
def test_schema_and_parser_agree(schema: str, data: st.DataObject) -> None:
    agree(schema, data.draw(KINDS[schema]))


def test_what_is_called_a_stricter_schema_or_beyond_one_is_that() -> None:
    rows = [*(("^$", text) for text in STRICTER), *BEYOND_A_SCHEMA.items()]
    for reason, text in rows:
        schema = faults.HOOK_1_0_0 if b"1.0.0" in text else faults.HOOK_0_1_0
        assert re.search(reason, refusal(schema, text)), text
        assert faults.validator(schema).is_valid(json.loads(text)) is (reason != "^$"), text


def test_each_schema_of_the_package_is_tested_valid_itself_and_known_by_a_name_that_needs_no_host() -> None:
    assert {str(path.relative_to(PACKAGE)) for path in PACKAGE.glob("*/schemas/*.json")} == KINDS.keys()
    for schema in KINDS:
        whole = json.loads((PACKAGE / schema).read_text())
        jsonschema.Draft202012Validator.check_schema(whole)
        assert whole["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert whole["$id"].startswith("urn:nri-v010-adapter:")
