"""Reads a ContainerAdjustment that a plugin has written in protobuf's JSON."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from adapter.errors import NotAdjustable
from adapter.oci import limits
from adapter.oci.limits import element
from adapter.oci.values import is_object
from adapter.proto import nri_pb2 as api


def parse(value: Any, place: str) -> api.ContainerAdjustment:
    """Returns the message of a decoded value. Raises NotAdjustable, also for values that would change nothing."""
    message = api.ContainerAdjustment()
    _check(message.DESCRIPTOR, value, place)
    try:
        json_format.ParseDict(value, message)
    except Exception as error:  # ParseDict raises errors of many types
        raise NotAdjustable(place, str(error)) from None
    _refuse_ineffective(message.linux.resources)
    return message


def _check(kind: Descriptor, value: object, place: str) -> None:
    """Raises NotAdjustable for a message that is no object; ParseDict takes an empty list or string for one."""
    fields = {name: field for field in kind.fields for name in (field.name, field.json_name)}
    for name, member in is_object(value, place).items():
        field = fields.get(name)
        if field is not None and member is not None:
            _check_field(field, member, f"{place}.{name}")


def _check_field(field: FieldDescriptor, value: Any, place: str) -> None:
    """Checks the messages in a field; ParseDict refuses other values that should be lists or objects."""
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        kind = kind.fields_by_name["value"].message_type
        values = {element(place, name): member for name, member in value.items()} if isinstance(value, dict) else {}
    elif field.is_repeated:
        values = (
            {f"{place}[{number}]": member for number, member in enumerate(value)} if isinstance(value, list) else {}
        )
    else:
        values = {place: value}
    for where, member in values.items():
        if kind is not None:
            _check(kind, member, where)


def _refuse_ineffective(resources: api.LinuxResources) -> None:
    """Raises NotAdjustable for values that runtimes take as no change."""
    if resources.memory.HasField("limit") and not resources.memory.limit.value:
        raise limits.ZERO.at("linux.resources.memory.limit")
    if resources.pids.limit < 0:
        raise limits.PIDS.at("linux.resources.pids.limit")
