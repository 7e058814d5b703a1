"""The result that a legacy plugin prints: one JSON document, read as the original client read it.

Source: containerd/nri types/v1/types.go (Result) and client.go (invokePlugin).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from v010_adapter.base import gojson

_TEXTS = ("plugin", "version", "error")
_WISHES = {"spec": "spec", "cgroupspath": "cgroups_path", "adjust": "adjust", "updates": "updates"}
CACHED, CACHED_LENGTH = 64, 512
"""The number of cached results, and the maximum bytes of one: most plugins print the same at each event."""


class ResultError(ValueError):
    """Output that is no result; the message says what is wrong and where."""


class Result(NamedTuple):
    """A plugin's answer. A non-empty `error` is a failure.

    The original client knew the first four members. The others are the changes that the plugin asks for, decoded but
    not yet checked; None where it asks for nothing.
    """

    plugin: str = ""
    version: str = ""
    error: str = ""
    metadata: dict[str, str] = {}  # noqa: RUF012 - never changed
    spec: Any = None
    cgroups_path: Any = None
    adjust: Any = None
    updates: Any = None

    @property
    def has_wishes(self) -> bool:
        """Whether the result has a key for changes, even if there are no changes in it."""
        return (self.spec, self.cgroups_path, self.adjust, self.updates) != (None, None, None, None)

    def wishes(self) -> list[str]:
        """Returns the keys of the changes that the plugin asks for."""
        return [key for key in ("spec", "adjust", "updates") if getattr(self, key)]

    def original(self) -> Result:
        """Returns the result as the original client read it: without wishes."""
        return Result(self.plugin, self.version, self.error, self.metadata)

    def encode(self) -> bytes:
        """Returns the JSON for `results` in the requests of later plugins: the original client's keys only."""
        quote = gojson.quote
        text = f'{{"plugin":{quote(self.plugin)},"version":{quote(self.version)},"error":{quote(self.error)}'
        if self.metadata:
            text += f',"metadata":{gojson.string_map(self.metadata)}'
        return gojson.marshalled(text + "}")


def parse(output: bytes) -> Result:
    """Returns the result that a plugin printed; `null` is an empty one, unknown keys are ignored.

    The result must not be changed: the next one may be the same object. Raises ResultError.
    """
    return _cached(output) if len(output) <= CACHED_LENGTH else _parsed(output)


def _parsed(output: bytes) -> Result:
    try:
        decoded = gojson.decode(output, levels=2)
    except gojson.JSONError as error:
        raise ResultError(str(error) if output.strip() else "no output") from None
    if decoded is None:
        return Result()
    if not isinstance(decoded, gojson.Object):
        raise ResultError(f"the result is {gojson.kind(decoded)}, not an object")
    members: dict[str, Any] = {"metadata": {}}
    for name, value in decoded:
        key = gojson.fold(name)
        if key in _TEXTS:
            members[key] = _text(name, value, members.get(key, ""))
        elif key == "metadata":
            _add_metadata(members[key], name, value)
        elif key in _WISHES:
            members[_WISHES[key]] = value
    return Result(**members)


_cached = lru_cache(CACHED)(_parsed)


def is_complete(output: bytes) -> bool:
    """Whether a plugin that is still running has already printed a whole result."""
    try:
        parse(output)
    except ResultError:
        return False
    return True


def _text(name: str, value: Any, unset: str) -> str:
    """Returns a string member's value; null leaves the value unchanged, as in Go."""
    if value is None:
        return unset
    if not isinstance(value, str):
        raise ResultError(f"{name!r} is {gojson.kind(value)}, not a string")
    return value


def _add_metadata(metadata: dict[str, str], name: str, value: Any) -> None:
    """Adds a member `metadata` to an earlier one of that name; null clears it, as in Go."""
    if value is None:
        metadata.clear()
        return
    if not isinstance(value, gojson.Object):
        raise ResultError(f"{name!r} is {gojson.kind(value)}, not an object")
    for key, text in value:
        metadata[key] = _text(f"{name}.{key}", text, "")
