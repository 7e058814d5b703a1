"""The calls of NRI's Plugin service as data: names, numbers, message types and the event mask.

Everything is read off the descriptors, so that proto/nri.proto stays the one place where it is written down.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from google.protobuf.message import Message

from adapter.proto import nri_pb2

PLUGIN = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME = "nri.pkg.api.v1alpha1.Runtime"

KNOWN_TO_ALL = 0x7FF
"""Bits that every runtime knows; NRI <= 0.9 refuses a plugin that sets another one."""
KNOWN_SINCE_0_10 = 0x3FFF
"""Bits known to NRI >= 0.10. A runtime tells its NRI version only since 0.12."""


class Call(NamedTuple):
    """One method of the Plugin service. `event` is its number, 0 where there is none."""

    method: str
    handler: str
    event: int
    request: type[Message]
    response: type[Message]


def _calls() -> dict[str, Call]:
    calls = {}
    for method in nri_pb2.DESCRIPTOR.services_by_name["Plugin"].methods:
        handler = re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower()
        event = nri_pb2.Event.items()
        number = dict(event).get(handler.upper(), 0)
        request, response = (_class(type_.name) for type_ in (method.input_type, method.output_type))
        calls[method.name] = Call(method.name, handler, number, request, response)
    return calls


def _class(name: str) -> Any:
    return getattr(nri_pb2, name)


CALLS: dict[str, Call] = _calls()
"""Every call by the name of its method."""

BY_EVENT: dict[int, Call] = {call.event: call for call in CALLS.values() if call.event}
"""The calls that are events, by number."""


def mask(methods: Iterable[str]) -> int:
    """Returns the event mask of the events named as methods (`StartContainer`); the bit of event N is N-1."""
    bits = 0
    for method in methods:
        bits |= 1 << (CALLS[method].event - 1)
    return bits


def known(nri_version: str) -> int:
    """Returns the bits that a runtime knows which reported this NRI version, empty from older ones."""
    return KNOWN_SINCE_0_10 if nri_version else KNOWN_TO_ALL
