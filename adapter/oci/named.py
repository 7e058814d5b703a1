"""What differs in the maps and lists of a specification whose elements have names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adapter.oci import fields, limits
from adapter.oci.fields import Shape, is_list, is_object, members, read, text
from adapter.oci.limits import Limit, element
from adapter.proto import nri_pb2 as api

_NAMESPACES = {"network", "pid", "mount", "ipc", "uts", "user", "cgroup"}

# Maps of strings.


def _strings(target: Any, before: object, after: object, place: str) -> None:
    old, new = members(before, place), members(after, place)
    for name in old:
        if name not in new:
            target["-" + text(name, place)] = ""
    for name, value in new.items():
        if name not in old or old[name] != value:
            where = _addable(name, place)
            target[name] = text(value, where)


def _addable(name: str, place: str) -> str:
    """Returns the place of a name. Raises NotAdjustable where NRI would take the name for another's removal."""
    where = element(place, name)
    if name.startswith("-"):
        raise limits.MARKED.at(where)
    text(name, where)
    return where


def change_annotations(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    """Marks what is gone and sets what is new or changed."""
    _strings(adjusted.annotations, before, after, place)


def change_sysctl(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    """Marks what is gone and sets what is new or changed; runtimes before NRI 0.12.5 lose the former."""
    _strings(adjusted.linux.sysctl, before, after, place)


def change_net_devices(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    """Marks what is gone and sets what is new or changed."""
    old, new = members(before, place), members(after, place)
    for name in old:
        if name not in new:
            adjusted.linux.net_devices.get_or_create("-" + text(name, place))
    for name, value in new.items():
        if name not in old or old[name] != value:
            where = _addable(name, place)
            device = read(fields.NET_DEVICE, value, where)
            if name not in old or read(fields.NET_DEVICE, old[name], where) != device:
                adjusted.linux.net_devices[name].CopyFrom(device)


# Lists whose elements have names.


def _by_name(values: object, key: str, place: str) -> dict[str, list[Any]]:
    """Returns the objects of a list by their names."""
    named: dict[str, list[Any]] = {}
    for number, value in enumerate(is_list(values, place)):
        name = value.get(key) if isinstance(value, dict) else None
        if not isinstance(name, str):
            where = f"{place}[{number}]"
            name = text(is_object(value, where).get(key), f"{where}.{key}")
        named.setdefault(name, []).append(value)
    return named


def _changed(shape: Shape, key: str, before: object, after: object, place: str) -> Iterable[tuple[str, Any, Any]]:
    """Yields name, old and new message of what differs; None for what is not there."""
    old, new = _by_name(before, key, place), _by_name(after, key, place)
    for name in {**old, **new}:
        were, become = old.get(name, []), new.get(name, [])
        if were != become:
            where = element(place, name)
            if len(were) > 1 or len(become) > 1:
                raise limits.REPEATED.at(where)
            was, becomes = (read(shape, values[0], where) if values else None for values in (were, become))
            if was != becomes:
                yield name, was, becomes


def change_mounts(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    """Marks what is gone; marks and adds what is changed, as runtimes sort."""
    for name, was, becomes in _changed(fields.MOUNT, "destination", before, after, place):
        if was is not None:
            adjusted.mounts.add(destination="-" + name)
        if becomes is not None:
            _addable(name, place)
            adjusted.mounts.append(becomes)
    _keep_order(_destinations(before), _destinations(after), place)


def _destinations(mounts: object) -> list[str]:
    return [mount["destination"] for mount in mounts] if isinstance(mounts, list) else []


def _keep_order(before: list[str], after: list[str], place: str) -> None:
    """Refuses to hide or show a mount by the order of those that stay; where a new one stands says nothing."""
    old, new = ([name for name in names if name in others] for names, others in ((before, after), (after, before)))
    if old != new:
        for name in sorted({*_hiding(old)} ^ {*_hiding(new)}):
            raise limits.MOUNT_ORDER.at(element(place, name))


def _hiding(destinations: list[str]) -> list[str]:
    """Returns the destinations that stand behind one inside them, and so hide it."""
    above: set[str] = set()
    found = []
    for destination in destinations:
        path = destination.rstrip("/")
        if path in above:
            found.append(destination)
        while "/" in path and (path := path.rpartition("/")[0]) not in above:
            above.add(path)
    return found


def change_rlimits(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    """Adds what is new or changed."""
    for name, _, becomes in _changed(fields.RLIMIT, "type", before, after, place):
        adjusted.rlimits.append(_kept(becomes, limits.RLIMIT_KEPT, place, name))


def change_devices(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    """Adds what is new; marks and adds what is changed."""
    for name, was, becomes in _changed(fields.DEVICE, "path", before, after, place):
        _kept(becomes, limits.DEVICE_KEPT, place, name)
        _addable(name, place)
        if was is not None:
            adjusted.linux.devices.add(path="-" + name)
        adjusted.linux.devices.append(becomes)


def _kept(message: Any, limit: Limit, place: str, name: str) -> Any:
    if message is None:
        raise limit.at(element(place, name))
    return message


def change_namespaces(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    """Marks what is gone and sets what is new or changed."""
    for name, _, becomes in _changed(fields.NAMESPACE, "type", before, after, place):
        if name not in _NAMESPACES:
            raise limits.NAMESPACE.at(element(place, name))
        if becomes is None:
            adjusted.linux.namespaces.add(type="-" + name)
        else:
            adjusted.linux.namespaces.append(becomes)


def change_env(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    """Adds what is new; marks and adds what is changed."""
    old, new = _variables(before, place), _variables(after, place)
    for name in old:
        if name not in new:
            raise limits.ENV_REMOVED.at(element(place, name))
    for name, entries in new.items():
        if entries != old.get(name):
            _variable(adjusted, name, old.get(name, []), entries, place)


def _variables(entries: object, place: str) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for number, entry in enumerate(is_list(entries, place)):
        if not isinstance(entry, str):
            text(entry, f"{place}[{number}]")
        named.setdefault(entry.partition("=")[0], []).append(entry)
    return named


def _variable(adjusted: api.ContainerAdjustment, name: str, old: list[str], new: list[str], place: str) -> None:
    where = element(place, name)
    if len(old) > 1 or len(new) > 1:
        raise limits.REPEATED.at(where)
    _, equals, value = text(new[0], where).partition("=")
    if not equals or not name:
        raise limits.ENV_BARE.at(where)
    _addable(name, place)
    if old:
        adjusted.env.add(key="-" + name)
    adjusted.env.add(key=name, value=value)
