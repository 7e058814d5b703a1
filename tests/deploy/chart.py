"""The Helm chart's files. `python -m tests.deploy.chart` prints the table of values in its README."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[2] / "deploy/helm/nri-v010-adapter"


def schema() -> dict[str, Any]:
    """Returns the schema of the values."""
    loaded: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    return loaded


def values() -> dict[str, Any]:
    """Returns the default values."""
    loaded: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return loaded


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


if __name__ == "__main__":
    print(table())
