"""The calls of NRI's Plugin service: names, event numbers, message types and event masks, read from the descriptors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from google.protobuf.message import Message

from nri.errors import nearest
from nri.proto import nri_pb2
from nri.text import subject

PLUGIN = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME = "nri.pkg.api.v1alpha1.Runtime"

KNOWN_TO_ALL = 0x7FF
"""The bits that every runtime knows. NRI <= 0.9 refuses a plugin that sets other bits."""
KNOWN_SINCE_0_10 = 0x3FFF
"""The bits that NRI >= 0.10 knows. Runtimes report their NRI version since 0.12 only."""


class Call(NamedTuple):
    """A method of the Plugin service. `event` is the number of its event, 0 if there is none."""

    method: str
    handler: str
    event: int
    request: type[Message]
    response: type[Message]


def _calls() -> dict[str, Call]:
    calls = {}
    events = dict(nri_pb2.Event.items())
    messages: Mapping[str, Any] = vars(nri_pb2)
    for method in nri_pb2.DESCRIPTOR.services_by_name["Plugin"].methods:
        handler = re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower()
        request, response = messages[method.input_type.name], messages[method.output_type.name]
        calls[method.name] = Call(method.name, handler, events.get(handler.upper(), 0), request, response)
    return calls


CALLS: dict[str, Call] = _calls()
"""The calls by method name."""

BY_EVENT: dict[int, Call] = {call.event: call for call in CALLS.values() if call.event}
"""The calls that are events, by event number."""

END_HOLDS = frozenset(("StopContainer", "StopPodSandbox"))
"""The events after which a container that is held must not start."""


def named(method: str) -> Call:
    """Returns the call of an event. Raises ValueError for an unknown one, which names the most similar."""
    call = CALLS.get(method)
    if call is not None and call.event:
        return call
    known = [call.method for call in BY_EVENT.values()]
    meant = nearest(method, known, 0) or "StartContainer"
    raise ValueError(f"{method!r} is no event of NRI; did you mean {meant}?")


def mask(methods: Iterable[str]) -> int:
    """Returns the event mask of methods such as `StartContainer`; the bit of event N is N-1."""
    return sum({1 << (CALLS[method].event - 1) for method in methods})


def subject_of(request: nri_pb2.CreateContainerRequest) -> str:
    """Returns the name of a container that is being created, for the log."""
    container, pod = request.container, request.pod
    return subject("container", container.id, pod.namespace, pod.name, container.name)
