"""What a legacy plugin prints: one JSON document, read as the original client read it.

Source: containerd/nri types/v1/types.go (Result) and client.go (invokePlugin).
"""

from __future__ import annotations

from typing import NamedTuple

from adapter import gojson

_TEXTS = ("plugin", "version", "error")


class ResultError(ValueError):
    """Output that is no result; its text says what is wrong with it and where."""


class Result(NamedTuple):
    """A plugin's answer. A non-empty `error` is a failure."""

    plugin: str = ""
    version: str = ""
    error: str = ""
    metadata: dict[str, str] = {}  # noqa: RUF012 - never changed

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
        document = gojson.document(output)
    except gojson.JSONError as error:
        raise ResultError(str(error) if output.strip() else "no output") from None
    if document == b"null":
        return Result()
    if document[:1] != b"{":
        raise ResultError(f"the result is {gojson.kind(document)}, not an object")
    texts = dict.fromkeys(_TEXTS, "")
    metadata: dict[str, str] = {}
    for member in gojson.members(document):
        key = gojson.fold(member.key)
        if key in texts:
            texts[key] = _text(member, texts[key])
        elif key == "metadata":
            _add_metadata(metadata, member)
    return Result(texts["plugin"], texts["version"], texts["error"], metadata)


def is_complete(output: bytes) -> bool:
    """Whether a plugin that is still running has already printed a whole result."""
    try:
        parse(output)
    except ResultError:
        return False
    return True


def _text(member: gojson.Member, unset: str) -> str:
    """Returns a string member's value; null leaves what was there, as in Go."""
    if member.value == b"null":
        return unset
    if member.value[:1] != b'"':
        raise ResultError(f"{member.key!r} is {gojson.kind(member.value)}, not a string")
    return gojson.string(member.value)


def _add_metadata(metadata: dict[str, str], member: gojson.Member) -> None:
    """Adds a member `metadata` to what an earlier one of that name had; null forgets it, as in Go."""
    if member.value == b"null":
        metadata.clear()
        return
    if member.value[:1] != b"{":
        raise ResultError(f"{member.key!r} is {gojson.kind(member.value)}, not an object")
    for entry in gojson.members(member.value):
        metadata[entry.key] = _text(gojson.Member(f"{member.key}.{entry.key}", entry.value, entry.offset), "")
