"""Merges the adjustments of a new container. The next plugin gets the container as adjusted so far.

Source: containerd/nri pkg/adaptation/result.go, adjust and the functions that it calls, with their gaps: the removal of
an annotation does not reach the next plugin; the removal of a variable or a device does not even reach the runtime.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from nri import api
from nri.testing.merge.owners import REMOVAL, Claims


class Adjustment(NamedTuple):
    """Adds the adjustment of one plugin to those of the plugins before it."""

    claims: Claims
    merged: api.ContainerAdjustment
    """The merged adjustment, for the runtime."""
    shown: api.Container
    """The container that is shown to the next plugin."""

    def add(self, wanted: api.ContainerAdjustment) -> None:
        """Adds the adjustment. Raises Conflict, which fails the creation."""
        merged, shown = self.merged, self.shown
        self._map(api.Annotations, wanted.annotations, merged.annotations, shown.annotations)
        self._mounts(wanted.mounts)
        self._list(api.Env, wanted.env, merged.env, shown.env)
        self._args(list(wanted.args))
        self._hooks(wanted.hooks)
        if wanted.HasField("linux"):
            self._linux(wanted.linux)
        self.claims.append(api.Rlimits, "type", wanted.rlimits, merged.rlimits, shown.rlimits)
        self.claims.append(api.CdiDevices, "name", wanted.CDI_devices, merged.CDI_devices)

    def _linux(self, wanted: api.LinuxContainerAdjustment) -> None:
        """Adds the adjustment of `linux` in the order of result.go, which decides which conflict is reported."""
        merged, shown = self.merged.linux, self.shown.linux
        self._list(api.Devices, wanted.devices, merged.devices, shown.devices)
        if wanted.HasField("resources"):
            self._resources(wanted.resources)
        names = "cgroups_path", "oom_score_adj", "io_priority", "seccomp_policy"
        self.claims.replace(wanted, merged, shown, names=names)
        if wanted.namespaces:  # otherwise the container keeps its own, even two of a type
            self._namespaces(wanted.namespaces)
        self._map(api.Sysctl, wanted.sysctl, merged.sysctl, shown.sysctl)
        self._map(api.LinuxNetDevices, wanted.net_devices, merged.net_devices, shown.net_devices)
        self.claims.replace(wanted, merged, shown, names=("scheduler",))
        self._rdt(wanted.rdt)
        self.claims.replace(wanted, merged, shown, names=("memory_policy",))

    def _map(self, field: api.Field.ValueType, wanted: Any, merged: Any, shown: Any) -> None:
        """Adjusts by key. A removal without a new value goes to the runtime only, and clears no owner."""
        removed = {key.removeprefix(REMOVAL) for key in wanted if _is_removal(key)}
        for key in sorted(key for key in wanted if not _is_removal(key)):
            if key in removed:
                self.claims.clear(field, key)
            self.claims.claim(field, key)
            _put(shown, key, wanted[key])
            _put(merged, key, wanted[key])
        for key in sorted(removed):
            _put(merged, REMOVAL + key, type(wanted[REMOVAL + key])())

    def _list(self, field: api.Field.ValueType, wanted: Any, merged: Any, shown: Any) -> None:
        """Adjusts a list of named elements. A removal takes back additions of earlier plugins."""
        if not wanted:
            return
        added = [element for element in wanted if not _is_removal(_key(element))]
        removed = {_key(element).removeprefix(REMOVAL) for element in wanted if _is_removal(_key(element))}
        for element in merged:
            if _key(element) in removed:
                self.claims.clear(field, _key(element))
        for element in added:
            self.claims.claim(field, _key(element))
        _fill(merged, [element for element in merged if _key(element) not in removed] + added)
        changed = removed | set(map(_key, added))
        as_shown = [f"{one.key}={one.value}" if isinstance(one, api.KeyValue) else one for one in added]
        _fill(shown, [element for element in shown if _key(element) not in changed] + as_shown)

    def _mounts(self, wanted: Iterable[api.Mount]) -> None:
        """Adjusts the mounts. Unlike other lists, removals of mounts go to the runtime."""
        self._list(api.Mounts, wanted, self.merged.mounts, self.shown.mounts)
        added = {mount.destination for mount in wanted if not _is_removal(mount.destination)}
        removals = {mount.destination: mount for mount in wanted if _is_removal(mount.destination)}
        self.merged.mounts.extend(mount for key, mount in removals.items() if key.removeprefix(REMOVAL) not in added)

    def _args(self, args: list[str]) -> None:
        """Replaces all arguments. An empty first argument removes the arguments of an earlier plugin."""
        if not args:
            return
        if not args[0]:
            self.claims.clear(api.Args)
            del args[0]
        self.claims.claim(api.Args)
        self.merged.args[:] = args
        self.shown.args[:] = args

    def _hooks(self, wanted: api.Hooks) -> None:
        if wanted.ListFields():
            self.merged.hooks.MergeFrom(wanted)
            self.shown.hooks.MergeFrom(wanted)
            self.claims.share(api.OciHooks)

    def _resources(self, wanted: api.LinuxResources) -> None:
        targets = self.merged.linux.resources, self.shown.linux.resources
        self.claims.set_resources(wanted, *targets)
        if wanted.HasField("pids"):
            self.claims.claim(api.PidsLimit)
        for target in targets:
            target.devices.extend(wanted.devices)
            if wanted.HasField("pids"):
                target.pids.CopyFrom(wanted.pids)

    def _namespaces(self, wanted: Iterable[api.LinuxNamespace]) -> None:
        """Adjusts by type. A removal does not prevent a conflict."""
        shown = {namespace.type: namespace for namespace in self.shown.linux.namespaces}
        for namespace in wanted:
            type_ = namespace.type.removeprefix(REMOVAL)
            self.claims.claim(api.Namespace, type_)
            shown.pop(type_, None)
            if not _is_removal(namespace.type):
                shown[type_] = namespace
            self.merged.linux.namespaces.append(namespace)
        _fill(self.shown.linux.namespaces, list(shown.values()))

    def _rdt(self, wanted: api.LinuxRdt) -> None:
        """Adjusts RDT, which is not in a container. A removal removes the settings of earlier plugins."""
        if wanted.remove:
            for field in (api.RdtClosID, api.RdtSchemata, api.RdtEnableMonitoring):
                self.claims.clear(field)
            self.merged.linux.rdt.CopyFrom(api.LinuxRdt(remove=True))
        self.claims.replace(wanted, self.merged.linux.rdt)
        if any(field.name != "remove" for field, _ in wanted.ListFields()):
            self.merged.linux.rdt.remove = False


def _is_removal(key: str) -> bool:
    return key.startswith(REMOVAL)


def _key(element: Any) -> str:
    """Returns the name of an element of a list. A container's variable is a text."""
    match element:
        case str():
            return element.partition("=")[0]
        case api.KeyValue():
            return element.key
        case api.Mount():
            return element.destination
    return str(element.path)


def _fill(repeated: Any, elements: list[Any]) -> None:
    if repeated or elements:  # writing to a list makes its message present
        del repeated[:]
        repeated.extend(elements)


def _put(mapping: Any, name: str, value: Any) -> None:
    """Sets a text or a message in a map of a message."""
    if isinstance(value, str):
        mapping[name] = value
    else:
        mapping[name].CopyFrom(value)
