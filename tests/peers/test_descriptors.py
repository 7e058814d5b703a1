"""Our messages against those of NRI's Go module: names, numbers, types, services."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from adapter.proto.nri_pb2 import DESCRIPTOR

from .harness import require

KINDS = {
    number: name.removeprefix("TYPE_").lower() for name, number in vars(FieldDescriptor).items() if name[:5] == "TYPE_"
}


def describe(field: FieldDescriptor) -> dict[str, Any]:
    of = field.message_type or field.enum_type
    return {
        "name": field.name,
        "number": field.number,
        "label": "repeated" if field.is_repeated else "optional",
        "kind": KINDS[field.type],
        "type": of.full_name if of else "",
        "oneof": field.containing_oneof.name if field.containing_oneof else "",
        "map": bool(field.message_type and field.message_type.GetOptions().map_entry),
    }


def with_nested(messages: Iterable[Descriptor]) -> Iterator[Descriptor]:
    for message in messages:
        yield message
        yield from with_nested(message.nested_types)


def test_messages_enums_and_services_are_the_published_ones_field_by_field() -> None:
    told = subprocess.run([require("descriptors")], capture_output=True, text=True, check=True).stdout
    published: dict[str, Any] = json.loads(told)
    theirs = {name: sorted(fields, key=lambda field: field["number"]) for name, fields in published["messages"].items()}
    messages = list(with_nested(DESCRIPTOR.message_types_by_name.values()))
    enums = [*DESCRIPTOR.enum_types_by_name.values(), *(enum for message in messages for enum in message.enum_types)]
    services = {
        service.full_name: {
            m.name: {"input": m.input_type.full_name, "output": m.output_type.full_name} for m in service.methods
        }
        for service in DESCRIPTOR.services_by_name.values()
    }
    assert DESCRIPTOR.package == published["package"]
    assert {m.full_name: sorted(map(describe, m.fields), key=lambda f: f["number"]) for m in messages} == theirs
    assert {e.full_name: {v.name: v.number for v in e.values} for e in enums} == published["enums"]
    assert services == published["services"]
    assert (len(theirs) > 80, len(enums) > 5, len(services[f"{DESCRIPTOR.package}.Plugin"])) == (True, True, 18)
