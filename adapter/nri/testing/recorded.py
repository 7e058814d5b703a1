"""The requests of a recorded pod's life, to be played again with other fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, cast

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from nri import events
from nri.errors import nearest

POD_LIFE = Path(__file__).with_name("pod-life.jsonl")
"""The life of a pod with one container on containerd 2.4.2: a JSON object a line."""


_KINDS = {
    FieldDescriptor.CPPTYPE_STRING: "text",
    FieldDescriptor.CPPTYPE_BOOL: "bool",
    **dict.fromkeys(
        (
            *(FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_ENUM),
            *(FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64),
        ),
        "number",
    ),
}


@cache
def life() -> dict[str, Message]:
    """Returns the requests of the recording, by event."""
    found = {}
    for one in map(json.loads, POD_LIFE.read_text().splitlines()):
        call = events.CALLS[one["event"]]
        if call.event:
            fields = (one["extra"] or {}) | {name: one[name] for name in ("pod", "container") if one[name]}
            found[call.method] = json_format.ParseDict(fields, call.request(), ignore_unknown_fields=True)
    return found


def recorded(method: str, pod: Mapping[str, Any] | None = None, **fields: Any) -> Message:
    """Returns the request of an event of the recorded pod, with these fields; see `Node.event`."""
    request = cast(Any, events.named(method).request())
    known = request.DESCRIPTOR.fields_by_name
    likely = life().get(method) or life()["StartContainer"]
    for field, value in likely.ListFields():
        if field.name in known:
            getattr(request, field.name).CopyFrom(value)
    subject = request.container if "container" in known else request.pod
    _replace(request.pod, pod or {})
    for name, value in fields.items():
        _replace(request if name in known else subject, {name: value})
    return cast(Message, request)


def without_processes(request: Message) -> Message:
    """Returns a copy without pids and paths of namespaces: on this machine, these would belong to other processes."""
    copied: Any = deepcopy(request)
    for subject in (copied.pod, copied.container) if hasattr(copied, "container") else (copied.pod,):
        subject.ClearField("pid")
        for namespace in subject.linux.namespaces:
            namespace.ClearField("path")
    return cast(Message, copied)


def adapted(pod: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Message]:
    """Returns the requests of the recording, by event, with these fields of the pod and of its container."""
    return {
        method: recorded(method, pod, **fields)
        if "container" in request.DESCRIPTOR.fields_by_name
        else recorded(method, **(pod or {}))
        for method, request in life().items()
    }


def _replace(message: Message, fields: Mapping[str, Any]) -> None:
    """Replaces fields of a message. Raises ValueError for an unknown field, TypeError for a value of another type."""
    for name, value in fields.items():
        if name not in message.DESCRIPTOR.fields_by_name:
            known = list(message.DESCRIPTOR.fields_by_name)
            place = f"{message.DESCRIPTOR.name}.{name}"
            raise ValueError(f"{place}: unknown field; did you mean `{nearest(name, known, 0) or known[0]}`?")
        try:
            if message.DESCRIPTOR.fields_by_name[name].is_repeated and isinstance(value, str):
                raise TypeError("a text is a list of its letters")
            given = type(message)(**{name: value})
        except (TypeError, ValueError) as error:
            place, kind = f"{message.DESCRIPTOR.name}.{name}", _kind(message.DESCRIPTOR.fields_by_name[name])
            raise TypeError(f"{place}: {value!r} is no value for {kind}: {error}") from None
        message.ClearField(name)
        message.MergeFrom(given)


def _kind(field: Any) -> str:
    """Returns what a field takes, in words."""
    of = field.message_type.name if field.message_type is not None else _KINDS[field.cpp_type]
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return "a dictionary of texts"
    return f"a list of {of}" if field.is_repeated else of
