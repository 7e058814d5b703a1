"""What plugins want of a container that is being created, merged; the next plugin sees what the earlier ones did.

Source: containerd/nri pkg/adaptation/result.go, adjust and what it calls, with all its habits: that an annotation was
removed does not reach the next plugin, and that a variable or a device was, not even the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from adapter.nri import api
from adapter.runtime.merge import resources
from adapter.runtime.merge.owners import REMOVAL, Owners

Key = Callable[[Any], str]
"""Returns the name of an element of a list."""

EARLY = {
    "cgroups_path": api.CgroupsPath,
    "oom_score_adj": api.OomScoreAdj,
    "io_priority": api.IoPriority,
    "seccomp_policy": api.SeccompPolicy,
}
SCHEDULER = {"scheduler": api.LinuxSched}
MEMORY_POLICY = {"memory_policy": api.MemoryPolicy}
RDT = {"clos_id": api.RdtClosID, "schemata": api.RdtSchemata, "enable_monitoring": api.RdtEnableMonitoring}


class Adjustments:
    """The adjustments of one container."""

    def __init__(self, owners: Owners, container: api.Container) -> None:
        """`container` is what the next plugin is going to see; it changes."""
        self.merged = api.ContainerAdjustment()
        self._owners = owners
        self._container = container

    def apply(self, plugin: str, wanted: api.ContainerAdjustment) -> None:
        """Adds what a plugin wants. Raises Conflict; the creation has then failed, and what is here is of no use."""
        self._map(api.Annotations, plugin, wanted.annotations, self.merged.annotations, self._container.annotations)
        self._mounts(plugin, wanted)
        self._env(plugin, wanted)
        self._args(plugin, list(wanted.args))
        self._hooks(plugin, wanted.hooks)
        if wanted.HasField("linux"):
            self._linux(plugin, wanted.linux)
        for limit in wanted.rlimits:
            self._claim(api.Rlimits, plugin, limit.type)
        self._container.rlimits.extend(wanted.rlimits)
        self.merged.rlimits.extend(wanted.rlimits)
        for device in wanted.CDI_devices:
            self._claim(api.CdiDevices, plugin, device.name)
        self.merged.CDI_devices.extend(wanted.CDI_devices)

    def _linux(self, plugin: str, wanted: api.LinuxContainerAdjustment) -> None:
        merged, container = self.merged.linux, self._container.linux
        self._named(api.Devices, plugin, wanted.devices, merged.devices, _path)
        _show(container.devices, wanted.devices, _path, _path)
        if wanted.HasField("resources"):
            self._resources(plugin, wanted.resources)
        self._replaced(plugin, wanted, EARLY)
        self._namespaces(plugin, wanted.namespaces)
        self._map(api.Sysctl, plugin, wanted.sysctl, merged.sysctl, container.sysctl)
        self._map(api.LinuxNetDevices, plugin, wanted.net_devices, merged.net_devices, container.net_devices)
        self._replaced(plugin, wanted, SCHEDULER)
        if wanted.HasField("rdt"):
            self._rdt(plugin, wanted.rdt)
        self._replaced(plugin, wanted, MEMORY_POLICY)

    def _map(self, field: api.Field.ValueType, plugin: str, wanted: Any, merged: Any, shown: Any) -> None:
        """Adjusts by key. A mere removal goes to the runtime, not to the next plugin, and clears no owner."""
        removed = {_name(key) for key in wanted if _is_removal(key)}
        for key in sorted(key for key in wanted if not _is_removal(key)):
            if key in removed:
                self._clear(field, plugin, key)
            self._claim(field, plugin, key)
            _put(shown, key, wanted[key])
            _put(merged, key, wanted[key])
        for key in sorted(removed):
            _put(merged, REMOVAL + key, type(wanted[REMOVAL + key])())

    def _named(self, field: api.Field.ValueType, plugin: str, wanted: Any, merged: Any, key: Key) -> None:
        """Adjusts a list whose elements have names. What is removed here is what other plugins have added."""
        removed = {_name(key(one)) for one in wanted if _is_removal(key(one))}
        for one in merged:
            if key(one) in removed:
                self._clear(field, plugin, key(one))
        _keep(merged, lambda one: key(one) not in removed)
        for one in wanted:
            if not _is_removal(key(one)):
                self._claim(field, plugin, key(one))
                merged.append(one)

    def _mounts(self, plugin: str, wanted: api.ContainerAdjustment) -> None:
        self._named(api.Mounts, plugin, wanted.mounts, self.merged.mounts, _destination)
        added = {mount.destination for mount in wanted.mounts if not _is_removal(mount.destination)}
        removals = {mount.destination: mount for mount in wanted.mounts if _is_removal(mount.destination)}
        self.merged.mounts.extend(mount for key, mount in removals.items() if _name(key) not in added)
        _show(self._container.mounts, wanted.mounts, _destination, _destination)

    def _env(self, plugin: str, wanted: api.ContainerAdjustment) -> None:
        self._named(api.Env, plugin, wanted.env, self.merged.env, _key)
        _show(self._container.env, wanted.env, _key, _variable, lambda one: f"{one.key}={one.value}")

    def _args(self, plugin: str, args: list[str]) -> None:
        """Replaces all of them; a leading empty one says that those of another plugin are to go."""
        if not args:
            return
        if not args[0]:
            self._clear(api.Args, plugin)
            del args[0]
        self._claim(api.Args, plugin)
        self.merged.args[:] = args
        self._container.args[:] = args

    def _hooks(self, plugin: str, wanted: api.Hooks) -> None:
        for field, hooks in wanted.ListFields():
            getattr(self.merged.hooks, field.name).extend(hooks)
            getattr(self._container.hooks, field.name).extend(hooks)
        if wanted.ListFields():
            self._owners.share(self._container.id, api.OciHooks, plugin)

    def _resources(self, plugin: str, wanted: api.LinuxResources) -> None:
        resources.claim(self._owners, self._container.id, plugin, wanted)
        if wanted.HasField("pids"):
            self._claim(api.PidsLimit, plugin)
        for target in (self.merged.linux.resources, self._container.linux.resources):
            resources.add(target, wanted)
            target.devices.extend(wanted.devices)
            if wanted.HasField("pids"):
                target.pids.CopyFrom(wanted.pids)

    def _replaced(
        self, plugin: str, wanted: api.LinuxContainerAdjustment, fields: Mapping[str, api.Field.ValueType]
    ) -> None:
        """Replaces fields as a whole; a container has no `memory_policy` to show to the next plugin."""
        for field, value in wanted.ListFields():
            if field.name in fields:
                self._claim(fields[field.name], plugin)
                resources.put(self.merged.linux, field.name, value)
                if field.name in self._container.linux.DESCRIPTOR.fields_by_name:
                    resources.put(self._container.linux, field.name, value)

    def _namespaces(self, plugin: str, wanted: Iterable[api.LinuxNamespace]) -> None:
        """Adjusts by type; nothing cures a conflict, not even a removal."""
        shown = {namespace.type: namespace for namespace in self._container.linux.namespaces}
        for namespace in wanted:
            type_ = _name(namespace.type)
            self._claim(api.Namespace, plugin, type_)
            shown.pop(type_, None)
            if not _is_removal(namespace.type):
                shown[type_] = namespace
            self.merged.linux.namespaces.append(namespace)
        _fill(self._container.linux.namespaces, list(shown.values()))

    def _rdt(self, plugin: str, wanted: api.LinuxRdt) -> None:
        """Adjusts what a container does not show; a removal undoes what other plugins have set."""
        merged = self.merged.linux.rdt
        if wanted.remove:
            for number in RDT.values():
                self._clear(number, plugin)
            merged.Clear()
            merged.remove = True
        for name, number in RDT.items():
            if wanted.HasField(name):  # type: ignore[arg-type]  # the names of three of its fields
                self._claim(number, plugin)
                resources.put(merged, name, getattr(wanted, name))
                merged.remove = False

    def _claim(self, field: api.Field.ValueType, plugin: str, key: str | None = None) -> None:
        self._owners.claim(self._container.id, field, plugin, key)

    def _clear(self, field: api.Field.ValueType, plugin: str, key: str | None = None) -> None:
        self._owners.clear(self._container.id, field, plugin, key)


def _is_removal(key: str) -> bool:
    return key.startswith(REMOVAL)


def _name(key: str) -> str:
    return key.removeprefix(REMOVAL)


def _path(device: api.LinuxDevice) -> str:
    return device.path


def _destination(mount: api.Mount) -> str:
    return mount.destination


def _key(variable: api.KeyValue) -> str:
    return variable.key


def _variable(text: str) -> str:
    return text.partition("=")[0]


def _show(shown: Any, wanted: Any, key: Key, shown_key: Key, as_shown: Callable[[Any], Any] = lambda one: one) -> None:
    """Makes of what the next plugin is shown what the adjustments make of it."""
    names = {_name(key(one)) for one in wanted}
    _keep(shown, lambda one: shown_key(one) not in names)
    shown.extend(as_shown(one) for one in wanted if not _is_removal(key(one)))


def _keep(repeated: Any, wanted: Callable[[Any], bool]) -> None:
    kept = [one for one in repeated if wanted(one)]
    if len(kept) < len(repeated):
        _fill(repeated, kept)


def _fill(repeated: Any, elements: list[Any]) -> None:
    del repeated[:]
    repeated.extend(elements)


def _put(mapping: Any, key: str, value: Any) -> None:
    if isinstance(value, str):
        mapping[key] = value
    else:
        mapping[key].CopyFrom(value)
