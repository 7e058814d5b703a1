"""Files of JSON or YAML whose values know where they stand: whoever misses something there can say what and where."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from adapter import gojson
from adapter.errors import ConfigError

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Source:
    """The document that a value belongs to: a file's text, and the document's offset (JSON) or number (YAML) in it."""

    file: str
    text: bytes
    start: int
    is_json: bool

    def error(self, path: Path, reason: str) -> ConfigError:
        """Returns the error that says what is wrong with the value at a path."""
        return ConfigError(f"{self.file}:{self._line(path)}", f"{name(path)}: {reason}" if path else reason)

    def _line(self, path: Path) -> int:
        if not self.is_json:
            return _yaml_line(self.text, self.start, path)
        offset = gojson.locate(self.text[self.start :], path)
        return gojson.position(self.text, self.start + offset)[0]


@dataclass(frozen=True)
class Value:
    """A value; its data is None where nothing stands. What it is asked for and is not, raises ConfigError."""

    source: Source
    data: Any
    path: Path = ()

    def __getitem__(self, key: str) -> Value:
        """Returns a member of a mapping."""
        return Value(self.source, self._mapping().get(key), (*self.path, key))

    def __iter__(self) -> Iterator[Value]:
        """Yields the elements of a list."""
        if not isinstance(self.data, list | None):
            raise self.error(f"must be a list, not {_kind(self.data)}")
        for index, element in enumerate(self.data or ()):
            yield Value(self.source, element, (*self.path, index))

    @property
    def keys(self) -> set[str]:
        """The keys of a mapping."""
        return set(self._mapping())

    @property
    def text(self) -> str:
        """A text, empty where nothing stands."""
        if not isinstance(self.data, str | None):
            quote = "" if isinstance(self.data, dict | list) else " (put it in quotes)"
            raise self.error(f"must be a text, not {_kind(self.data)}{quote}")
        return (self.data or "").encode("utf-8", "replace").decode()  # JSON's escapes can make half a character

    @property
    def texts(self) -> list[str]:
        """A list of texts."""
        return [element.text for element in self]

    @property
    def named_texts(self) -> dict[str, str]:
        """A mapping of names to texts."""
        return {Value(self.source, key, (*self.path, str(key))).text: self[key].text for key in self._mapping()}

    def error(self, reason: str) -> ConfigError:
        """Returns the error that says where this value stands and what is wrong with it."""
        return self.source.error(self.path, reason)

    def _mapping(self) -> Mapping[str, Any]:
        if not isinstance(self.data, dict | None):
            raise self.error(f"must be a mapping, not {_kind(self.data)}")
        return self.data or {}


def read(file: str) -> list[Value]:
    """Returns the documents of a file, at least one: JSON or YAML. Raises ConfigError."""
    try:
        with open(file, "rb") as opened:
            text = opened.read()
    except (OSError, ValueError) as error:  # a path with a NUL character
        raise ConfigError(file, getattr(error, "strerror", None) or str(error)) from None
    documents = _json(file, text) if text.lstrip(b" \t\r\n")[:1] == b"{" else _yaml(file, text)
    if not documents:
        raise ConfigError(file, "nothing in it")
    return documents


def name(path: Path) -> str:
    """Returns a path as people write it: `spec.containers[0].name`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _kind(data: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(data), "a date")


def _json(file: str, text: bytes) -> list[Value]:
    documents: list[Value] = []
    end = 0
    while text[end:].strip(b" \t\r\n"):
        start, line = end, gojson.position(text, end)[0]
        try:
            found, length = gojson.value(text[start:])
            data = json.loads(found.decode("utf-8", "replace"))
        except gojson.JSONError as error:
            raise ConfigError(f"{file}:{line + error.line - 1}", error.reason) from None
        except (ValueError, RecursionError):  # a number of thousands of digits, thousands of brackets
            raise ConfigError(f"{file}:{line}", "larger or deeper than can be read") from None
        documents.append(Value(Source(file, text, start, is_json=True), data))
        end = start + length
    return documents


def _yaml(file: str, text: bytes) -> list[Value]:
    import yaml  # noqa: PLC0415 - 20 ms that JSON does not need

    try:
        found = list(yaml.safe_load_all(text))
    except RecursionError:
        raise ConfigError(file, "nested too deeply") from None
    except Exception as error:  # what a wrong value for a tag raises is anything
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        raise ConfigError(f"{file}:{mark.line + 1}" if mark else file, str(reason)) from None
    values = (Value(Source(file, text, number, is_json=False), data) for number, data in enumerate(found))
    return [value for value in values if value.data is not None]


def _yaml_line(text: bytes, number: int, path: Path) -> int:
    import yaml  # noqa: PLC0415

    node: Any = list(yaml.compose_all(text, yaml.SafeLoader))[number]
    for step in path:
        inside = dict(enumerate(node.value)) if node.id == "sequence" else {}
        if node.id == "mapping":
            inside = {key.value: value for key, value in node.value}
        if step not in inside:
            break
        node = inside[step]
    return int(node.start_mark.line) + 1
