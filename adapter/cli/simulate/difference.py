"""The difference of two OCI specifications as lines for people: a path, and the value before or after."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

NAME_KEYS = ("destination", "path", "type", "pageSize", "name")
"""Keys that name an element of a list."""
_MODE = re.compile(r'("fileMode": )([0-9]+)')
WHOLE = ("args",)
"""Lists that are compared as a whole."""


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Returns mark (`-` or `+`), path and value of each removal, then of each addition in the order of `after`.

    A changed value is removed and added.
    """
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    result = [("-", path, value) for path, value in old.items() if path not in new]
    for path, value in new.items():
        if old.get(path) != value:
            result += [("-", path, old[path])] if path in old else []
            result.append(("+", path, value))
    return result


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yields path and JSON text of every value that is compared as a whole. Skips empty objects and lists."""
    if isinstance(value, dict):
        for key, member in value.items():
            if "." in key:  # an annotation or a sysctl
                yield f"{path}[{key}]", _shown(member)
            else:
                yield from _leaves(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and not path.endswith(WHOLE):
        count: Counter[str] = Counter()
        for number, element in enumerate(value):
            name = _name(element, number)
            count[name] += 1
            suffix = f"#{count[name]}" if count[name] > 1 else ""
            yield f"{path}[{name}]{suffix}", _shown(element)
    else:
        yield path, _shown(value)


def _shown(value: Any) -> str:
    """Returns a value as JSON, but the mode of a device as an octal number, which people use."""
    text = json.dumps(value, ensure_ascii=False)
    return _MODE.sub(lambda match: f"{match[1]}0{int(match[2]):o}", text)


def _name(element: Any, number: int) -> str:
    if isinstance(element, dict):
        return str(next((element[key] for key in NAME_KEYS if element.get(key)), number))
    return element.partition("=")[0] if isinstance(element, str) else str(number)
