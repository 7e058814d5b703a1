"""Restores large numbers that a plugin's tool has rounded: jq up to 1.6, for example, has no integers, only floats."""

from __future__ import annotations

import json
from typing import Any

_EXACT = 1 << 53
"""A float can represent every integer up to this one."""
_LARGEST = 1 << 65
"""All numbers of a specification are smaller."""


def restore_precision(before: Any, after: Any) -> Any:
    """Returns `after`. A number in it that is the same float as the number of `before` becomes that number.

    In a list, a new element becomes the element of `before` that has the same JSON when its large numbers are rounded.
    Only elements with large numbers are compared, by their JSON, so the time grows linearly with the lists.
    """
    if before == after:
        return before  # not `after`: 0 == False and 1 == True, and the types must not change
    if isinstance(before, dict) and isinstance(after, dict):
        return {key: restore_precision(before.get(key), member) for key, member in after.items()}
    if isinstance(before, list) and isinstance(after, list):
        if {*map(type, after)} <= {str}:
            return after
        known = set(map(id, before))
        doubtful = {id(element): element for element in after if id(element) not in known and _may_be_rounded(element)}
        if not doubtful:
            return after
        originals = {_text(element): element for element in before if _may_be_rounded(element)}
        return [originals.get(_text(one), one) if id(one) in doubtful else one for one in after]
    return before if _is_large(before) and _is_large(after) and float(before) == float(after) else after


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and _EXACT <= abs(value) < _LARGEST


def _may_be_rounded(value: Any) -> bool:
    """Whether there is a large number in a value."""
    if isinstance(value, dict):
        return any(map(_may_be_rounded, value.values()))
    return any(map(_may_be_rounded, value)) if isinstance(value, list) else _is_large(value)


def _text(value: Any) -> str:
    """Returns the JSON of a value with rounded numbers, as a tool without integers writes it."""
    return json.dumps(_rounded(value), sort_keys=True)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_rounded(element) for element in value]
    return float(value) if _is_large(value) else value
