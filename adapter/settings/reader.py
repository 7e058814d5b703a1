"""Reads YAML by a schema. Errors name the file, the line and the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adapter.errors import ConfigError, reason_of, unknown

if TYPE_CHECKING:
    import yaml


class Reader:
    """Reads YAML nodes and collects their errors."""

    def __init__(self, loader: yaml.SafeLoader, place: str, errors: list[ConfigError]) -> None:
        self._loader = loader
        self._place = place
        self._errors = errors

    def mapping(self, node: yaml.Node, schema: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Returns the keys of a mapping that have valid values. See `settings.SCHEMA`; `path` is the mapping's key."""
        values: dict[str, Any] = {}
        for key, value in self._items(node, path):
            name = f"{path}.{key}" if path else key
            expected = schema.get(key, schema.get("*"))
            if expected is None:
                self._error(value, name, unknown("key", key, sorted(schema)))
            elif key in values:
                self._error(value, name, "given twice")
            elif isinstance(expected, dict):
                values[key] = self.mapping(value, expected, name)
            else:
                try:
                    values[key] = expected.check(self._loader.construct_object(value, deep=True))
                except Exception as error:
                    self._error(value, name, reason_of(error))
        return values

    def _items(self, node: yaml.Node, path: str) -> list[tuple[str, yaml.Node]]:
        if node.tag == "tag:yaml.org,2002:null":
            return []
        if getattr(node, "id", "") != "mapping":
            self._error(node, path, "must be a mapping")
            return []
        return [(str(key.value), value) for key, value in node.value]

    def _error(self, node: yaml.Node, name: str, reason: str) -> None:
        place = f"{self._place}:{node.start_mark.line + 1}"
        self._errors.append(ConfigError(place, f"{name}: {reason}" if name else reason))
