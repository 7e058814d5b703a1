"""Decoded JSON into typed fields as encoding/json does it: null, repeated members, names without case. Pure.

Source: encoding/json decode.go (object, array, literalStore). Errors name the key, and say where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adapter import gojson

LEVELS = 4
"""How deep a hook file goes: the file, when, annotations, a value; one more would be wrong in any case."""
INT64 = range(-(1 << 63), 1 << 63)

Decoder = Callable[[Any, Any], Any]
"""Makes a field's value of what an earlier member of its name left there (None: nothing), and what this one holds."""


class HookError(ValueError):
    """A hook file that cannot be used; `line` and `column` are 0 where no one place is to blame."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        """Takes what is wrong, and where."""
        super().__init__(f"line {line}, column {column}: {reason}" if line else reason)
        self.reason = reason
        self.line = line
        self.column = column


class _WrongType(Exception):
    """A value that cannot be decoded; the path to it is filled while unwinding."""

    def __init__(self, value: Any, wanted: str) -> None:
        found = value[:30].decode(errors="replace") if isinstance(value, bytes) else gojson.kind(value)
        super().__init__(f"must be {wanted}, not {found}")
        self.path: list[str | int] = []


class Document:
    """A hook file's text, and what it holds."""

    def __init__(self, text: bytes) -> None:
        """Takes the text. Raises HookError if it is no JSON."""
        self._text = text
        try:
            self._root = gojson.decode(text, LEVELS)
        except gojson.JSONError as error:
            raise HookError(error.reason if text.strip() else "the file is empty", error.line, error.column) from None

    def fields(self, decoder: Decoder) -> Any:
        """Returns what the decoder makes of the whole. Raises HookError."""
        try:
            return decoder(None, self._root)
        except _WrongType as wrong:
            raise self._error(wrong.path, f"{_name(wrong.path)} {wrong}") from None

    def error(self, reason: str, about: str) -> HookError:
        """Returns an error about a string that is a key or a value somewhere in the file."""
        path = _path_to(about, self._root, LEVELS)
        return self._error(path, f"{_name(path)}: {reason}") if path else HookError(reason)

    def _error(self, path: list[str | int], reason: str) -> HookError:
        return HookError(reason, *gojson.position(self._text, gojson.locate(self._text, path)))


def _name(path: list[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".") or "a hook"


def _path_to(text: str, value: Any, levels: int) -> list[str | int]:
    inside = value if isinstance(value, gojson.Object) else enumerate(value) if isinstance(value, list) else ()
    for step, held in inside if levels else ():
        if text in (step, held):
            return [step]
        if path := _path_to(text, held, levels - 1):
            return [step, *path]
    return []


def structure(decoders: Mapping[str, Decoder]) -> Decoder:
    """Returns a decoder into a Go struct with these fields; all other members are ignored."""
    names = {name: name for name in decoders} | {gojson.fold(name): name for name in decoders}

    def decode(left: Any, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = left or {}
        for key, held in _members(value) if value is not None else ():
            name = names.get(key) or names.get(gojson.fold(key))
            if name is not None:
                found[name] = _inside(key, decoders[name], found.get(name), held)
        return found

    return decode


def string(left: Any, value: Any) -> Any:
    """Decodes into a Go string: null changes nothing."""
    if value is None:
        return left
    if type(value) is not str:
        raise _WrongType(value, "a string")
    return value


def string_pointer(left: Any, value: Any) -> Any:
    """Decodes into a Go *string: null makes it nil."""
    return None if value is None else string(left, value)


def boolean_pointer(left: Any, value: Any) -> Any:
    """Decodes into a Go *bool."""
    if value is not None and type(value) is not bool:
        raise _WrongType(value, "a boolean")
    return value


def integer_pointer(left: Any, value: Any) -> Any:
    """Decodes into a Go *int: 64 bits, and neither 1.0 nor 1e3."""
    if value is None:
        return None
    if type(value) is not bytes or not value.lstrip(b"-").isdigit():
        raise _WrongType(value, "a whole number")
    if len(value) > len(str(INT64.start)) or int(value) not in INT64:
        raise _WrongType(value, "a 64-bit number")
    return int(value)


def strings(left: Any, value: Any) -> Any:
    """Decodes into a Go []string: null makes it nil, which [] does not; null in it leaves what stood in its place."""
    if value is None:
        return None
    if type(value) is not list:
        raise _WrongType(value, "an array")
    if all(type(held) is str for held in value):
        return value
    before = left or ()
    return [
        _inside(index, string, before[index] if index < len(before) else "", held) for index, held in enumerate(value)
    ]


def string_map(left: Any, value: Any) -> Any:
    """Decodes into a Go map[string]string: repeated ones merge, null makes it nil, null in it is empty."""
    if value is None:
        return None
    found: dict[str, str] = left or {}
    for key, held in _members(value):
        found[key] = _inside(key, string, "", held)
    return found


def _members(value: Any) -> gojson.Object:
    if type(value) is not gojson.Object:
        raise _WrongType(value, "an object")
    return value


def _inside(step: str | int, decoder: Decoder, left: Any, value: Any) -> Any:
    try:
        return decoder(left, value)
    except _WrongType as wrong:
        wrong.path.insert(0, step)
        raise
