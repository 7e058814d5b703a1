"""JSON as Go's encoding/json reads and writes it, for conf.json, requests, results and hook files.

Python's decoder accepts NaN, guesses encodings, loses the text of numbers and overflows on deep nesting. Here a value
is kept as its text until it is decoded. `end_of_value` validates a text without decoding it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from json.decoder import JSONDecodeError, JSONDecoder
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

MAX_DEPTH = 10_000
"""Maximum levels of nesting (encoding/json scanner.go, maxNestingDepth)."""
MAX_VALUES = 100_000
"""Maximum values in one text, objects and arrays included. Go has no such limit, but an event's time has an end."""
_SPACE = rb"[ \t\n\r]*"
_STRING = rb'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"'
_NUMBER = rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TOKEN = re.compile(
    _SPACE + rb"(?:(?P<string>" + _STRING + rb")|(?P<scalar>" + _NUMBER + rb"|true|false|null)|(?P<mark>[\[\]{},:]))"
)
_BLANK = re.compile(_SPACE)
_BRACKET = re.compile(_STRING + rb"|([\[{])|([\]}])")
_OPENS, _CLOSES = 1, 2
_STRINGS = re.compile(_STRING + rb'|".*', re.DOTALL)  # what follows a string that is none is no JSON: not read again
_NO_MARKS = bytes(set(range(256)) - set(b",[]{}"))
_STEPS = {b"["[0]: 1, b"{"[0]: 1, b"]"[0]: -1, b"}"[0]: -1}
MAX_PLAIN_DEPTH = 100
"""Maximum levels of nesting for `plain`."""
MAX_DIGITS = 1000
"""Maximum digits of a whole number for `plain`. Python reads and writes at most 4300."""

_TO_COMPACT = re.compile(rb"(" + _STRING + rb")|[ \t\n\r]+")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE = re.compile(_HIGH + rb"(?!" + _LOW + rb")|(?<!" + _HIGH + rb")" + _LOW)
_ESCAPED_BYTES = "".join(map(chr, range(0xDC80, 0xDD00)))
"""What stands for the bytes that are no UTF-8, with the error handler "surrogateescape"."""
_TYPES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
_FOLDED = {0x17F: "s", 0x212A: "k"}
_KINDS = {b"{": "an object", b"[": "an array", b'"': "a string", b"t": "a boolean", b"f": "a boolean", b"n": "null"}


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


class Member(NamedTuple):
    """One member of an object: its decoded key, the value's text, and the value's offset in the object's text."""

    key: str
    value: bytes
    offset: int


def value(text: bytes, offset: int = 0) -> tuple[bytes, int]:
    """Returns the first JSON value in `text` from an offset on, and the offset after it. Raises JSONError."""
    start = skip_space(text, offset)
    end = end_of_value(text, start)
    return text[start:end], end


def document(text: bytes) -> bytes:
    """Returns the only JSON value in `text`. Raises JSONError, also for text after the value."""
    only, end = value(text)
    end = skip_space(text, end)
    if end != len(text):
        raise JSONError("text after the JSON value", text, end)
    return only


def members(text: bytes) -> list[Member]:
    """Returns the members of a valid object's text, in order, duplicates included."""
    result = []
    position = 1
    while (match := token(text, position))["mark"] != b"}":
        key = match["string"]
        if key is None:  # a comma
            position = match.end()
            continue
        start = skip_space(text, token(text, match.end()).end())
        position = end_of_value(text, start)
        result.append(Member(string(key), text[start:position], start))
    return result


def elements(text: bytes) -> list[Member]:
    """Returns the elements of a valid array's text; their key is their index."""
    result: list[Member] = []
    position = skip_space(text, 1)
    while text[position : position + 1] != b"]":
        end = end_of_value(text, position)
        result.append(Member(str(len(result)), text[position:end], position))
        end = skip_space(text, end)
        position = skip_space(text, end + 1) if text[end : end + 1] == b"," else end
    return result


def locate(text: bytes, path: Iterable[str | int]) -> int:
    """Returns the offset of the value at a path of keys and indexes in a valid document.

    Of members with the same key the last counts. If the path ends at a missing value, its last existing value counts.
    """
    start = skip_space(text, 0)
    for step in path:
        whole = text[start : end_of_value(text, start)]
        children = members(whole) if whole[:1] == b"{" else elements(whole) if whole[:1] == b"[" else []
        matching = [member for member in children if member.key == str(step)]
        if not matching:
            break
        start += matching[-1].offset
    return start


def path_name(path: Iterable[str | int]) -> str:
    """Returns a path of keys and indexes as people write it: `spec.containers[0].name`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


class Object(list[tuple[str, Any]]):
    """A decoded object: its members in order, duplicates included."""


def decode(text: bytes, levels: int) -> Any:
    """Returns the only JSON value in `text`: Object, list, str, bool, None, or a number as its text's bytes.

    A value deeper than `levels` may be left as its text, if `plain` refuses it. Raises JSONError.
    """
    if len(text) > min(MAX_DEPTH, MAX_VALUES) and not _is_within_limits(text):  # Python's scanner has no limits
        document(text)
    try:
        return _decoded(text)
    except JSONDecodeError as error:
        if error.pos >= len(error.doc):  # which need not be read again
            raise JSONError("unexpected end", text, len(text)) from None
    except (ValueError, RecursionError):
        pass
    # The text is not JSON, or deeper than Python's scanner can go.
    return _decoded(*_cut(document(text), levels + MAX_PLAIN_DEPTH + 1))


def _is_within_limits(text: bytes) -> bool:
    """Whether the values and levels of a text are surely not too many.

    The counts are upper bounds: at first with what is in strings, and then with the containers that are empty.
    """
    brackets = text.count(b"[") + text.count(b"{")
    if brackets <= MAX_DEPTH and text.count(b",") + brackets < MAX_VALUES:
        return True
    marks = _STRINGS.sub(b"", text).translate(None, _NO_MARKS)
    brackets = marks.count(b"[") + marks.count(b"{")
    if marks.count(b",") + brackets >= MAX_VALUES or len(marks) >= 2 * MAX_VALUES:
        return False
    steps = map(_STEPS.__getitem__, marks.translate(None, b","))
    return brackets <= MAX_DEPTH or max(accumulate(steps), default=0) <= MAX_DEPTH


def _decoded(text: bytes, deep: Sequence[bytes] = ()) -> Any:
    """Decodes a text with Python's scanner, which is fast. A value in `deep` stands for each NaN.

    Raises ValueError, and RecursionError for a text that is too deep.
    """
    if _SURROGATE.search(text):
        # Without escaped backslashes, each backslash is the start of an escape.
        text = _LONE_SURROGATE.sub(rb"\\ufffd", text.replace(rb"\\", rb"\u005c"))
    values = iter(deep)
    return (_decoder(lambda _: next(values)) if deep else _decode)(_text(text))


def _cut(text: bytes, levels: int) -> tuple[bytes, list[bytes]]:
    """Returns a valid text with NaN for each object and array below `levels`, and the texts of those."""
    kept: list[bytes] = []
    deep: list[bytes] = []
    depth = start = 0
    for match in _BRACKET.finditer(text):
        if match.lastindex == _OPENS:
            if depth == levels:
                kept += text[start : match.start()], b"NaN"
                start = match.start()
            depth += 1
        elif match.lastindex == _CLOSES:
            depth -= 1
            if depth == levels:
                deep.append(text[start : match.end()])
                start = match.end()
    return b"".join((*kept, text[start:])), deep


def plain(value: Any) -> Any:
    """Returns a value from `decode` in Python's own types: dict, list, str, int, float, bool, None.

    Of members with the same key the last counts. A whole number is an int, `1024.0` too. Raises ValueError for a value
    with more than a hundred levels, because callers recurse, and for a number with more than a thousand digits.
    """
    return _plain(value, MAX_PLAIN_DEPTH)


def _plain(value: Any, levels: int) -> Any:
    if levels < 0:
        raise ValueError("nested too deeply")
    if isinstance(value, Object):
        return {key: _plain(member, levels - 1) for key, member in value}
    if isinstance(value, list):
        return [_plain(element, levels - 1) for element in value]
    if not isinstance(value, bytes):
        return value
    if value[:1] in b"{[":  # a value that `decode` has left as its text
        raise ValueError("nested too deeply")
    if (digits := value.lstrip(b"-")).isdigit():
        if len(digits) > MAX_DIGITS:
            raise ValueError(f"a number with more than {MAX_DIGITS} digits")
        return int(value)
    number = float(value)
    return int(number) if number.is_integer() else number


def _text(text: bytes) -> str:
    """Decodes UTF-8 as Go does: each byte of what is invalid becomes U+FFFD. Python's "replace" joins some bytes."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        decoded = text.decode("utf-8", "surrogateescape")
        for surrogate in _ESCAPED_BYTES:  # a search for all of them at once takes ten times as long
            decoded = decoded.replace(surrogate, "\ufffd")
        return decoded


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_TYPES[Object] = "an object"


def _decoder(constant: Callable[[str], Any]) -> Callable[[str], Any]:
    return JSONDecoder(
        object_pairs_hook=Object, parse_int=str.encode, parse_float=str.encode, parse_constant=constant
    ).decode


_decode = _decoder(_refuse)


def string(text: bytes) -> str:
    """Returns the decoded string of a valid string's text; invalid UTF-8 and lone surrogates become U+FFFD."""
    return str(_decoded(text)) if b"\\" in text else _text(text[1:-1])


def fold(key: str) -> str:
    """Returns a key as Go compares it with a field's name, case-insensitively (encoding/json fold.go)."""
    return (key if key.isascii() else key.translate(_FOLDED)).lower()


def kind(value: Any) -> str:
    """Returns the kind of a value in words, for an error. The value is a text, or comes from `decode` or `plain`."""
    if isinstance(value, bytes):
        return _KINDS.get(value[:1], "a number")
    return _TYPES.get(type(value), "a number")


def compact(text: bytes) -> bytes:
    """Returns a valid value as Go marshals a RawMessage: its own text, without white space and with Go's escapes."""
    return escape(_TO_COMPACT.sub(rb"\1", text))


def escape(text: bytes) -> bytes:
    """Returns JSON text with Go's escapes. The escaped characters occur in strings only."""
    for character, escaped in _HTML if text.isascii() else _ESCAPED:
        text = text.replace(character, escaped)
    return text


_HTML = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
)
_ESCAPED = (
    *_HTML,
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)

_encode = c_make_encoder(None, None, encode_basestring, None, ":", ",", False, False, True)
"""The encoder that JSONEncoder.encode would make anew at each call.

It has no markers, because data has no circles, and no default, because data has only JSON's types.
"""


def encode(data: Any) -> str:
    """Returns data as compact JSON without Go's escapes."""
    return "".join(_encode(data, 0))


_QUOTED = bytes(range(0x20)) + b'"\\'
"""The characters that `quote` escapes."""
quote = encode_basestring
"""Returns a string in quotes, as `encode` does, but faster."""


def string_map(strings: Mapping[str, str]) -> str:
    """Returns a map of strings as `encode` does, but faster, and sorted by key as Go's encoder does."""
    if not strings:
        return "{}"
    keys = sorted(strings)
    body = '","'.join([f'{key}":"{strings[key]}' for key in keys])
    encoded = body.encode("utf-8", "surrogatepass")
    if len(encoded.translate(None, _QUOTED)) == len(encoded) - 4 * len(keys) + 2:  # no quotes but these: most maps
        return f'{{"{body}"}}'
    return "{" + ",".join([f"{quote(key)}:{quote(strings[key])}" for key in keys]) + "}"


def marshalled(text: str) -> bytes:
    """Returns a text from `encode`, `quote` or `string_map`, or a part of one, with Go's escapes."""
    encoded = text.encode("utf-8", "replace")
    for character, escaped in _HTML if text.isascii() else _ESCAPED:
        encoded = encoded.replace(character, escaped)
    return encoded


def dumps(data: Any) -> bytes:
    """Returns data as compact JSON with Go's escapes."""
    return marshalled(encode(data))
