"""JSON and YAML documents. A value has its file, line and path, so that an error can name them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any

from v010_adapter.base import gojson
from v010_adapter.errors import ConfigError, reason_of, yaml_error
from v010_adapter.host import paths

if TYPE_CHECKING:
    import yaml

TOO_LARGE = "larger or deeper than can be read"
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Value:
    """A value; its data is None if it is absent. An access that does not fit the value's type raises ConfigError."""

    place: Callable[[Path], str]
    """Returns the place of a path in the document, `FILE:LINE`."""
    data: Any
    path: Path = ()

    def __getitem__(self, key: str) -> Value:
        return Value(self.place, self._mapping().get(key), (*self.path, key))

    def __iter__(self) -> Iterator[Value]:
        if not isinstance(self.data, list | None):
            raise self.error(f"must be a list, not {_kind(self.data)}")
        for index, element in enumerate(self.data or ()):
            yield Value(self.place, element, (*self.path, index))

    @property
    def keys(self) -> set[str]:
        """The keys of a mapping."""
        return {self._key(key) for key in self._mapping()}

    @property
    def text(self) -> str:
        """A text, empty if absent."""
        if not isinstance(self.data, str | None):
            quote = "" if isinstance(self.data, dict | list) else " (put it in quotes)"
            raise self.error(f"must be a text, not {_kind(self.data)}{quote}")
        return (self.data or "").encode("utf-8", "replace").decode()  # JSON's escapes can make a lone surrogate

    @property
    def texts(self) -> list[str]:
        """A list of texts."""
        return [element.text for element in self]

    @property
    def named_texts(self) -> dict[str, str]:
        """A mapping of names to texts."""
        return {self._key(key): self[key].text for key in self._mapping()}

    def error(self, reason: str) -> ConfigError:
        """Returns the error with the file, the line and the path of this value."""
        return ConfigError(self.place(self.path), f"{gojson.path_name(self.path)}: {reason}" if self.path else reason)

    def _key(self, key: Any) -> str:
        return Value(self.place, key, (*self.path, str(key))).text

    def _mapping(self) -> Mapping[str, Any]:
        if not isinstance(self.data, dict | None):
            raise self.error(f"must be a mapping, not {_kind(self.data)}")
        return self.data or {}


def read_argument(path: str) -> tuple[bytes, str]:
    """Returns the bytes of a file that is named on the command line, and its name in errors. Raises ConfigError."""
    name = "stdin" if path == "-" else path
    try:
        if path == "-":
            return paths.at_most(sys.stdin.buffer, paths.MAX_INPUT), name
        return paths.read(path, paths.MAX_INPUT)[0], name
    except (OSError, ValueError) as error:
        raise ConfigError(name, reason_of(error)) from None


def read(file: str) -> list[Value]:
    """Returns the documents of a JSON or YAML file, at least one. Each element of a list is a document.

    `-` is stdin. Raises ConfigError.
    """
    text, file = read_argument(file)
    return parse(text, file)


def parse(text: bytes, file: str) -> list[Value]:
    """Returns the documents of a text, as `read` does; `file` is its name in errors."""
    values = _json(file, text) if text.lstrip(b" \t\r\n")[:1] in {b"{", b"["} else _yaml(file, text)
    documents = [value for whole in values for value in (whole if isinstance(whole.data, list) else [whole])]
    if not documents:
        raise ConfigError(file, "it is empty")
    return documents


def _kind(data: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(data), "a date")


def _json(file: str, text: bytes) -> list[Value]:
    documents: list[Value] = []
    text = text.rstrip(b" \t\r\n")
    end = 0
    while end < len(text):  # a recording has thousands of documents: no step may read the whole text
        start = end
        try:
            value, end = gojson.value(text, start)
            data = gojson.plain(gojson.decode(value, gojson.MAX_PLAIN_DEPTH))
        except gojson.JSONError as error:
            raise ConfigError(f"{file}:{error.line}", error.reason) from None
        except (ValueError, RecursionError):  # a number of thousands of digits, thousands of brackets
            raise ConfigError(_json_place(file, text, start, ()), TOO_LARGE) from None
        documents.append(Value(partial(_json_place, file, text, start), data))
    return documents


def _json_place(file: str, text: bytes, start: int, path: Path) -> str:
    line, _ = gojson.position(text, start + gojson.locate(text[start:], path))
    return f"{file}:{line}"


def _yaml(file: str, text: bytes) -> list[Value]:
    import yaml  # noqa: PLC0415 - 20 ms that JSON does not need

    decoded = paths.text(text, file)
    try:
        nodes = list(yaml.compose_all(decoded, yaml.SafeLoader))
        if max(map(_size, nodes), default=0) > gojson.MAX_VALUES:
            raise ConfigError(file, TOO_LARGE)
        loader = yaml.SafeLoader("")
        documents = [loader.construct_document(node) for node in nodes]
    except ConfigError:
        raise
    except RecursionError:
        raise ConfigError(file, "nested too deeply") from None
    except Exception as error:  # PyYAML raises errors of many types for a wrong value of a tag
        raise yaml_error(file, decoded, error) from None
    places = (partial(_yaml_place, file, node) for node in nodes)
    return [Value(place, data) for place, data in zip(places, documents, strict=True) if data is not None]


def _size(node: Any, known: dict[yaml.Node, float] | None = None) -> float:
    """Returns the number of values in a node and its aliases; infinite if an alias is in its own node."""
    known = {} if known is None else known
    if node not in known:
        known[node] = inf  # for an alias in the node itself
        if node.id == "scalar":
            known[node] = inf if node.tag == "tag:yaml.org,2002:int" and len(node.value) > gojson.MAX_DIGITS else 1
        else:
            inside = chain.from_iterable(node.value) if node.id == "mapping" else node.value
            known[node] = 1 + sum(_size(child, known) for child in inside)
    return known[node]


def _yaml_place(file: str, node: Any, path: Path) -> str:
    for step in path:
        inside = dict(enumerate(node.value)) if node.id == "sequence" else {}
        if node.id == "mapping":
            inside = {key.value: value for key, value in node.value}
        if step not in inside:
            break
        node = inside[step]
    return f"{file}:{node.start_mark.line + 1}"
