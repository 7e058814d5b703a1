"""Shapes: an OCI object and the NRI message with the same data, described once for both directions.

The names and types of members come from the message's descriptor, in the order in which Go's encoder writes them. Only
facts outside the descriptor are listed: keys with another spelling, members that Go writes even if they are empty.
Source: runtime-spec specs-go/config.go, containerd/nri pkg/api. Each event's request needs this small module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from v010_adapter.base.gojson import encode

CACHED, CACHED_LENGTH = 64, 8 << 10
"""The number of messages whose JSON is cached, and the maximum bytes of one.

The containers of a node have the same devices and the same seccomp policy, and many of the same mounts.
"""
_KEYS = {
    "clos_id": "closID",
    "default_errno": "defaultErrnoRet",
    "disable_oom_killer": "disableOOMKiller",
    "kernel_tcp": "kernelTCP",
}
"""OCI's keys that are not NRI's names in camel case."""
_NOT_OCI = {"remove"}
"""NRI's field for a removal. No OCI object has it."""


class Field(NamedTuple):
    """A member of an OCI object and the field of the message that holds it."""

    name: str
    value: FieldDescriptor
    """The descriptor of the value. If the field is wrapped, that of the wrapper's `value`."""
    optional: bool
    """Whether the message wraps the value, so that absent and 0 differ."""
    always: bool
    """Whether Go's encoder writes the member even if it is empty."""
    shape: Shape | None
    """The shape of the elements, for an array of objects."""
    words: EnumDescriptor | None
    """The words of the value, if it is an enum.

    The descriptor has this and the next member, too, but to read them there is slow.
    """
    is_repeated: bool


@dataclass(frozen=True, eq=False)
class Shape:
    """An OCI object and NRI's message for it. `required` is the member that the object must have."""

    message: type[Any]
    fields: Mapping[str, Field]
    required: str


def shape(message: type[Any], required: str = "", *, always: tuple[str, ...] = (), **elements: Shape) -> Shape:
    """Returns the shape of a message. `elements` has the shapes of its arrays of objects, by field name."""
    fields = {}
    for field in message.DESCRIPTOR.fields:
        key = _KEYS.get(field.name, field.json_name)
        wrapped = field.message_type is not None and field.message_type.name.startswith("Optional")
        value = field.message_type.fields_by_name["value"] if wrapped else field
        if field.name not in _NOT_OCI:
            written = key == required or key in always
            kind = value.enum_type, value.is_repeated
            fields[key] = Field(field.name, value, wrapped, written, elements.get(field.name), *kind)
    return Shape(message, fields, required)


def write(shape: Shape, message: Any) -> dict[str, Any]:
    """Returns the OCI object for a message, as Go's encoder writes it."""
    written: dict[str, Any] = {}
    for key, (name, _, optional, always, elements, words, is_repeated) in shape.fields.items():
        if optional and not message.HasField(name):
            continue
        value = getattr(message, name)
        if optional:
            value = value.value
        if elements:
            value = [write(elements, element) for element in value]
        elif words:
            value = [_word(words, number) for number in value] if is_repeated else _word(words, value)
        elif is_repeated:
            value = list(value)
        if value or always or optional:
            written[key] = value
    return written


def to_json(shape: Shape, message: Any) -> str:
    """Returns the JSON of `write`. The JSON of equal messages is made once."""
    serialized = message.SerializeToString()
    return _cached(shape, serialized) if len(serialized) <= CACHED_LENGTH else encode(write(shape, message))


@lru_cache(CACHED)
def _cached(shape: Shape, serialized: bytes) -> str:
    return encode(write(shape, shape.message.FromString(serialized)))


def put(mapping: Any, name: str, value: Any) -> None:
    """Sets a text or a message in a map of a message."""
    if isinstance(value, str):
        mapping[name] = value
    else:
        mapping[name].CopyFrom(value)


def _word(words: EnumDescriptor, number: int) -> str:
    """Returns an enum's word for a number; the digits, if this version of NRI does not know the number."""
    word = words.values_by_number.get(number)
    return word.name if word else str(number)
