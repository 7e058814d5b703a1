"""The adjustment that turns one OCI specification into another: what differs is sent, or refused by name.

Orders that mean nothing are no difference: that of variables, rlimits, devices, namespaces. How a change has to look to
arrive is decided by pkg/adaptation/result.go, which collects what plugins want, and by
pkg/runtime-tools/generate/generate.go, which applies it. So a changed variable, mount, or device is removed and added,
which makes it ours where an earlier plugin has set it; a changed annotation, sysctl, or network device is only set, for
the generator goes through these in random order and might remove what it has just added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adapter.oci import fields, limits, named
from adapter.oci.fields import Shape, is_object, members, read, text, texts
from adapter.oci.limits import element
from adapter.oci.resource_changes import change_resources, resources_to
from adapter.oci.spec import Spec
from adapter.proto import nri_pb2 as api

__all__ = ["adjustment", "resources_to"]

_Change = Callable[[api.ContainerAdjustment, Any, Any, str], None]
_NOBODY = {"uid": 0, "gid": 0}


def adjustment(before: Spec, after: Spec) -> api.ContainerAdjustment:
    """Returns what turns `before` into `after`, empty where they say the same; changes neither.

    `before` is a specification, `after` whatever a plugin has made of it. Raises NotAdjustable, with a row of
    `limits.LIMITS`, for what cannot be expressed.
    """
    adjusted = api.ContainerAdjustment()
    _members(adjusted, before, is_object(after, "spec"), "", _SPEC)
    return adjusted


def _members(
    adjusted: api.ContainerAdjustment, before: object, after: object, place: str, changes: Mapping[str, _Change]
) -> None:
    """Takes the differing members of an object to the functions that know them."""
    old, new = members(before, place), members(after, place)
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


def _io_priority(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    _replaced(adjusted.linux.io_priority, fields.IO_PRIORITY, "class", before, after, place)


def _scheduler(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    _replaced(adjusted.linux.scheduler, fields.SCHEDULER, "policy", before, after, place)


def _replaced(target: Any, shape: Shape, word: str, before: object, after: object, place: str) -> None:
    """Sets the whole object; an empty message, whose word is that for none, takes it away."""
    message = _whole(shape, word, after, place)
    if message is None:
        if not fields.empty(before):
            target.SetInParent()
    elif message != _whole(shape, word, before, place):
        target.CopyFrom(message)


def _whole(shape: Shape, word: str, value: object, place: str) -> Any:
    """Returns the message for an object that has to have this word; None for one that is not there."""
    if fields.empty(value):
        return None
    text(is_object(value, place).get(word), f"{place}.{word}")
    return read(shape, value, place)


def _hooks(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    old, new = members(before, place), members(after, place)
    for stage in {**old, **new}:
        where = f"{place}.{element('', stage)}"
        if stage not in fields.HOOKS:
            _nowhere(adjusted, old.get(stage), new.get(stage), where)
        elif old.get(stage) != new.get(stage):
            for hook in _appended(old.get(stage), new.get(stage), where):
                getattr(adjusted.hooks, fields.HOOKS[stage]).append(hook)


def _appended(before: object, after: object, place: str) -> list[api.Hook]:
    """Returns the hooks that stand behind those there were before."""
    old, new = (fields.objects(fields.HOOK)(hooks, place) for hooks in (before, after))
    if new[: len(old)] != old:
        raise limits.HOOKS_KEPT.at(place)
    return new[len(old) :]


# The rest of `linux`.


def _cgroups_path(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    if not fields.empty(after):
        adjusted.linux.cgroups_path = text(after, place)
    elif not fields.empty(before):
        raise limits.KEPT.at(place)


def _resources(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    resources = api.LinuxResources()
    change_resources(resources, before, after, place)
    if resources.ByteSize():
        adjusted.linux.resources.CopyFrom(resources)


def _seccomp(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    policy = _set_or_kept(adjusted.linux.seccomp_policy, fields.SECCOMP, "defaultAction", before, after, place)
    if policy and policy.HasField("default_errno") and policy.default_errno.value != 1:
        raise limits.SECCOMP_ERRNO.at(f"{place}.defaultErrnoRet")


def _memory_policy(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    _set_or_kept(adjusted.linux.memory_policy, fields.MEMORY_POLICY, "mode", before, after, place)


def _set_or_kept(target: Any, shape: Shape, word: str, before: object, after: object, place: str) -> Any:
    """Sets what cannot be taken away; returns the message if it differs."""
    message = _whole(shape, word, after, place)
    if message is None:
        if not fields.empty(before):
            raise limits.KEPT.at(place)
    elif message != _whole(shape, word, before, place):
        target.CopyFrom(message)
        return message
    return None


def _rdt(adjusted: api.ContainerAdjustment, before: object, after: object, place: str) -> None:
    """Says all that is and all that no longer is, and clears what earlier plugins have set.

    The removal alone does not do: pkg/adaptation/result.go, adjustRdt, forgets it where anything is set.
    """
    old, new = members(before, place), members(after, place)
    for key in {**old, **new}:
        if key not in fields.RDT:
            _nowhere(adjusted, old.get(key), new.get(key), f"{place}.{element('', key)}")
    was, becomes = _rdt_parts(old, place), _rdt_parts(new, place)
    if was != becomes:
        adjusted.linux.rdt.remove = True
        for name in becomes if any(becomes.values()) else ():
            if becomes[name] or was[name]:
                wrapper = getattr(adjusted.linux.rdt, name)
                wrapper.CopyFrom(type(wrapper)(value=becomes[name]))


def _rdt_parts(rdt: Mapping[str, Any], place: str) -> dict[str, Any]:
    return {
        name: absent if rdt.get(key) is None else reader(rdt[key], f"{place}.{key}")
        for key, (name, reader, absent) in fields.RDT.items()
    }


_SPEC: Mapping[str, _Change] = {
    "process": _process,
    "mounts": named.change_mounts,
    "hooks": _hooks,
    "annotations": named.change_annotations,
    "linux": _linux,
}
_PROCESS: Mapping[str, _Change] = {
    "user": _user,
    "args": _args,
    "env": named.change_env,
    "rlimits": named.change_rlimits,
    "oomScoreAdj": _oom_score_adj,
    "scheduler": _scheduler,
    "ioPriority": _io_priority,
}
_LINUX: Mapping[str, _Change] = {
    "sysctl": named.change_sysctl,
    "resources": _resources,
    "cgroupsPath": _cgroups_path,
    "namespaces": named.change_namespaces,
    "devices": named.change_devices,
    "netDevices": named.change_net_devices,
    "seccomp": _seccomp,
    "intelRdt": _rdt,
    "memoryPolicy": _memory_policy,
}
