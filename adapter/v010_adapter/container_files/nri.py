"""Reads NRI's messages from protojson. An error names the file, the line and the key."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from v010_adapter.container_files.document import Value

M = TypeVar("M", bound=Message)

_INTEGERS = {getattr(FieldDescriptor, f"CPPTYPE_{name}") for name in ("INT32", "INT64", "UINT32", "UINT64")}
_WHOLE = re.compile(r"-?[0-9]+(?:\.0+)?")
_FIELD = re.compile(r"Failed to parse (\w+) field: ")


def message(value: Value, message: M) -> M:
    """Returns a message from protojson. Unknown keys are ignored. Raises ConfigError."""
    _check(value, message.DESCRIPTOR)
    try:
        return json_format.ParseDict(value.data or {}, message, ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, TypeError, AttributeError) as error:
        text = str(error)
        path = ".".join(_FIELD.findall(text))
        reason = _FIELD.sub("", text).rstrip(".")
        raise value.error(f"{path}: {reason}" if path else reason) from None


def _check(value: Value, kind: Any) -> None:
    """Raises ConfigError, with the line, for a value of the wrong type. protobuf would take a text as empty message."""
    for field in kind.fields:
        for member in (value[name] for name in {field.name, field.json_name}):
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            elements = [member[name] for name in member.keys] if is_map else member if field.is_repeated else [member]
            for element in elements:
                _check_element(element, field.message_type.fields_by_name["value"] if is_map else field)


def _check_element(value: Value, field: FieldDescriptor) -> None:
    if value.data is None:
        return
    if field.message_type is not None:
        _check(value, field.message_type)
    elif field.type == FieldDescriptor.TYPE_STRING:
        value.text  # noqa: B018 - raises
    elif field.type == FieldDescriptor.TYPE_BOOL and not isinstance(value.data, bool):
        raise value.error("must be true or false")
    elif field.cpp_type in _INTEGERS and not _WHOLE.fullmatch(str(value.data)):
        raise value.error("must be a whole number")
