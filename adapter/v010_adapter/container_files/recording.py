"""Reads recorded events: JSON objects, usually one a line, with `event`, `pod`, `container`, and all else in `extra`.

Messages may be protojson or the output of Go's encoding/json. Unknown keys are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.message import Message

from nri import events
from v010_adapter.container_files import document, nri
from v010_adapter.container_files.document import Value
from v010_adapter.errors import ConfigError


class Recorded(NamedTuple):
    """One call of a runtime: the name of its method and its request."""

    event: str
    request: Message


def read(path: os.PathLike[str]) -> Iterator[Recorded]:
    """Yields the calls of a recording. Raises ConfigError with the line."""
    for value in document.read(str(path)):
        try:
            yield _recorded(value)
        except ConfigError as error:
            raise ConfigError(error.place, f"not a recorded event: {error.reason}") from None


def _recorded(value: Value) -> Recorded:
    event, extra = value["event"].text, value["extra"]
    if event not in events.CALLS:
        raise value["event"].error(f"{event!r} is not an event")
    fields = {key: extra[key].data for key in extra.keys}
    if event == "Configure":
        names = {"config": "config", "runtime_name": "runtime", "runtime_version": "version"}
        fields = {field: extra[name].data for field, name in names.items()}
    fields |= {name: value[name].data for name in ("pod", "container")}
    return Recorded(event, nri.message(Value(value.place, fields), events.CALLS[event].request()))
