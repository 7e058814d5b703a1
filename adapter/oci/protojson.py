"""Protobuf's JSON: reads a ContainerAdjustment, as plugins write it, and writes messages for plugins.

Errors name the place in the adjustment.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from adapter.base.gojson import kind
from adapter.errors import NotAdjustable, unknown
from adapter.oci.limits import element, ill_typed, inside
from adapter.oci.spec import refuse_ineffective
from adapter.oci.values import as_list, as_object, text
from adapter.proto import nri_pb2 as api

_WANTED = {
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_INT32: f"a whole number from {-1 << 31} to {(1 << 31) - 1}",
    FieldDescriptor.CPPTYPE_INT64: f"a whole number from {-1 << 63} to {(1 << 63) - 1}",
    FieldDescriptor.CPPTYPE_UINT32: f"a whole number from 0 to {(1 << 32) - 1}",
    FieldDescriptor.CPPTYPE_UINT64: f"a whole number from 0 to {(1 << 64) - 1}",
}


def written(message: Any) -> dict[str, Any]:
    """Returns a message as json_format.MessageToDict does, with the proto's names, but faster."""
    return {field.name: _writer(field)(value) for field, value in message.ListFields()}


@cache
def _writer(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of_value = _writer(field.message_type.fields_by_name["value"])
        return lambda values: {key: of_value(values[key]) for key in values}
    one = _writer_of_one(field)
    return (lambda values: [one(value) for value in values]) if field.is_repeated else one


def _writer_of_one(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return written
    if field.enum_type is not None:
        words = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: words.get(number, number)
    return str if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else lambda value: value


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
