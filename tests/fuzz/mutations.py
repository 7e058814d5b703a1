"""Mutations that keep a format: of JSON values, and of protobuf messages."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

TEXTS = (
    *("", "c1", "pod", "a", "A=1", "-A", "/x", "../..", "0-3", "cri-o", "docker"),
    *("\0", "\n", "é\u2028", "\ud800", "x" * 300),
)
NUMBERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63), 2**64, 10**400, 0.5, -0.0, 1e308)
SCALARS: tuple[Any, ...] = (None, True, False, [], {}, *TEXTS, *NUMBERS)
SIZES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (0, 20),
    FieldDescriptor.CPPTYPE_BOOL: (0, 1),
}


def json_text(text: bytes, dice: random.Random, words: Sequence[str]) -> bytes:
    """Returns JSON text with one value changed; other text as it is."""
    try:
        root = [json.loads(text)]
        nodes = list(_nodes(root))
        node = dice.choice(nodes)
        _change(node, dice, words, dice.choice(dice.choice(nodes)[1]))
        return json.dumps(root[0]).encode()
    except (ValueError, RecursionError):
        return text


_Node = tuple[Any, list[Any]]  # an object or array with members, and its members


def _nodes(node: Any) -> Iterator[_Node]:
    members = list(node.values()) if isinstance(node, dict) else node
    if members:
        yield node, members
    for member in members:
        if isinstance(member, dict | list):
            yield from _nodes(member)


def _change(node: _Node, dice: random.Random, words: Sequence[str], other: Any) -> None:
    owner, _ = node
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


def message(root: Message, dice: random.Random) -> None:
    owner: Any = dice.choice(list(_messages(root)))
    if not owner.DESCRIPTOR.fields:
        return
    field = dice.choice(dice.choice((owner.DESCRIPTOR.fields, [field for field, _ in owner.ListFields()] or [None])))
    if field is None or dice.random() < 0.2:
        owner.ClearField(dice.choice(owner.DESCRIPTOR.fields).name)
        return
    value = getattr(owner, field.name)
    if field.message_type and field.message_type.GetOptions().map_entry:
        _put(value, field.message_type.fields_by_name["value"], dice)
    elif field.is_repeated and field.message_type:
        value.add().CopyFrom(dice.choice([*value, value.add()]))
    elif field.is_repeated:
        value.append(_scalar(field, dice))
    elif field.message_type:
        value.SetInParent()
    else:
        setattr(owner, field.name, _scalar(field, dice))


def _messages(root: Any) -> Iterator[Any]:
    yield root
    for field, value in root.ListFields():
        if not field.message_type or field.message_type.GetOptions().map_entry:
            continue
        for inner in value if field.is_repeated else [value]:
            yield from _messages(inner)


def _put(values: Any, field: FieldDescriptor, dice: random.Random) -> None:
    key = dice.choice([*values, dice.choice(TEXTS).encode("utf-8", "replace").decode()])
    if field.message_type:
        values[key].SetInParent()
    else:
        values[key] = _scalar(field, dice)


def _scalar(field: FieldDescriptor, dice: random.Random) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return dice.choice(TEXTS).encode("utf-8", "replace").decode()
    low, high = SIZES[field.cpp_type]
    return dice.choice([number for number in NUMBERS if isinstance(number, int) and low <= number <= high])
