"""Mutations that keep a format: of JSON values, and of protobuf messages."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from google.protobuf.json_format import MessageToJson, Parse, ParseError
from google.protobuf.message import Message

TEXTS = (
    *("", "c1", "pod", "a", "A=1", "-A", "/x", "../..", "0-3", "cri-o", "docker"),
    *("\0", "\n", "é\u2028", "\ud800", "x" * 300),
)
NUMBERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63), 2**64, 10**400, 0.5, -0.0, 1e308)
SCALARS: tuple[Any, ...] = (None, True, False, [], {}, *TEXTS, *NUMBERS)
TRIES = 8
"""Changes of a message of which one is likely to be of the field's type."""
_Message = TypeVar("_Message", bound=Message)


def json_text(text: bytes, dice: random.Random, words: Sequence[str]) -> bytes:
    """Returns JSON text with one value changed; other text as it is."""
    try:
        root = [json.loads(text)]
        nodes = list(_nodes(root))
        _change(dice.choice(nodes), dice, words, dice.choice([*_members(dice.choice(nodes))]))
        return json.dumps(root[0]).encode()
    except (ValueError, RecursionError):
        return text


def _members(node: Any) -> Sequence[Any]:
    return list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else ()


def _nodes(node: Any) -> Iterator[Any]:
    """Yields the objects and arrays that have members."""
    if members := _members(node):
        yield node
    for member in members:
        yield from _nodes(member)


def _change(owner: Any, dice: random.Random, words: Sequence[str], other: Any) -> None:
    value = json.loads(json.dumps(dice.choice((dice.choice(SCALARS), dice.choice(words), other, [other]))))
    place = dice.choice(list(owner) if isinstance(owner, dict) else range(len(owner)))
    action = dice.randrange(4)
    if action == 0 and len(owner) > 1:
        del owner[place]
    elif action == 1 and isinstance(owner, dict):
        owner[dice.choice(words)] = value
    elif action == 1:
        owner.insert(place, value)
    elif action == 2 and isinstance(owner[place], dict):
        owner[place][dice.choice(words)] = value
    else:
        owner[place] = value


def message(given: _Message, dice: random.Random) -> _Message:
    """Returns a message with one value changed, by way of its JSON; the message itself if no change fits."""
    words = [*names(given.DESCRIPTOR)] or ["a"]
    text = MessageToJson(given, preserving_proto_field_name=True).encode()
    for _ in range(TRIES):
        changed = json_text(text, dice, words)
        with suppress(ParseError):
            return Parse(changed, type(given)(), ignore_unknown_fields=True)
    return given


def names(kind: Any) -> Iterator[str]:
    """The names of a message's fields, and of those of all messages in it, in both spellings."""
    for field in kind.fields:
        yield from (field.name, field.json_name)
        if field.message_type:
            yield from names(field.message_type)


def bytes_of(data: bytes, dice: random.Random) -> bytes:
    """Returns bytes with a part repeated, left out, or put elsewhere."""
    start, end, place = sorted(dice.randrange(len(data) + 1) for _ in range(3))
    return dice.choice(
        (data[:start] + data[end:], data[:end] + data[start:], data[:place] + data[start:end] + data[place:])
    )
