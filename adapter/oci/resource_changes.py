"""What turns one set of cgroup resources into another, in NRI's terms: for a new container, and for an update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import Message

from adapter.errors import NotAdjustable
from adapter.oci import fields, limits
from adapter.oci.fields import is_list, is_object, members, read, text
from adapter.oci.limits import element
from adapter.proto import nri_pb2 as api

_Change = Callable[[api.LinuxResources, Any, Any, str], None]


def resources_to(before: Mapping[str, Any], after: Mapping[str, Any]) -> api.LinuxResources:
    """Returns what an update has to carry to turn `before`, resources as OCI's JSON, into `after`: only what changes.

    Raises NotAdjustable, with places in `linux.resources`, also for what updates lose on their way. Source: containerd
    internal/cri/nri/nri_api_linux.go (toCRIResources).
    """
    resources = api.LinuxResources()
    change_resources(resources, before, is_object(after, "linux.resources"), "linux.resources")
    lost = _lost(resources)
    if lost is not None:
        raise lost
    return resources


def _lost(resources: api.LinuxResources) -> NotAdjustable | None:
    """Returns the refusal of what an update would lose."""
    if resources.devices:
        return limits.UPDATE.at("linux.resources.devices")
    if resources.HasField("pids"):
        return limits.UPDATE.at("linux.resources.pids")
    if resources.memory.HasField("swap"):
        return limits.UPDATE.at("linux.resources.memory.swap")
    for field, wrapper in resources.cpu.ListFields():
        if field.name.startswith("realtime_"):
            return limits.UPDATE.at(f"linux.resources.cpu.{field.json_name}")
        if isinstance(wrapper, Message) and not wrapper.value:  # type: ignore[attr-defined]
            return limits.ZERO.at(f"linux.resources.cpu.{field.json_name}")
    return None


def change_resources(target: api.LinuxResources, before: object, after: object, place: str) -> None:
    """Puts into `target` what turns `before` into `after`. Raises NotAdjustable."""
    old, new = members(before, place), members(after, place)
    for key in {**old, **new}:
        was, becomes = old.get(key), new.get(key)
        if was != becomes:
            _CHANGES.get(key, _nowhere)(target, was, becomes, f"{place}.{element('', key)}")


def _nowhere(_: api.LinuxResources, before: object, after: object, place: str) -> None:
    if not (fields.empty(before) and fields.empty(after)):
        raise limits.NOWHERE.at(place)


def _memory(target: api.LinuxResources, before: object, after: object, place: str) -> None:
    old, new = members(before, place), members(after, place)
    limit = new.get("limit")
    limited = old.get("limit") != limit
    for key in {**old, **new}:
        was, becomes = old.get(key), new.get(key)
        if was == becomes or key == "limit":
            continue
        # Runtimes set swap to what the limit is set to.
        if key != "swap" or not limited or becomes != limit:
            raise limits.MEMORY.at(f"{place}.{element('', key)}")
        target.memory.swap.value = fields.int64(becomes, f"{place}.swap")
    if limited:
        target.memory.limit.value = _limit(limit, f"{place}.limit")


def _limit(value: object, place: str) -> int:
    if value is None:
        raise limits.KEPT.at(place)
    limit = fields.int64(value, place)
    if not limit:
        raise limits.ZERO.at(place)
    return limit


def _cpu(target: api.LinuxResources, before: object, after: object, place: str) -> None:
    old, new = members(before, place), members(after, place)
    changed: dict[str, Any] = {}
    for key in {**old, **new}:
        was, becomes = old.get(key), new.get(key)
        if was == becomes or (fields.empty(was) and fields.empty(becomes)):
            continue
        if key in fields.CPU.fields and fields.empty(becomes):
            raise limits.KEPT.at(f"{place}.{key}")
        changed[key] = becomes
    if changed:
        target.cpu.CopyFrom(read(fields.CPU, changed, place))


def _pids(target: api.LinuxResources, before: object, after: object, place: str) -> None:
    old, new = members(before, place), members(after, place)
    for key in {**old, **new}:
        if key != "limit" and old.get(key) != new.get(key):
            _nowhere(target, old.get(key), new.get(key), f"{place}.{element('', key)}")
    if old.get("limit") == new.get("limit"):
        return
    where = f"{place}.limit"
    if new.get("limit") is None:
        raise limits.KEPT.at(where)
    limit = fields.int64(new["limit"], where)
    if limit < 0:
        raise limits.PIDS.at(where)
    target.pids.limit = limit


def _rules(target: api.LinuxResources, before: object, after: object, place: str) -> None:
    old, new = (fields.objects(fields.RULE)(values, place) for values in (before, after))
    if new[: len(old)] != old:
        raise limits.RULES_KEPT.at(place)
    target.devices.extend(new[len(old) :])


def _hugepages(target: api.LinuxResources, before: object, after: object, place: str) -> None:
    old, new = _sizes(before, place), _sizes(after, place)
    for size in {**old, **new}:
        were, become = old.get(size, []), new.get(size, [])
        if were != become:
            where = element(place, size)
            if len(were) > 1 or len(become) > 1:
                raise limits.REPEATED.at(where)
            if not become:
                raise limits.KEPT.at(where)
            target.hugepage_limits.append(become[0])


def _sizes(values: object, place: str) -> dict[str, list[api.HugepageLimit]]:
    sizes: dict[str, list[api.HugepageLimit]] = {}
    for number, value in enumerate(is_list(values, place)):
        limit: api.HugepageLimit = read(fields.HUGEPAGE, value, f"{place}[{number}]")
        sizes.setdefault(limit.page_size, []).append(limit)
    return sizes


def _unified(target: api.LinuxResources, before: object, after: object, place: str) -> None:
    old, new = members(before, place), members(after, place)
    for name in {**old, **new}:
        if name not in new:
            raise limits.KEPT.at(element(place, name))
        if name not in old or old[name] != new[name]:
            where = element(place, name)
            target.unified[text(name, where)] = text(new[name], where)


_CHANGES: Mapping[str, _Change] = {
    "devices": _rules,
    "memory": _memory,
    "cpu": _cpu,
    "pids": _pids,
    "hugepageLimits": _hugepages,
    "unified": _unified,
}
