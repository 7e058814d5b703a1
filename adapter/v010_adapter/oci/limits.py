"""The places and reasons of refused changes: NRI cannot express them, or runtimes would lose them.

docs/adjusting-containers.md lists all changes that this package refuses.
"""

from __future__ import annotations

from v010_adapter.errors import NotAdjustable

_LONGEST_NAME = 100


def element(place: str, name: str) -> str:
    """Returns the place of an element of a list or map. An unprintable name is escaped, a long name is cut."""
    return f"{place}[{_shown(name)}]"


def inside(place: str, key: str) -> str:
    """Returns the place of a member of an object; `place` is empty for the whole specification."""
    shown = _shown(key) or '""'
    return f"{place}.{shown}" if place else shown


def _shown(name: str) -> str:
    name = name[:_LONGEST_NAME]
    return name if name.isprintable() else name.encode("unicode_escape").decode()


def ill_typed(place: str, detail: str) -> NotAdjustable:
    """Returns the refusal of a value that the specification does not allow at a place."""
    return NotAdjustable(place, f"a wrong value: {detail}")


NOWHERE = "NRI has no field for it"
ZERO = "runtimes take 0 as no change"
UPDATE = "updates do not carry it"
