"""An adjustment applied to a specification: what a runtime makes of it, without the habits of `limits.DEVIATIONS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from adapter.oci import fields
from adapter.oci.fields import Shape, write
from adapter.oci.resources import resources_from
from adapter.oci.spec import Spec
from adapter.proto import nri_pb2 as api


def apply(spec: Spec, adjustment: api.ContainerAdjustment) -> Spec:
    """Returns a new specification with the adjustment; parts that it does not touch are shared with `spec`.

    CDI devices, and classes of block I/O and RDT, have no place in a specification and are left to the runtime, which
    resolves them. Source: containerd/nri pkg/runtime-tools/generate/generate.go (Adjust).
    """
    applied = dict(spec)
    linux = adjustment.linux
    _put(applied, "annotations", _map(applied.get("annotations"), adjustment.annotations))
    _put(applied, "hooks", _hooks(applied.get("hooks"), adjustment.hooks))
    _put(applied, "mounts", _named(applied.get("mounts"), adjustment.mounts, fields.MOUNT, "destination"))
    _put(applied, "process", _process(applied.get("process"), adjustment))
    if adjustment.HasField("linux"):
        _put(applied, "linux", _linux(applied.get("linux"), linux))
    return applied


def _put(target: Spec, key: str, value: Any) -> None:
    """Sets what has a value; what has none stays as it is, or absent."""
    if value or key in target:
        target[key] = value


def _map(before: Spec | None, changes: Mapping[str, Any]) -> Spec | None:
    """Returns a map with removals and additions; the removals come first, whatever stands first."""
    if not changes:
        return before
    removed = {name[1:] for name in changes if name.startswith("-")}
    kept = {name: value for name, value in (before or {}).items() if name not in removed}
    return kept | {name: value for name, value in changes.items() if not name.startswith("-")}


def _named(before: list[Spec] | None, changes: Iterable[Any], shape: Shape, key: str) -> list[Spec] | None:
    """Returns a list of named objects with those removed and added; what is changed keeps its place."""
    name_of = shape.fields[key].name
    removed: set[str] = set()
    added: dict[str, Spec] = {}
    for change in changes:
        name = getattr(change, name_of)
        if name.startswith("-"):
            removed.add(name[1:])
        else:
            added[name] = write(shape, change)
    if not removed and not added:
        return before
    return _replaced(before or [], removed, added, lambda value: value.get(key, ""))


def _replaced(before: list[Any], removed: set[str], added: dict[str, Any], name_of: Callable[[Any], str]) -> list[Any]:
    result = []
    for value in before:
        name = name_of(value)
        if name in added:
            result.append(added.pop(name))
        elif name not in removed:
            result.append(value)
        removed = removed | {name} if name in removed else removed
    return result + list(added.values())


def _hooks(before: Spec | None, hooks: api.Hooks) -> Spec | None:
    added = {stage: getattr(hooks, name) for stage, name in fields.HOOKS.items()}
    if not any(added.values()):
        return before
    old = before or {}
    return old | {
        stage: [*(old.get(stage) or []), *(write(fields.HOOK, hook) for hook in found)]
        for stage, found in added.items()
        if found
    }


def _process(before: Spec | None, adjustment: api.ContainerAdjustment) -> Spec:
    process = dict(before or {})
    linux = adjustment.linux
    if adjustment.args:
        process["args"] = list(adjustment.args[1:] if adjustment.args[0] == "" else adjustment.args)
    _put(process, "env", _env(process.get("env"), adjustment.env))
    _put(process, "rlimits", _named(process.get("rlimits"), adjustment.rlimits, fields.RLIMIT, "type"))
    if linux.HasField("oom_score_adj"):
        process["oomScoreAdj"] = linux.oom_score_adj.value
    if linux.HasField("io_priority"):
        _set_or_drop(process, "ioPriority", fields.IO_PRIORITY, linux.io_priority, "class")
    if linux.HasField("scheduler"):
        _set_or_drop(process, "scheduler", fields.SCHEDULER, linux.scheduler, "policy")
    return process


def _env(before: list[str] | None, changes: Iterable[api.KeyValue]) -> list[str] | None:
    removed: set[str] = set()
    added: dict[str, str] = {}
    for change in changes:
        if change.key.startswith("-"):
            removed.add(change.key[1:])
        else:
            added[change.key] = f"{change.key}={change.value}"
    if not removed and not added:
        return before
    return _replaced(before or [], removed | set(added), added, lambda entry: entry.partition("=")[0])


def _set_or_drop(target: Spec, key: str, shape: Shape, message: Any, word: str) -> None:
    """Sets an object, or takes it away where its word is that for none."""
    if getattr(message, word):
        target[key] = write(shape, message)
    else:
        target.pop(key, None)


def _linux(before: Spec | None, adjustment: api.LinuxContainerAdjustment) -> Spec:
    linux = dict(before or {})
    if adjustment.HasField("resources"):
        _put(linux, "resources", _resources(linux.get("resources"), adjustment.resources))
    if adjustment.cgroups_path:
        linux["cgroupsPath"] = adjustment.cgroups_path
    _put(linux, "sysctl", _map(linux.get("sysctl"), adjustment.sysctl))
    _put(linux, "namespaces", _named(linux.get("namespaces"), adjustment.namespaces, fields.NAMESPACE, "type"))
    _put(linux, "devices", _named(linux.get("devices"), adjustment.devices, fields.DEVICE, "path"))
    net_devices = {name: write(fields.NET_DEVICE, device) for name, device in adjustment.net_devices.items()}
    _put(linux, "netDevices", _map(linux.get("netDevices"), net_devices))
    if adjustment.HasField("seccomp_policy"):
        linux["seccomp"] = write(fields.SECCOMP, adjustment.seccomp_policy)
    if adjustment.HasField("memory_policy"):
        linux["memoryPolicy"] = write(fields.MEMORY_POLICY, adjustment.memory_policy)
    if adjustment.HasField("rdt"):
        _put(linux, "intelRdt", _rdt(linux.get("intelRdt"), adjustment.rdt))
    return linux


def _rdt(before: Spec | None, rdt: api.LinuxRdt) -> Spec:
    result = {} if rdt.remove else dict(before or {})
    for key, (name, _, _) in fields.RDT.items():
        if rdt.HasField(name):  # type: ignore[arg-type]
            value = getattr(rdt, name).value
            result[key] = list(value) if key == "schemata" else value
    return result


def _resources(before: Spec | None, adjustment: api.LinuxResources) -> Spec:
    resources = dict(before or {})
    changed: Spec = resources_from(adjustment)
    if adjustment.memory.HasField("limit") and not adjustment.memory.limit.value:
        del changed["memory"]["limit"]
    for part in ("memory", "cpu", "pids", "unified"):
        if part in changed:
            resources[part] = {**(resources.get(part) or {}), **changed[part]}
    if "devices" in changed:
        resources["devices"] = [*(resources.get("devices") or []), *changed["devices"]]
    _put(
        resources,
        "hugepageLimits",
        _named(resources.get("hugepageLimits"), adjustment.hugepage_limits, fields.HUGEPAGE, "pageSize"),
    )
    return resources
