"""Messages as JSON, as the library of protobuf writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from adapter.nri import api
from adapter.nri.protojson import to_dict

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def full(message: Message, depth: int = 6) -> Message:
    """The message with something in every field."""
    for field in message.DESCRIPTOR.fields:
        target = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is None:
                target.update({"b": "1", "a": ""})
            else:
                full(target["x"], depth - 1)
        elif field.message_type is not None:
            if depth:
                full(target.add() if field.is_repeated else target, depth - 1)
        elif field.is_repeated:
            target.extend([something(field)] * 2)
        else:
            setattr(message, field.name, something(field))
    return message


def something(field: Any) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return "x"
    return True if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL else 3


def the_librarys(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


@pytest.mark.parametrize("of", [api.PodSandbox, api.Container, api.ContainerAdjustment, api.ContainerUpdate])
def test_every_field_is_written_as_the_library_writes_it(of: type[Message]) -> None:
    message = full(of())
    assert json.dumps(to_dict(message), sort_keys=True) == json.dumps(the_librarys(message), sort_keys=True)


def test_what_is_not_set_is_not_there() -> None:
    assert to_dict(api.Container()) == {}
    assert to_dict(api.LinuxMemory(limit=api.OptionalInt64(value=0))) == the_librarys(
        api.LinuxMemory(limit=api.OptionalInt64(value=0))
    )


def test_an_enum_beyond_those_known_is_its_number() -> None:
    message = api.Container(state=99)  # type: ignore[arg-type]
    assert to_dict(message) == the_librarys(message) == {"state": 99}


def test_recorded_messages_are_written_as_the_library_writes_them() -> None:
    compared = 0
    for file in GOLDEN.glob("*/events-one-pod.jsonl"):
        for line in file.read_text().splitlines():
            recorded = json.loads(line)
            for name, of in (("pod", api.PodSandbox), ("container", api.Container)):
                if recorded[name] and "2.3.4" not in file.parent.name:  # that one is Go's JSON
                    message = json_format.ParseDict(recorded[name], of(), ignore_unknown_fields=True)
                    assert to_dict(message) == the_librarys(message)
                    compared += 1
    assert compared > 50
