"""The requests of a recorded pod's life, to be played again with other fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, cast

from google.protobuf import json_format
from google.protobuf.message import Message

from nri import events

POD_LIFE = Path(__file__).with_name("pod-life.jsonl")
"""The life of a pod with one container on containerd 2.4.2: a JSON object a line."""


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
    request = cast(Any, events.CALLS[method].request())
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
    for name in fields:
        message.ClearField(name)
    message.MergeFrom(type(message)(**fields))
