"""Restores large numbers that a tool with floats only, such as jq up to 1.6, has rounded."""

from __future__ import annotations

import json
from typing import Any

_EXACT = 1 << 53
"""A float can represent every integer up to this one."""
_LARGEST = 1 << 65
"""All numbers of a specification are smaller."""


def restore_precision(before: Any, after: Any) -> Any:
    """Returns `after` with the original numbers of `before` wherever both are the same float.

    An element of a list is compared as a whole with each element of the other list.
    """
    if before == after:
        return before  # `before`, because 0 == False and 1 == True, and the types must not change
    if isinstance(before, dict) and isinstance(after, dict):
        return {key: restore_precision(before.get(key), member) for key, member in after.items()}
    if isinstance(before, list) and isinstance(after, list):
        originals = {_text(element): element for element in before}
        return [originals.get(_text(element), element) for element in after]
    return before if _is_large(before) and _is_large(after) and float(before) == float(after) else after


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and _EXACT <= abs(value) < _LARGEST


def _text(value: Any) -> str:
    """Returns the JSON of a value with rounded numbers, as such a tool writes it."""
    return json.dumps(_rounded(value), sort_keys=True)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_rounded(element) for element in value]
    return float(value) if _is_large(value) else value
