"""Makes text from plugins, pods and files safe to show: without control characters and values of variables."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

HIDDEN = "***"
"""Replaces the value of a variable."""
MAX_TEXT = 256 << 10
"""Maximum bytes of JSON text that is decoded for the log, because decoding takes time from the event."""
MAX_SHOWN = 4 << 10
"""Maximum bytes of one text in the state that an adapter shows."""
NAME_KEYS = ("key", "name")
"""The key of the name, if a variable is an object: `key` in NRI, `name` in Kubernetes."""


def bounded(value: Any) -> Any:
    """Returns a value for `json.dumps`. Each text longer than MAX_SHOWN bytes is cut, and marked with its size."""
    if isinstance(value, dict):
        return {bounded(key): bounded(member) for key, member in value.items()}
    if isinstance(value, list):
        return [bounded(element) for element in value]
    if not isinstance(value, str) or len(text := value.encode("utf-8", "backslashreplace")) <= MAX_SHOWN:
        return value
    return f"{text[:MAX_SHOWN].decode('utf-8', 'ignore')} … ({len(text)} bytes)"


def for_log(text: bytes, *, secrets: bool = False) -> Any:
    """Returns JSON text decoded, other text as a string. `json.dumps` accepts the result.

    Without `secrets`, the values of variables in every `env` are hidden, also in JSON inside a string. Text that is not
    JSON may have variables anywhere, so only its size is returned.
    """
    try:
        if len(text) > MAX_TEXT:
            raise ValueError("too long")
        value = _decode(text.decode("utf-8", "replace"))
        return value if secrets else _redacted(value)
    except (ValueError, RecursionError):
        if secrets:
            return text.decode("utf-8", "replace")
        return f"({len(text)} bytes)" if text else ""


def _redacted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _hide_env(member) if key.lower() == "env" else _redacted(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_redacted(element) for element in value]
    if isinstance(value, str) and value.lstrip().startswith(("{", "[", '"')):
        with suppress(ValueError):  # it is not JSON; kubectl's last-applied annotation is
            return json.dumps(_redacted(_decode(value)))
    return value


def _hide_env(env: Any) -> Any:
    """Returns the value of an `env` key with the values of its variables hidden."""
    if isinstance(env, dict):
        return dict.fromkeys(env, HIDDEN)
    if isinstance(env, list):
        return [_hide_variable(variable) for variable in env]
    return env and HIDDEN


def _hide_variable(variable: Any) -> Any:
    if isinstance(variable, str):
        name, equals, value = variable.partition("=")
        return f"{name}{equals}{value and HIDDEN}"
    if isinstance(variable, dict):
        return {
            key: member if key.lower() in NAME_KEYS and isinstance(member, str) else HIDDEN
            for key, member in variable.items()
        }
    return variable and HIDDEN


def _float(text: str) -> float | str:
    """Returns a number, or its text if it is too large for a float: JSON has no infinity."""
    number = float(text)
    return number if math.isfinite(number) else text


_decode = json.JSONDecoder(strict=False, parse_float=_float, parse_constant=str).decode
