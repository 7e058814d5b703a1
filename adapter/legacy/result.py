"""What a legacy plugin prints: one JSON document, read as the original client read it.

Source: containerd/nri types/v1/types.go (Result) and client.go (invokePlugin).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adapter import gojson

_TEXTS = ("plugin", "version", "error")
_WISHES = {"spec": "spec", "cgroupspath": "cgroups_path", "adjust": "adjust", "updates": "updates"}


class ResultError(ValueError):
    """Output that is no result; its text says what is wrong with it and where."""


class Result(NamedTuple):
    """A plugin's answer. A non-empty `error` is a failure.

    The original knew the first four. The others are what the plugin wishes for, as JSON that nobody has looked at yet;
    None where it wishes for nothing.
    """

    plugin: str = ""
    version: str = ""
    error: str = ""
    metadata: dict[str, str] = {}  # noqa: RUF012 - never changed
    spec: Any = None
    cgroups_path: Any = None
    adjust: Any = None
    updates: Any = None

    def encode(self) -> bytes:
        """Returns it as JSON for the `results` of the plugins behind it: these keys only, as the original had them."""
        data: dict[str, object] = {"plugin": self.plugin, "version": self.version, "error": self.error}
        if self.metadata:
            data["metadata"] = dict(sorted(self.metadata.items()))
        return gojson.dumps(data)


def parse(output: bytes) -> Result:
    """Returns the result that a plugin printed; `null` is an empty one, unknown keys are ignored.

    Raises ResultError.
    """
    try:
        decoded = gojson.decode(output, levels=2)
    except gojson.JSONError as error:
        raise ResultError(str(error) if output.strip() else "no output") from None
    if decoded is None:
        return Result()
    if not isinstance(decoded, gojson.Object):
        raise ResultError(f"the result is {gojson.kind(decoded)}, not an object")
    texts = dict.fromkeys(_TEXTS, "")
    metadata: dict[str, str] = {}
    wishes: dict[str, Any] = {}
    for name, value in decoded:
        key = gojson.fold(name)
        if key in texts:
            texts[key] = _text(name, value, texts[key])
        elif key == "metadata":
            _add_metadata(metadata, name, value)
        elif key in _WISHES:
            wishes[_WISHES[key]] = value
    return Result(texts["plugin"], texts["version"], texts["error"], metadata, **wishes)


def is_complete(output: bytes) -> bool:
    """Whether a plugin that is still running has already printed a whole result."""
    try:
        parse(output)
    except ResultError:
        return False
    return True


def _text(name: str, value: Any, unset: str) -> str:
    """Returns a string member's value; null leaves what was there, as in Go."""
    if value is None:
        return unset
    if not isinstance(value, str):
        raise ResultError(f"{name!r} is {gojson.kind(value)}, not a string")
    return value


def _add_metadata(metadata: dict[str, str], name: str, value: Any) -> None:
    """Adds a member `metadata` to what an earlier one of that name had; null forgets it, as in Go."""
    if value is None:
        metadata.clear()
        return
    if not isinstance(value, gojson.Object):
        raise ResultError(f"{name!r} is {gojson.kind(value)}, not an object")
    for key, text in value:
        metadata[key] = _text(f"{name}.{key}", text, "")
