"""Decodes hook files as Go decodes JSON into structs: also null, repeated members, and names in any case. Pure.

Source: encoding/json decode.go (object, array, literalStore). Errors name the key with its line and column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from v010_adapter.base import gojson
from v010_adapter.settings import MAX_TIMEOUT

LEVELS = 4
"""The levels of a hook file: the file, `when`, `annotations`, a value. A deeper value has the wrong type."""
SECONDS = range(1, MAX_TIMEOUT + 1)
"""The valid timeouts of hooks. runc fails the container at 0 and below."""

Path: TypeAlias = tuple[str | int, ...]
Decoder: TypeAlias = Callable[[Any, Any, Path], Any]
"""Takes a field's present value (None: unset), the JSON value and its path; returns the field's new value."""


class HookError(ValueError):
    """A hook file cannot be used. `line` and `column` are 0 if the error has no place, as for a missing key."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line}, column {column}: {reason}" if line else reason)
        self.reason = reason
        self.line = line
        self.column = column


class _WrongType(Exception):
    """The value at `path` has the wrong type."""

    def __init__(self, path: Path, expected: str, value: Any) -> None:
        actual = value[:30].decode(errors="replace") if isinstance(value, bytes) else gojson.kind(value)
        super().__init__(f"{gojson.path_name(path) or 'a hook'} must be {expected}, not {actual}")
        self.path = path


class Document:
    """A hook file's text and its JSON value."""

    def __init__(self, text: bytes) -> None:
        """Takes the text. Raises HookError if the text is not JSON."""
        self._text = text
        try:
            self._root = gojson.decode(text, LEVELS)
        except gojson.JSONError as error:
            raise HookError(error.reason if text.strip() else "the file is empty", error.line, error.column) from None

    def decode(self, decoder: Decoder) -> Any:
        """Returns the decoded file. Raises HookError."""
        try:
            return decoder(None, self._root, ())
        except _WrongType as wrong:
            raise self._error(wrong.path, str(wrong)) from None

    def error(self, reason: str, text: str) -> HookError:
        """Returns an error at the first key or string of the file that equals `text`."""
        path = _find(text, self._root, LEVELS)
        return self._error(path, f"{gojson.path_name(path)}: {reason}") if path else HookError(reason)

    def _error(self, path: Path, reason: str) -> HookError:
        return HookError(reason, *gojson.position(self._text, gojson.locate(self._text, path)))


def _find(text: str, value: Any, levels: int) -> Path:
    """Returns the path of the first key or string that equals `text`, empty if there is none."""
    members = value if isinstance(value, gojson.Object) else enumerate(value) if isinstance(value, list) else ()
    for step, member in members if levels else ():
        if text in (step, member):
            return (step,)
        if path := _find(text, member, levels - 1):
            return (step, *path)
    return ()


def structure(fields: Mapping[str, Decoder]) -> Decoder:
    """Returns a decoder into a Go struct with these fields; other members are ignored."""
    names = {gojson.fold(name): name for name in fields}

    def decode(before: Any, value: Any, path: Path) -> dict[str, Any]:
        struct: dict[str, Any] = before or {}
        for key, member in () if value is None else _expect(value, gojson.Object, "an object", path):
            name = key if key in fields else names.get(gojson.fold(key))
            if name is not None:
                struct[name] = fields[name](struct.get(name), member, (*path, key))
        return struct

    return decode


def string(before: Any, value: Any, path: Path) -> Any:
    """Decodes into a Go string. null changes nothing."""
    return before if value is None else _expect(value, str, "a string", path)


def seconds_pointer(before: Any, value: Any, path: Path) -> Any:
    """Decodes into a Go *int that is a timeout; neither 1.0 nor 1e3 is an int."""
    if value is None:
        return None
    digits = value.lstrip(b"-") if type(value) is bytes else b""
    if not digits.isdigit():
        raise _WrongType(path, "a whole number", value)
    if len(digits) > len(str(1 << 63)) or int(value) not in SECONDS:
        raise _WrongType(path, f"{SECONDS[0]} to {SECONDS[-1]} seconds", value)
    return int(value)


def strings(before: Any, value: Any, path: Path) -> Any:
    """Decodes into a Go []string. A null element keeps the earlier member's element at this index."""
    if value is None:
        return None
    elements = _expect(value, list, "an array", path)
    if all(type(element) is str for element in elements):
        return elements
    kept = [*(before or ()), *[""] * len(elements)]
    return [string(kept[index], element, (*path, index)) for index, element in enumerate(elements)]


def string_map(before: Any, value: Any, path: Path) -> Any:
    """Decodes into a Go map[string]string: repeated members merge, null makes the map nil and a value empty."""
    if value is None:
        return None
    texts: dict[str, str] = before or {}
    for key, text in _expect(value, gojson.Object, "an object", path):
        texts[key] = string("", text, (*path, key))
    return texts


def _pointer(kind: type, name: str) -> Decoder:
    """Returns a decoder into a Go pointer: null makes it nil."""
    return lambda before, value, path: None if value is None else _expect(value, kind, name, path)


string_pointer = _pointer(str, "a string")
boolean_pointer = _pointer(bool, "a boolean")


def _expect(value: Any, kind: type, name: str, path: Path) -> Any:
    if type(value) is not kind:
        raise _WrongType(path, name, value)
    return value
