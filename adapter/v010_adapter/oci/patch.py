"""Merges the patch in a legacy plugin's result into a specification. A patch may be a whole specification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from v010_adapter.oci.limits import ill_typed, inside
from v010_adapter.oci.precision import restore_precision
from v010_adapter.oci.spec import HOOK, HOOKS
from v010_adapter.oci.values import Spec, as_list, as_object, members, read_list, text, texts

_Merge: TypeAlias = Callable[[list[Any], list[Any], str], list[Any]]
_DIRECTIVE = "$patch"


def merged(spec: Spec, patch: object) -> Spec:
    """Returns a new specification with the patch; neither argument is changed.

    Objects merge as in RFC 7396: null removes. Lists whose elements have names merge by name, as in Kubernetes'
    strategic merge: variables (one without `=` removes), mounts, devices, rlimits, namespaces; an element with
    `"$patch": "delete"` is removed. Hooks are appended where they are not there yet. All other lists are replaced.
    A `cgroupsPath` at the top, as in README-v0.1.0, means `linux.cgroupsPath`. Raises NotAdjustable for a patch that
    cannot be merged. `adjustment` checks whether the result is a valid specification.
    """
    return _object(spec, in_order(patch), "")


def in_order(patch: object) -> Spec:
    """Returns the patch with its top `cgroupsPath` moved to `linux`, unless the patch has one there too.

    Raises NotAdjustable if it is no object.
    """
    moved = as_object(patch, "spec")
    if "cgroupsPath" not in moved:
        return moved
    moved = dict(moved)
    moved["linux"] = {"cgroupsPath": moved.pop("cgroupsPath"), **members(moved.get("linux"), "linux")}
    return moved


def _object(before: object, patch: Spec, place: str) -> Spec:
    result = dict(before) if isinstance(before, dict) else {}
    for key, member in patch.items():
        where = inside(place, key)
        if member is None:
            result.pop(key, None)
        elif merge := _LISTS.get(where):
            result[key] = merge(result.get(key) or [], as_list(member, where), where)
        elif isinstance(member, dict):
            result[key] = _object(result.get(key), member, where)
        else:
            result[key] = restore_precision(result.get(key), member)
    return result


def _by_name(
    before: list[Any],
    changes: Iterable[tuple[str, Any]],
    name_of: Callable[[Any], Any],
    merge: Callable[[Any, Any], Any],
) -> list[Any]:
    """Returns a list with named changes: an element with a new name is appended, a change of None removes elements.

    If several elements have the same name, the first change is for the first element, and so on.
    """
    result, changes = list(before), list(changes)
    places: dict[Any, list[int]] = {name: [] for name, _ in changes}
    for index, value in enumerate(before):
        if (name := name_of(value)) in places:
            places[name].append(index)
    waiting = {name: iter(list(indexes)) for name, indexes in places.items()}
    for name, change in changes:
        if change is None:
            for index in places.pop(name, ()):
                result[index] = None
            continue
        index = next(waiting.get(name, iter(())), len(result))
        if index == len(result):
            result.append(None)
        result[index] = merge(result[index], change)
        places.setdefault(name, []).append(index)
    return [value for value in result if value is not None]


def _objects_by(key: str) -> _Merge:
    """Returns the function that merges lists of objects by one of their members."""

    def changes(patch: list[Any], place: str) -> Iterator[tuple[str, Spec | None]]:
        for number, member in enumerate(patch):
            where = f"{place}[{number}]"
            change = dict(as_object(member, where))
            directive = change.pop(_DIRECTIVE, None)
            if directive not in (None, "delete"):
                raise ill_typed(f"{where}.{_DIRECTIVE}", "an unknown word")
            yield text(change.get(key), f"{where}.{key}"), None if directive else change

    return lambda before, patch, place: _by_name(
        before,
        changes(patch, place),
        lambda value: value.get(key) if isinstance(value, dict) else None,
        lambda value, change: _object(value, change, f"{place}[{change[key]}]"),
    )


def _variables(before: list[Any], patch: list[Any], place: str) -> list[Any]:
    """Merges an environment. An old entry without `=` is kept."""
    entries = texts(patch, place)
    removed = {entry for entry in entries if "=" not in entry}
    if removed:
        removed.difference_update(entry for entry in before if isinstance(entry, str))
    return _by_name(
        before,
        ((entry.partition("=")[0], None if entry in removed else entry) for entry in entries),
        lambda entry: entry.partition("=")[0] if isinstance(entry, str) else None,
        lambda _, entry: entry,
    )


def _hooks(before: list[Any], patch: list[Any], place: str) -> list[Any]:
    """Appends new hooks. Hooks that differ only in their form, such as an explicit null, are the same hook."""
    result = list(before)
    known = set(_encoded(before, place))
    for hook, encoded in zip(patch, _encoded(restore_precision(before, patch), place), strict=True):
        if encoded not in known:
            known.add(encoded)
            result.append(hook)
    return result


def _encoded(hooks: list[Any], place: str) -> list[bytes]:
    return [message.SerializeToString() for message in read_list(HOOK, hooks, place)]


_LISTS: Mapping[str, _Merge] = {
    "process.env": _variables,
    "process.rlimits": _objects_by("type"),
    "mounts": _objects_by("destination"),
    "linux.devices": _objects_by("path"),
    "linux.namespaces": _objects_by("type"),
    **{f"hooks.{stage}": _hooks for stage in HOOKS},
}
