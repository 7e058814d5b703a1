"""Protobuf's JSON: reads a ContainerAdjustment, as plugins write it, and writes messages for plugins.

Errors name the place in the adjustment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from nri.proto import nri_pb2 as api
from v010_adapter.base.gojson import encode, kind, quote, string_map
from v010_adapter.errors import NotAdjustable, unknown
from v010_adapter.oci.limits import element, ill_typed, inside
from v010_adapter.oci.parts import Fields
from v010_adapter.oci.shapes import CACHED, CACHED_LENGTH
from v010_adapter.oci.spec import refuse_ineffective
from v010_adapter.oci.values import as_list, as_object, text

_WANTED = {
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_INT32: f"a whole number from {-1 << 31} to {(1 << 31) - 1}",
    FieldDescriptor.CPPTYPE_INT64: f"a whole number from {-1 << 63} to {(1 << 63) - 1}",
    FieldDescriptor.CPPTYPE_UINT32: f"a whole number from 0 to {(1 << 32) - 1}",
    FieldDescriptor.CPPTYPE_UINT64: f"a whole number from 0 to {(1 << 64) - 1}",
}


def to_json(message: Any) -> str:
    """Returns a message as JSON, as json_format writes it with the proto's names."""
    return fields_to_json(message.ListFields())


def fields_to_json(fields: Fields, known: Mapping[str, str] = {}) -> str:
    """Returns a message as JSON, given its fields that are set. `known` has the JSON of some of them.

    The JSON of inner messages is cached: the containers of a node have many of the same.
    """
    members = [f'"{field.name}":{known.get(field.name) or _writer(field)(value)}' for field, value in fields]
    return f"{{{','.join(members)}}}"


def cached_json(message: Any) -> str:
    """Returns the JSON of `to_json`. The JSON of equal messages is made once."""
    serialized = message.SerializeToString()
    return _cached(message.DESCRIPTOR, serialized) if len(serialized) <= CACHED_LENGTH else to_json(message)


@lru_cache(CACHED)
def _cached(message: Descriptor, serialized: bytes) -> str:
    return to_json(GetMessageClass(message).FromString(serialized))


@cache
def _writer(field: FieldDescriptor) -> Callable[[Any], str]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map_writer(field.message_type.fields_by_name["value"])
    one = _writer_of_one(field)
    return (lambda values: f"[{','.join(map(one, values))}]") if field.is_repeated else one


def _map_writer(of_value: FieldDescriptor) -> Callable[[Any], str]:
    if of_value.cpp_type == of_value.CPPTYPE_STRING:
        return string_map
    one = _writer(of_value)
    return lambda values: f"{{{','.join([f'{quote(key)}:{one(values[key])}' for key in values])}}}"


def _writer_of_one(field: FieldDescriptor) -> Callable[[Any], str]:
    if field.message_type is not None:
        return cached_json
    if field.enum_type is not None:
        words = {number: f'"{value.name}"' for number, value in field.enum_type.values_by_number.items()}
        return lambda number: words.get(number, str(number))
    if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64):
        return '"{}"'.format
    return quote if field.cpp_type == field.CPPTYPE_STRING else encode


def parse(value: Any, place: str) -> api.ContainerAdjustment:
    """Returns the message for a decoded value. Raises NotAdjustable, also for values that would change nothing."""
    message = api.ContainerAdjustment()
    _check(message.DESCRIPTOR, value, place)
    json_format.ParseDict(value, message)
    refuse_ineffective(message)
    return message


def _check(message: Descriptor, value: object, place: str) -> None:
    """Raises NotAdjustable for the first member that ParseDict refuses, or would take as an empty message."""
    fields = {name: field for field in message.fields for name in (field.json_name, field.name)}
    for name, member in as_object(value, place).items():
        where = inside(place, name)
        if name not in fields:
            raise NotAdjustable(where, unknown("field", name, [field.json_name for field in message.fields]))
        if member is not None:
            _check_field(fields[name], member, where)


def _check_field(field: FieldDescriptor, value: Any, place: str) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of_value = field.message_type.fields_by_name["value"]
        for key, member in as_object(value, place).items():
            _check_value(of_value, member, element(place, text(key, place)))
    elif field.is_repeated:
        for number, member in enumerate(as_list(value, place)):
            _check_value(field, member, f"{place}[{number}]")
    else:
        _check_value(field, value, place)


def _check_value(field: FieldDescriptor, value: object, place: str) -> None:
    if field.message_type is not None:
        _check(field.message_type, value, place)
    elif field.cpp_type == field.CPPTYPE_STRING:
        text(value, place)
    elif not _fits(field, value):
        words = ", ".join(value.name for value in field.enum_type.values) if field.enum_type else ""
        wanted = f"one of {words}" if words else _WANTED[field.cpp_type]
        raise ill_typed(place, f"{kind(value)} instead of {wanted}")


def _fits(field: FieldDescriptor, value: object) -> bool:
    assert field.containing_type is not None  # noqa: S101 - only extensions have none
    try:
        message = GetMessageClass(field.containing_type)()
        json_format.ParseDict({field.name: [value] if field.is_repeated else value}, message)
    except Exception:  # ParseDict raises errors of many types
        return False
    return True
