"""The parts of a specification whose elements have names: maps, arrays of named objects, the environment.

A changed variable, mount, or device is removed and added. So this plugin becomes its owner, even if an earlier plugin
has set it. A changed annotation, sysctl, or network device is only set: the generator handles these in random order,
and could remove the new value. The order of elements means nothing: runtimes sort mounts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from nri.needs import NOT_FORWARDED
from nri.proto import nri_pb2 as api
from v010_adapter.base.gojson import string_map
from v010_adapter.errors import NotAdjustable
from v010_adapter.oci.limits import element
from v010_adapter.oci.parts import Part
from v010_adapter.oci.shapes import Shape, put, to_json
from v010_adapter.oci.values import Spec, as_list, as_object, members, read, text

_MARK = "-"
"""The prefix of a removed element's name in an adjustment."""


def _refuse_mark(name: str, where: str) -> None:
    if name.startswith(_MARK):
        raise NotAdjustable(where, "NRI takes a name with a leading - as a removal")


class Map(Part):
    """A map of names to strings, or to objects of a shape."""

    def _value(self, value: Any) -> Spec:
        elements = sorted(value.items())  # Go sorts; protobuf's order is random
        return {name: self._written(element) if self.shape else element for name, element in elements}

    def to_json(self, value: Any) -> str:
        return super().to_json(value) if self.shape else string_map(value)

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        old, new = members(before, place), members(after, place)
        target = getattr(self.holder(adjusted), self.name)
        for name in sorted(old.keys() - new.keys()):  # a refusal names the same one each time
            if self._irremovable:
                raise NotAdjustable(element(place, name), self._irremovable)
            put(target, _MARK + text(name, place), self.shape.message() if self.shape else "")
        for name, value in new.items():
            if name in old and old[name] == value:
                continue
            where = element(place, name)
            if not self._irremovable:
                _refuse_mark(name, where)
            text(name, where)
            message = self._read(value, where)
            if name not in old or self._read(old[name], where) != message:
                put(target, name, message)

    def _read(self, value: Any, where: str) -> Any:
        return read(self.shape, value, where) if self.shape else text(value, where)

    def apply(self, adjustment: Any, before: Any) -> Any:
        """See Part. Removals are applied first, in any order of the changes."""
        changes = self.to_oci(adjustment)
        marks = set() if self._irremovable else {name for name in changes if name.startswith(_MARK)}
        kept = {name: value for name, value in (before or {}).items() if _MARK + name not in marks}
        return {**kept, **{name: changes[name] for name in changes if name not in marks}} if changes else before


def _differences(
    old: dict[str, list[Any]], new: dict[str, list[Any]], place: str
) -> Iterator[tuple[str, str, Any, Any]]:
    """Yields name, place, old element and new element of each difference; None for an absent element."""
    for name in {**old, **new}:
        were, become = old.get(name, []), new.get(name, [])
        if were != become:
            where = element(place, name)
            if len(were) > 1 or len(become) > 1:
                raise NotAdjustable(where, "the name occurs more than once and runtimes change only the first element")
            yield name, where, were[0] if were else None, become[0] if become else None


class NamedList(Part):
    """An array of objects. One of their members is the name."""

    def __init__(
        self, field: str, shape: Shape, irremovable: str = "", *, marks: bool = False, names: Collection[str] = ()
    ) -> None:
        """See Part; the shape's required member is the name.

        `marks`: a change is a removal and an addition. `names`: the only names that runtimes accept.
        """
        super().__init__(field, shape, irremovable)
        self._key = shape.required
        self._marks = marks
        self._names = names

    def to_json(self, value: Any) -> str:
        return f"[{','.join([to_json(self.shape, element) for element in value])}]"

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        target = getattr(self.holder(adjusted), self.name)
        old, new = self._by_name(before, place), self._by_name(after, place)
        for name, where, *elements in _differences(old, new, place):
            was, becomes = (None if element is None else read(self.shape, element, where) for element in elements)
            if was != becomes:
                self._refuse(name, becomes, where)
                if becomes is None or (self._marks and was is not None):
                    target.add(**{self.shape.fields[self._key].name: _MARK + name})
                if becomes is not None:
                    target.append(becomes)

    def _refuse(self, name: str, becomes: Any, where: str) -> None:
        if self._irremovable and becomes is None:
            raise NotAdjustable(where, self._irremovable)
        if self._names and name not in self._names:
            raise NotAdjustable(where, "runtimes fail a container with an adjusted namespace of that type")
        if self._marks and becomes is not None:
            _refuse_mark(name, where)

    def _by_name(self, values: object, place: str) -> dict[str, list[Any]]:
        named: dict[str, list[Any]] = {}
        for number, value in enumerate(as_list(values, place)):
            name = value.get(self._key) if isinstance(value, dict) else None
            if not isinstance(name, str):
                where = f"{place}[{number}]"
                name = text(as_object(value, where).get(self._key), f"{where}.{self._key}")
            named.setdefault(name, []).append(value)
        return named

    def apply(self, adjustment: Any, before: Any) -> Any:
        """See Part. A changed element keeps its place.

        Of elements with the same name, the first one is removed or changed, as the generator does.
        """
        changes = self.to_oci(adjustment)
        names = [change[self._key] for change in changes]
        removals = {name for name in names if name.startswith(_MARK) and (self._marks or self._names)}
        removed = {name[1:] for name in removals} - {*names}
        result: list[Spec] = []
        places: dict[str, int] = {}
        for value in before or []:
            name = value.get(self._key, "")
            if name in removed:
                removed.discard(name)
            else:
                places.setdefault(name, len(result))
                result.append(value)
        for change, name in zip(changes, names, strict=True):
            if name not in removals:
                index = places.setdefault(name, len(result))
                result[index : index + 1] = [change]
        return result if changes else before


class Env(Part):
    """The environment, an array of `NAME=VALUE`."""

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        entries = _affected(as_list(before, place), as_list(after, place))
        old, new = (_variables(some, place) for some in entries)
        for name, where, was, becomes in _differences(old, new, place):
            if becomes is None:
                raise NotAdjustable(where, NOT_FORWARDED)
            _, equals, value = text(becomes, where).partition("=")
            if not equals or not name:
                raise NotAdjustable(where, "runtimes drop such an entry")
            _refuse_mark(name, where)
            if was is not None:
                adjusted.env.add(key=_MARK + name)
            adjusted.env.add(key=name, value=value)

    def apply(self, adjustment: Any, before: Any) -> Any:
        """See Part. A changed variable keeps its first place."""
        changes: list[api.KeyValue] = adjustment.env
        touched = {change.key.removeprefix(_MARK) for change in changes}
        added = {change.key: f"{change.key}={change.value}" for change in changes if not change.key.startswith(_MARK)}
        result = []
        for entry in before or []:
            name = entry.partition("=")[0]
            if name not in touched:
                result.append(entry)
            elif name in added:
                result.append(added.pop(name))
        return [*result, *added.values()] if touched else before


def _affected(old: list[Any], new: list[Any]) -> tuple[list[Any], list[Any]]:
    """Returns all entries of the variables that differ, or may differ. Most of a large environment stays as it is."""
    if not {*map(type, old), *map(type, new)} <= {str}:
        return old, new
    before, after = set(old), set(new)
    kept = [entry for entry in old if entry in after]
    if kept != [entry for entry in new if entry in before]:
        return old, new  # unchanged entries have moved
    affected = before ^ after
    names = {entry.partition("=")[0] for entry in affected}
    affected.update(entry for entry in kept if entry.partition("=")[0] in names)
    return [entry for entry in old if entry in affected], [entry for entry in new if entry in affected]


def _variables(entries: list[Any], place: str) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for number, entry in enumerate(entries):
        if not isinstance(entry, str):
            text(entry, f"{place}[{number}]")
        named.setdefault(entry.partition("=")[0], []).append(entry)
    return named
