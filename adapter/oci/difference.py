"""The adjustment that turns one OCI specification into another: what differs is sent, or refused by name.

Orders that mean nothing are no difference: that of variables, rlimits, devices, namespaces. How a change has to look to
arrive is decided by pkg/adaptation/result.go, which collects what plugins want, and by
pkg/runtime-tools/generate/generate.go, which applies it. So a changed variable, mount, or device is removed and added,
which makes it ours where an earlier plugin has set it; a changed annotation, sysctl, or network device is only set, for
the generator goes through these in random order and might remove what it has just added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from adapter.oci import fields, limits
from adapter.oci.fields import Shape, is_list, is_object, members, read, text, texts
from adapter.oci.limits import Limit, element
from adapter.oci.resource_changes import change_resources, resources_to
from adapter.oci.spec import Spec
from adapter.proto import nri_pb2 as api

__all__ = ["adjustment", "resources_to"]

_Change = Callable[[api.ContainerAdjustment, Any, Any, str], None]
_NAMESPACES = {"network", "pid", "mount", "ipc", "uts", "user", "cgroup"}
_NOBODY = {"uid": 0, "gid": 0}


def adjustment(before: Spec, after: Spec) -> api.ContainerAdjustment:
    """Returns what turns `before` into `after`, empty where they say the same; changes neither.

    `before` is a specification, `after` whatever a plugin has made of it. Raises NotAdjustable, with a row of
    `limits.LIMITS`, for what cannot be expressed.
    """
    adjusted = api.ContainerAdjustment()
    _members(adjusted, before, after, "", _SPEC)
    return adjusted


def _members(
    adjusted: api.ContainerAdjustment, before: object, after: object, place: str, changes: Mapping[str, _Change]
) -> None:
    """Takes the differing members of an object to the functions that know them."""
    old, new = members(before, place or "spec"), members(after, place or "spec")
    for key in {**old, **new}:
        was, becomes = old.get(key), new.get(key)
        if was != becomes:
            changes.get(key, _nowhere)(adjusted, was, becomes, f"{place}.{key}" if place else element("", key))


def _process(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    _members(adjusted, before, after, place, _PROCESS)


def _linux(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    _members(adjusted, before, after, place, _LINUX)


def _nowhere(_: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    if not _same(before, after):
        raise limits.NOWHERE.at(_further(before, after, place))


def _further(before: object, after: object, place: str) -> str:
    """Returns the place one level below a top-level object, `root.readonly`: that says more."""
    if "." in place or not isinstance(after, dict):
        return place
    old = before if isinstance(before, dict) else {}
    return next(f"{place}.{element('', key)}" for key in {**old, **after} if not _same(old.get(key), after.get(key)))


def _same(before: object, after: object) -> bool:
    """Whether two values say the same: as they are, or without what is empty."""
    if before == after:
        return True
    if isinstance(before, dict) and isinstance(after, dict):
        return all(_same(before.get(key), after.get(key)) for key in {**before, **after})
    return fields.empty(before) and fields.empty(after)


def _user(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    # Older runtimes do not tell the user, and Go's encoder writes one of zeros for it: nobody asked for that.
    if before is not None or after != _NOBODY:
        _nowhere(adjusted, before, after, place)


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


def _annotations(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    _strings(adjusted.annotations, before, after, place)


def _sysctl(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    _strings(adjusted.linux.sysctl, before, after, place)


def _net_devices(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    old, new = members(before, place), members(after, place)
    for name in old:
        if name not in new:
            adjusted.linux.net_devices["-" + text(name, place)].SetInParent()
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
        where = f"{place}[{number}]"
        named.setdefault(text(is_object(value, where).get(key, ""), f"{where}.{key}"), []).append(value)
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


def _mounts(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    for name, was, becomes in _changed(fields.MOUNT, "destination", before, after, place):
        if was is not None:
            adjusted.mounts.add(destination="-" + name)
        if becomes is not None:
            _addable(name, place)
            adjusted.mounts.append(becomes)
    old, new = _hiding(before), _hiding(after)
    kept = {mount["destination"] for mount in is_list(after, place) if "destination" in mount}
    for name in [name for name in old if name in kept and name not in new] + [name for name in new if name not in old]:
        raise limits.MOUNT_ORDER.at(element(place, name))


def _hiding(mounts: object) -> list[str]:
    """Returns the destinations of mounts that stand behind one inside them, and so hide it."""
    above: set[str] = set()
    found = []
    for mount in mounts if isinstance(mounts, list) else []:
        destination = mount.get("destination", "")
        path = destination.rstrip("/")
        if path in above:
            found.append(destination)
        while "/" in path:
            path = path.rpartition("/")[0]
            above.add(path)
    return found


def _rlimits(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    for name, _, becomes in _changed(fields.RLIMIT, "type", before, after, place):
        adjusted.rlimits.append(_kept(becomes, limits.RLIMIT_KEPT, place, name))


def _devices(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
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


def _namespaces(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    for name, _, becomes in _changed(fields.NAMESPACE, "type", before, after, place):
        if name not in _NAMESPACES:
            raise limits.NAMESPACE.at(element(place, name))
        if becomes is None:
            adjusted.linux.namespaces.add(type="-" + name)
        else:
            adjusted.linux.namespaces.append(becomes)


def _env(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    old, new = _variables(before, place), _variables(after, place)
    for name in old:
        if name not in new:
            raise limits.ENV_REMOVED.at(element(place, name))
    for name, entries in new.items():
        if entries != old.get(name):
            _variable(adjusted, name, old.get(name, []), entries, place)


def _variables(entries: object, place: str) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for entry in texts(entries, place):
        named.setdefault(entry.partition("=")[0], []).append(entry)
    return named


def _variable(adjusted: api.ContainerAdjustment, name: str, old: list[str], new: list[str], place: str) -> None:
    where = element(place, name)
    if len(old) > 1 or len(new) > 1:
        raise limits.REPEATED.at(where)
    _, equals, value = new[0].partition("=")
    if not equals or not name:
        raise limits.ENV_BARE.at(where)
    _addable(name, place)
    if old:
        adjusted.env.add(key="-" + name)
    adjusted.env.add(key=name, value=value)


# The rest of `process` and `hooks`.


def _args(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    new = texts(after, place)
    if new:
        adjusted.args.extend(["", *new])
    elif not fields.empty(before):
        raise limits.ARGS_EMPTIED.at(place)


def _oom_score_adj(adjusted: api.ContainerAdjustment, _: object, after: object, place: str) -> None:
    if after is None:
        raise limits.KEPT.at(place)
    adjusted.linux.oom_score_adj.value = fields.int64(after, place)
    adjusted.linux.oom_score_adj.SetInParent()


def _io_priority(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    _replaced(adjusted.linux.io_priority, fields.IO_PRIORITY, "class", before, after, place)


def _scheduler(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    _replaced(adjusted.linux.scheduler, fields.SCHEDULER, "policy", before, after, place)


def _replaced(target: Any, shape: Shape, word: str, before: object, after: object, place: str) -> None:
    """Sets the whole object; an empty message, whose word is that for none, takes it away."""
    if not _same(before, after):
        if fields.empty(after):
            target.SetInParent()
        else:
            text(is_object(after, place).get(word), f"{place}.{word}")
            target.CopyFrom(read(shape, after, place))


def _hooks(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    old, new = members(before, place), members(after, place)
    for stage in {**old, **new}:
        where = f"{place}.{element('', stage)}"
        if stage not in fields.HOOKS:
            _nowhere(adjusted, old.get(stage), new.get(stage), where)
        elif old.get(stage) != new.get(stage):
            target = getattr(adjusted.hooks, fields.HOOKS[stage])
            target.extend(_appended(fields.HOOK, old.get(stage), new.get(stage), where, limits.HOOKS_KEPT))


def _appended(shape: Shape, before: object, after: object, place: str, limit: Limit) -> list[Any]:
    """Returns the messages of a list that stand behind those it had before."""
    old, new = (fields.objects(shape)(values, place) for values in (before, after))
    if new[: len(old)] != old:
        raise limit.at(place)
    return new[len(old) :]


# The rest of `linux`.


def _cgroups_path(adjusted: api.ContainerAdjustment, _: object, after: object, place: str) -> None:
    if fields.empty(after):
        raise limits.KEPT.at(place)
    adjusted.linux.cgroups_path = text(after, place)


def _resources(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    resources = api.LinuxResources()
    change_resources(resources, before, after, place)
    if resources.ByteSize():
        adjusted.linux.resources.CopyFrom(resources)


def _seccomp(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    if _same(before, after):
        return
    if fields.empty(after):
        raise limits.KEPT.at(place)
    policy = read(fields.SECCOMP, after, place)
    if policy.HasField("default_errno") and policy.default_errno.value != 1:
        raise limits.SECCOMP_ERRNO.at(f"{place}.defaultErrnoRet")
    adjusted.linux.seccomp_policy.CopyFrom(policy)


def _rdt(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    """Says all that is and all that no longer is, and clears what earlier plugins have set.

    The removal alone does not do: pkg/adaptation/result.go, adjustRdt, forgets it where anything is set.
    """
    if _same(before, after):
        return
    old, new = members(before, place), members(after, place)
    rdt = api.LinuxRdt(remove=True)
    for key in {**old, **new}:
        if key in fields.RDT:
            name, reader, absent = fields.RDT[key]
            value = new.get(key)
            _optional(rdt, name, absent if value is None else reader(value, f"{place}.{key}"))
        else:
            _nowhere(adjusted, old.get(key), new.get(key), f"{place}.{element('', key)}")
    adjusted.linux.rdt.CopyFrom(api.LinuxRdt(remove=True) if fields.empty(after) else rdt)


def _optional(rdt: Any, name: str, value: Any) -> None:
    wrapper = getattr(rdt, name)
    wrapper.SetInParent()
    if isinstance(value, list):
        wrapper.value.extend(value)
    else:
        wrapper.value = value


def _memory_policy(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    if _same(before, after):
        return
    if fields.empty(after):
        raise limits.KEPT.at(place)
    text(is_object(after, place).get("mode"), f"{place}.mode")
    adjusted.linux.memory_policy.CopyFrom(read(fields.MEMORY_POLICY, after, place))


_SPEC: Mapping[str, _Change] = {
    "process": _process,
    "mounts": _mounts,
    "hooks": _hooks,
    "annotations": _annotations,
    "linux": _linux,
}
_PROCESS: Mapping[str, _Change] = {
    "user": _user,
    "args": _args,
    "env": _env,
    "rlimits": _rlimits,
    "oomScoreAdj": _oom_score_adj,
    "scheduler": _scheduler,
    "ioPriority": _io_priority,
}
_LINUX: Mapping[str, _Change] = {
    "sysctl": _sysctl,
    "resources": _resources,
    "cgroupsPath": _cgroups_path,
    "namespaces": _namespaces,
    "devices": _devices,
    "netDevices": _net_devices,
    "seccomp": _seccomp,
    "intelRdt": _rdt,
    "memoryPolicy": _memory_policy,
}
