"""Generated edits: what a plugin that knows the specification may do to one, and anything at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from v010_adapter.oci.values import Spec

from .cases import CHANGES, FULL, NAMED, POINTERS, Path, copied, put

NAMES = ["a", "-a", "", "A", "é", "/data", "/data/sub", "/", "FOO", "RLIMIT_NOFILE", "pid", "time", "2MB", "eth0"]
SCALARS = st.one_of(
    st.sampled_from([None, True, False, 0, 1, -1, 5.0, 1 << 31, 1 << 32, 1 << 63, -(1 << 63), 1 << 64, float("nan")]),
    st.integers(),
    st.sampled_from([*NAMES, "\0", "\ud800", "A=1", "=x", "SCHED_FIFO", "SCHED_NONE", "MPOL_BIND", "x" * 200, "\n"]),
    st.text(max_size=5),
)


def keys_in(value: Any) -> set[str]:
    """The names of all members of an object, and of the objects in it."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set(value if isinstance(value, dict) else ()).union(*map(keys_in, inside))


OTHER_KEYS = {
    *("root", "readonly", "memoryPolicy", "mode", "nodes", "flags", "poststop", "prestart", "uidMappings", "source"),
}
KEYS = st.sampled_from(sorted(OTHER_KEYS | POINTERS | set(NAMED.values()) | keys_in(FULL))) | st.sampled_from(NAMES)
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)

Edit = Callable[[Spec], None]


def _changes(path: Path, value: Any) -> Edit:
    return lambda spec: put(spec, path, value)


# Null and an empty object say what absence says; programs write that as absence.
GOOD_EDITS: st.SearchStrategy[Edit] = st.sampled_from(
    [_changes(path, value) for path, value in CHANGES if value not in (None, {})]
)
"""What can be expressed of FULL; of another specification, or two of them together, need not be."""


def _within(value: Any) -> list[Any]:
    return sorted(value) if isinstance(value, dict) else list(range(len(value)))


def _anywhere(numbers: list[int], value: Any, how: str) -> Edit:
    """Goes down by the numbers, and there sets, removes, inserts, or doubles."""

    def change(spec: Spec) -> None:
        target: Any = spec
        for number in numbers:
            inner = _within(target)
            child = target[inner[number % len(inner)]] if inner else None
            if not isinstance(child, dict | list):
                break
            target = child
        inner = _within(target)
        key = inner[numbers[0] % len(inner)] if inner else None
        if how == "insert" or key is None:
            if isinstance(target, dict):
                target[value if isinstance(value, str) else "a"] = 1
            else:
                target.insert(numbers[0] % (len(target) + 1), copied(value))
        elif how == "remove":
            del target[key]
        elif how == "double" and isinstance(target, list):
            target.append(copied(target[key]))
        else:
            target[key] = copied(value)

    return change


BAD_EDITS: st.SearchStrategy[Edit] = st.builds(
    _anywhere,
    st.lists(st.integers(0, 20), min_size=1, max_size=5),
    ANY,
    st.sampled_from(["set", "insert", "remove", "double"]),
)


def after(before: Spec, edits: list[Edit]) -> Spec:
    """Returns a copy with all the edits; one that finds no place for itself any more is left out."""
    result = copied(before)
    for edit in edits:
        try:
            edit(result)
        except (TypeError, AttributeError, KeyError, IndexError):
            continue
    return dict(result)


SPECS = st.one_of(
    st.just(FULL),
    st.just({"process": {"args": ["a"], "env": []}, "linux": {"resources": {}}}),
    st.lists(GOOD_EDITS, max_size=8).map(lambda edits: after(FULL, edits)),
)
