"""Reads recorded events: one JSON object per line with `event`, `pod`, `container`, and other fields in `extra`.

Messages may be protojson or the output of Go's encoding/json. Unknown keys are ignored.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.message import Message

from adapter import paths
from adapter.errors import ConfigError
from adapter.nri import events

POD_LIFE = Path(__file__).with_name("pod-life.jsonl")
"""The life of a pod with one container on containerd 2.4.2."""


class Recorded(NamedTuple):
    """One call of a runtime: the name of its method and its request."""

    event: str
    request: Message


def read(path: Path) -> Iterator[Recorded]:
    """Yields the calls of a recording. Raises ConfigError, with the number of a bad line."""
    for number, line in enumerate(io.BytesIO(paths.given(str(path))), start=1):
        try:
            yield _recorded(json.loads(line.decode()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, json_format.ParseError) as error:
            raise ConfigError(f"{paths.called(str(path))}:{number}", f"no recorded event: {error!r}") from None


def _recorded(line: dict[str, Any]) -> Recorded:
    event = line["event"]
    extra = line.get("extra") or {}
    if event == "Configure":
        extra = {"config": extra["config"], "runtime_name": extra["runtime"], "runtime_version": extra["version"]}
    if event == "UpdateContainer" and "linux_resources" not in extra:  # an early recorder left this key out
        extra = {"linux_resources": extra}
    fields = {**extra, "pod": line.get("pod"), "container": line.get("container")}
    request = events.CALLS[event].request()
    present = {key: value for key, value in fields.items() if value is not None}
    json_format.ParseDict(present, request, ignore_unknown_fields=True)
    return Recorded(event, request)
