"""The merge patch that a legacy plugin may answer with: just what it changes, or the whole specification edited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from adapter.oci.fields import HOOKS, is_list, is_object, members, text
from adapter.oci.limits import ILL_TYPED, element
from adapter.oci.spec import Spec

_Merge: TypeAlias = Callable[[list[Any], list[Any], str], list[Any]]
_DIRECTIVE = "$patch"


def merged(spec: Spec, patch: object) -> Spec:
    """Returns a new specification with the patch; changes neither of them.

    Objects merge as in RFC 7396: null removes. Lists whose elements have names merge by these, as in Kubernetes'
    strategic merge: variables (one without `=` removes), mounts, devices, rlimits, namespaces; an element with
    `"$patch": "delete"` is removed. Hooks are appended where they are not there yet. All other lists are replaced.
    `cgroupsPath` at the top, where README-v0.1.0 has it, means that of `linux`. Raises NotAdjustable for what cannot be
    merged; whether the result is a specification is for `adjustment` to say.
    """
    return _object(spec, _lowered(is_object(patch, "spec")), "")


def _lowered(patch: Spec) -> Spec:
    """Returns the patch with its top `cgroupsPath` in `linux`, where the patch does not set that too."""
    if "cgroupsPath" not in patch:
        return patch
    linux = members(patch.get("linux"), "linux")
    return {key: member for key, member in patch.items() if key != "cgroupsPath"} | {
        "linux": {"cgroupsPath": patch["cgroupsPath"], **linux}
    }


def _object(before: object, patch: Spec, place: str) -> Spec:
    result = dict(before) if isinstance(before, dict) else {}
    for key, member in patch.items():
        where = f"{place}.{element('', key)}" if place else element("", key)
        if member is None:
            result.pop(key, None)
        elif merge := _LISTS.get(where):
            result[key] = merge(result.get(key) or [], is_list(member, where), where)
        elif isinstance(member, dict):
            result[key] = _object(result.get(key), member, where)
        else:
            result[key] = member
    return result


def _by_name(
    before: list[Any],
    changes: Iterable[tuple[str, Any]],
    name_of: Callable[[Any], Any],
    merge: Callable[[Any, Any], Any],
) -> list[Any]:
    """Returns a list with named changes: in the place of that name, at the end where there is none, gone for None.

    Of a name that stands there more than once the first change is for the first, and so on.
    """
    result = list(before)
    places: dict[Any, list[int]] = {}
    for index, value in enumerate(before):
        places.setdefault(name_of(value), []).append(index)
    for name, change in changes:
        if change is None:
            result = [None if value is not None and name_of(value) == name else value for value in result]
        elif waiting := places.get(name):
            index = waiting.pop(0)
            result[index] = merge(result[index], change)
        else:
            result.append(merge(None, change))
    return [value for value in result if value is not None]


def _objects_by(key: str) -> _Merge:
    """Returns what merges lists of objects by one of their members."""

    def changes(patch: list[Any], place: str) -> Iterator[tuple[str, Spec | None]]:
        for number, member in enumerate(patch):
            where = f"{place}[{number}]"
            change = dict(is_object(member, where))
            directive = change.pop(_DIRECTIVE, None)
            if directive not in (None, "delete"):
                raise ILL_TYPED.at(f"{where}.{_DIRECTIVE}", "an unknown word")
            yield text(change.get(key), f"{where}.{key}"), None if directive else change

    return lambda before, patch, place: _by_name(
        before,
        changes(patch, place),
        lambda value: value.get(key) if isinstance(value, dict) else None,
        lambda value, change: _object(value, change, f"{place}[{change[key]}]"),
    )


def _variables(before: list[Any], patch: list[Any], place: str) -> list[Any]:
    """Merges an environment; a variable that stood there without `=` and still does is left alone."""
    entries = [text(member, f"{place}[{number}]") for number, member in enumerate(patch)]
    return _by_name(
        before,
        ((entry.partition("=")[0], entry if "=" in entry or entry in before else None) for entry in entries),
        lambda entry: entry.partition("=")[0] if isinstance(entry, str) else None,
        lambda _, entry: entry,
    )


def _hooks(before: list[Any], patch: list[Any], _: str) -> list[Any]:
    return before + [hook for hook in patch if hook not in before]


_LISTS: Mapping[str, _Merge] = {
    "process.env": _variables,
    "process.rlimits": _objects_by("type"),
    "mounts": _objects_by("destination"),
    "linux.devices": _objects_by("path"),
    "linux.namespaces": _objects_by("type"),
    **{f"hooks.{stage}": _hooks for stage in HOOKS},
}
