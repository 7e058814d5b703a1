"""Reads recorded events: one JSON object per line with `event`, `pod`, `container`, and other fields in `extra`.

Messages may be protojson or the output of Go's encoding/json. Unknown keys are ignored.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path as File
from typing import NamedTuple

from google.protobuf.message import Message

from adapter import paths
from adapter.container_files import nri
from adapter.container_files.document import Path, Value
from adapter.errors import ConfigError, reason_of
from adapter.nri import events

POD_LIFE = File(__file__).with_name("pod-life.jsonl")
"""The life of a pod with one container on containerd 2.4.2."""


class Recorded(NamedTuple):
    """One call of a runtime: the name of its method and its request."""

    event: str
    request: Message


def read(path: os.PathLike[str]) -> Iterator[Recorded]:
    """Yields the calls of a recording. Raises ConfigError, with the number of a bad line."""
    name = paths.called(str(path))
    for number, line in enumerate(io.BytesIO(paths.given(str(path))), start=1):
        place = f"{name}:{number}"
        try:
            yield _recorded(Value(partial(_place, place), json.loads(paths.text(line, name))))
        except (ConfigError, ValueError, RecursionError) as error:
            raise ConfigError(place, f"no recorded event: {_reason(error)}") from None


def _place(place: str, _path: Path) -> str:
    return place


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else reason_of(error)


def _recorded(line: Value) -> Recorded:
    event, extra = line["event"].text, line["extra"]
    if event not in events.CALLS:
        raise line["event"].error(f"{event!r} is no event")
    fields = {key: extra[key].data for key in extra.keys}
    if event == "Configure":
        names = {"config": "config", "runtime_name": "runtime", "runtime_version": "version"}
        fields = {field: extra[name].data for field, name in names.items()}
    if event == "UpdateContainer" and "linux_resources" not in fields:  # an early recorder left this key out
        fields = {"linux_resources": fields}
    fields |= {name: line[name].data for name in ("pod", "container")}
    return Recorded(event, nri.message(Value(line.place, fields), events.CALLS[event].request()))
