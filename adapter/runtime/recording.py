"""Reads recorded events: one JSON object a line with `event`, `pod`, `container` and what else came in `extra`.

Both protojson and what Go's encoding/json makes of the messages can be read; other keys are the recorder's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.message import Message

from adapter.errors import ConfigError
from adapter.nri import events

POD_LIFE = Path(__file__).with_name("pod-life.jsonl")
"""The life of a pod with one container on containerd 2.4.2."""


class Recorded(NamedTuple):
    """One call of a runtime: the name of its method and its request."""

    event: str
    request: Message


def read(path: Path) -> Iterator[Recorded]:
    """Yields the calls of a recording. Raises ConfigError for a line that is none, and OSError."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield _recorded(json.loads(line.decode()))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, json_format.ParseError) as error:
                raise ConfigError(f"{path}:{number}", f"no recorded event: {error!r}") from None


def _recorded(line: dict[str, Any]) -> Recorded:
    event = line["event"]
    request = events.CALLS[event].request()
    fields = {key: value for key, value in _extra(event, line.get("extra") or {}).items() if value is not None}
    fields |= {key: line[key] for key in ("pod", "container") if line.get(key) is not None}
    json_format.ParseDict(fields, request, ignore_unknown_fields=True)
    return Recorded(event, request)


def _extra(event: str, extra: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields besides pod and container under the names that they have in the request."""
    if event == "Configure":
        return {"config": extra["config"], "runtime_name": extra["runtime"], "runtime_version": extra["version"]}
    if event == "UpdateContainer" and "linux_resources" not in extra:
        return {"linux_resources": extra}  # an early recorder put them there as they are
    return extra
