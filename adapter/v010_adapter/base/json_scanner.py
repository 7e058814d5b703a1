"""Validates JSON text as Go's encoding/json does, without decoding it."""

from __future__ import annotations

import re

MAX_DEPTH = 10_000
"""encoding/json scanner.go, maxNestingDepth."""
MAX_VALUES = 100_000
"""The adapter's own limit: values in one text, objects and arrays included. Reading must fit into an event's time."""
_SPACE = rb"[ \t\n\r]*"
STRING = rb'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"'
_NUMBER = rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TOKEN = re.compile(
    _SPACE + rb"(?:(?P<string>" + STRING + rb")|(?P<scalar>" + _NUMBER + rb"|true|false|null)|(?P<mark>[\[\]{},:]))"
)
_BLANK = re.compile(_SPACE)


class JSONError(ValueError):
    """Text that is not JSON, with the line and column of the error."""

    def __init__(self, reason: str, text: bytes, offset: int) -> None:
        self.reason = reason
        self.line, self.column = position(text, offset)
        super().__init__(f"line {self.line}, column {self.column}: {reason}")


def position(text: bytes, offset: int) -> tuple[int, int]:
    """Returns line and column of an offset; both count from 1, columns in bytes."""
    return text.count(b"\n", 0, offset) + 1, offset - text.rfind(b"\n", 0, offset)


def skip_space(text: bytes, position: int) -> int:
    """Returns the offset of what follows white space."""
    match = _BLANK.match(text, position)
    return match.end() if match else position


def token(text: bytes, position: int) -> re.Match[bytes]:
    """Returns the match of the next token: its group is `string`, `scalar` or `mark`. Raises JSONError."""
    match = _TOKEN.match(text, position)
    if match is None:
        position = skip_space(text, position)
        if text[position : position + 1] == b'"':
            raise JSONError("a string without end, with a control character or with a wrong escape", text, position)
        raise JSONError(f"unexpected {_shown(text[position : position + 1])}", text, position)
    return match


def _shown(byte: bytes) -> str:
    if byte.isascii() and byte.decode().isprintable():
        return f"{byte.decode()!r}" if byte else "end"
    return f"byte 0x{byte.hex()}"


def end_of_value(text: bytes, position: int) -> int:
    """Validates the value at `position` and returns the offset after it, without recursion."""
    closers: list[bytes] = []
    for _ in range(MAX_VALUES):
        match = token(text, position)
        position = match.end()
        mark = match["mark"]
        if mark in (b"{", b"["):
            if len(closers) >= MAX_DEPTH:
                raise JSONError("nested too deeply", text, match.start())
            closers.append(b"}" if mark == b"{" else b"]")
            follower = token(text, position)
            if follower["mark"] != closers[-1]:
                position = _key(text, position) if mark == b"{" else position
                continue
            position = follower.end()
            closers.pop()
        elif mark is not None:
            raise JSONError(f"unexpected {mark.decode()!r}", text, match.end() - 1)
        # A value has just ended: close its containers, or continue after the comma.
        while closers:
            match = token(text, position)
            position = match.end()
            if match["mark"] == b",":
                if text.startswith((b"}", b"]"), skip_space(text, position)):
                    raise JSONError("a trailing comma", text, position - 1)
                position = _key(text, position) if closers[-1] == b"}" else position
                break
            if match["mark"] != closers[-1]:
                raise JSONError("a comma or a closing bracket is missing", text, skip_space(text, match.start()))
            closers.pop()
        else:
            return position
    raise JSONError(f"more than {MAX_VALUES} values", text, position)


def _key(text: bytes, position: int) -> int:
    """Returns the offset after a member's key and colon."""
    match = token(text, position)
    if match["string"] is None:
        raise JSONError("a key in quotes is missing", text, skip_space(text, position))
    colon = token(text, match.end())
    if colon["mark"] != b":":
        raise JSONError("a colon is missing", text, skip_space(text, match.end()))
    return colon.end()
