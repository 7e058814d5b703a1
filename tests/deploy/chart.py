"""The Helm chart's files. `python -m tests.deploy.chart` writes what others determine: formats, comments, the table."""

from __future__ import annotations

import functools
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

import v010_adapter

CHART = Path(__file__).resolve().parents[2] / "deploy/helm/nri-v010-adapter"


README, SCHEMA, VALUES = CHART / "README.md", CHART / "values.schema.json", CHART / "values.yaml"
WIDTH = 120
FORMATS = {"hook100": "hooks/schemas/hook-1.0.0.json", "hook010": "hooks/schemas/hook-0.1.0.json"}
FORMATS |= {"conf": "legacy/schemas/conf.json"}
"""The formats of the files that the values have in them, by their names in the schema of the values."""


def schema() -> dict[str, Any]:
    """Returns the schema of the values."""
    loaded: dict[str, Any] = json.loads(SCHEMA.read_text())
    return loaded


@functools.cache
def values() -> dict[str, Any]:
    """Returns the default values."""
    loaded: dict[str, Any] = yaml.safe_load(VALUES.read_text())
    return loaded


def formats() -> dict[str, Any]:
    """Returns the adapter's schemas of files, as a part of the schema of the values."""
    package = Path(v010_adapter.__file__).parent
    found = {name: _part(json.loads((package / file).read_text()), name) for name, file in FORMATS.items()}
    when = found["hook100"]["properties"]["when"]["properties"]
    when["annotations"]["propertyNames"] = pattern = {"type": "string", "format": "regex"}  # Go's, for helm is in Go
    when["annotations"]["additionalProperties"] = when["commands"]["items"] = pattern
    found["hook010"]["$defs"]["texts"]["items"] = pattern
    return found


def _part(of: Any, name: str) -> Any:
    """Returns a schema for helm, which reads draft 7 and Go's regular expressions, under a name in `definitions`."""
    if isinstance(of, dict):
        left_out = ("$schema", "$id", "errorMessage")
        return {key: _part(value, name) for key, value in of.items() if key not in left_out}
    if isinstance(of, list):
        return [_part(value, name) for value in of]
    if isinstance(of, str):
        return of.replace("#/$defs/", f"#/definitions/{name}/$defs/").replace("\\u0000", "\\x00")
    return of


def table() -> str:
    """Returns the table of values."""
    rows = (f"| `{key}` | `{json.dumps(default)}` | {text} |" for key, default, text in _rows(schema(), values()))
    return "\n".join(("| value | default | meaning |", "|---|---|---|", *rows))


def _rows(of: Mapping[str, Any], defaults: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yields each value that has a description: its key, its default, and its meaning."""
    for key, value in of["properties"].items():
        if "description" in value:
            yield path + key, defaults[key], value["description"]
        else:
            yield from _rows(value, defaults[key], f"{path}{key}.")


def commented() -> str:
    """Returns the default values, each with its meaning, as `helm show values` prints them."""
    title = "# What each value means, and its default. README.md explains more."
    return "\n".join([title, *_commented(schema(), values(), ""), ""])


def _commented(of: Mapping[str, Any], defaults: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in of["properties"].items():
        if "description" in value:
            meaning = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", value["description"])
            yield from textwrap.wrap(meaning, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
            shown = yaml.safe_dump(defaults[key], default_flow_style=True, sort_keys=False, width=1 << 20)
            yield f"{indent}{key}: {shown.splitlines()[0]}"
        else:
            yield f"{indent}{key}:"
            yield from _commented(value, defaults[key], f"{indent}  ")


def _write() -> None:
    whole = schema()
    whole["definitions"] |= formats()
    SCHEMA.write_text(json.dumps(whole, indent=2) + "\n")
    VALUES.write_text(commented())
    text = README.read_text()
    README.write_text(text[: text.index("| value |")] + table() + "\n")


if __name__ == "__main__":
    _write()
