"""What has changed between two OCI specifications, as lines for people: a path, and what stood or stands there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

NAMES = ("destination", "path", "type", "pageSize", "name")
"""What elements of lists are called by."""
WHOLE = ("args",)
"""Lists that mean something as a whole only."""


class Change(NamedTuple):
    """One thing that stands in only one of two specifications; `mark` is `-` or `+`."""

    mark: str
    path: str
    value: str


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Returns what is gone and what is new, in the order of the later specification; what is changed is both."""
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    found = [Change("-", path, value) for path, value in old.items() if path not in new]
    for path, value in new.items():
        if old.get(path) != value:
            found += [Change("-", path, old[path])] if path in old else []
            found.append(Change("+", path, value))
    return found


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yields every value that is looked at as a whole, with its path; what is empty is as good as absent."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from (
                _leaves(member, f"{path}.{key}" if path else key)
                if "." not in key
                else [(f"{path}[{key}]", _text(member))]
            )
    elif isinstance(value, list) and not path.endswith(WHOLE):
        seen: dict[str, int] = {}
        for number, element in enumerate(value):
            name = _name(element, number)
            seen[name] = seen.get(name, 0) + 1
            again = f"#{seen[name]}" if seen[name] > 1 else ""
            yield f"{path}[{name}]{again}", _text(element)
    else:
        yield path, _text(value)


def _name(element: Any, number: int) -> str:
    if isinstance(element, dict):
        return str(next((element[name] for name in NAMES if element.get(name)), number))
    return element.partition("=")[0] if isinstance(element, str) else str(number)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
