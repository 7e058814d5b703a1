"""The owners: which plugin has set a field of a container at one event. Two plugins must not set the same field.

Source: containerd/nri pkg/adaptation/result.go, adjustMemoryResource, adjustCPUResource, adjustResources,
updateResources; pkg/api/owners.go.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, NamedTuple

from google.protobuf.message import Message

from nri import api
from nri.errors import NRIError

REPLACED = {
    "limit": api.MemLimit,
    "reservation": api.MemReservation,
    "swap": api.MemSwapLimit,
    "kernel": api.MemKernelLimit,
    "kernel_tcp": api.MemTCPLimit,
    "swappiness": api.MemSwappiness,
    "disable_oom_killer": api.MemDisableOomKiller,
    "use_hierarchy": api.MemUseHierarchy,
    "shares": api.CPUShares,
    "quota": api.CPUQuota,
    "period": api.CPUPeriod,
    "realtime_runtime": api.CPURealtimeRuntime,
    "realtime_period": api.CPURealtimePeriod,
    "cpus": api.CPUSetCPUs,
    "mems": api.CPUSetMems,
    "blockio_class": api.BlockioClass,
    "rdt_class": api.RdtClass,
    "cgroups_path": api.CgroupsPath,
    "oom_score_adj": api.OomScoreAdj,
    "io_priority": api.IoPriority,
    "seccomp_policy": api.SeccompPolicy,
    "scheduler": api.LinuxSched,
    "memory_policy": api.MemoryPolicy,
    "clos_id": api.RdtClosID,
    "schemata": api.RdtSchemata,
    "enable_monitoring": api.RdtEnableMonitoring,
}
"""Fields of memory, CPU, resources, `linux` and RDT that are replaced as a whole."""
REMOVAL = "-"
"""The prefix of a removed key, path or owner."""


class Conflict(NRIError):
    """Two plugins set the same field, or a plugin asks for an impossible change. The event fails with this text."""


class Owners(dict[tuple[str, api.Field.ValueType, str | None], str]):
    """The owners by container id, field and, in a field with several entries, key."""

    def message(self) -> api.OwningPlugins:
        """Returns the owners as validators get them."""
        message = api.OwningPlugins()
        for (id_, field, key), plugin in self.items():
            fields = message.owners[id_]
            if key is None:
                fields.simple[field] = plugin
            else:
                fields.compound[field].owners[key] = plugin
        return message


class Claims(NamedTuple):
    """Makes one plugin the owner of fields of one container. Each method raises Conflict for another plugin's field."""

    owners: Owners
    plugin: str
    container: str

    def claim(self, field: api.Field.ValueType, key: str | None = None) -> None:
        """Makes the plugin the owner. Raises Conflict if another plugin is, unless this one has cleared the field."""
        other = self.owners.get((self.container, field, key))
        if other is not None and other != REMOVAL + self.plugin:
            what = " ".join([api.Field.Name(field), *([] if key is None else [key])])
            raise Conflict(f'plugins "{self.plugin}" and "{other.removeprefix(REMOVAL)}" both tried to set {what}')
        self.owners[self.container, field, key] = self.plugin

    def replace(self, wanted: Message, *targets: Any, names: Container[str] = REPLACED) -> None:
        """Claims the fields with these names that are replaced as a whole, and sets them in the targets.

        A message is not merged into the old one, so that an optional 0 overrides a 1.
        """
        for field, value in wanted.ListFields():
            if field.name not in REPLACED or field.name not in names:
                continue
            self.claim(REPLACED[field.name])
            for target in targets:
                if isinstance(value, str):
                    setattr(target, field.name, value)
                elif field.name in target.DESCRIPTOR.fields_by_name:  # a container has no field `memory_policy` to show
                    getattr(target, field.name).CopyFrom(value)

    def append(self, field: api.Field.ValueType, key: str, wanted: Iterable[Any], *targets: Any) -> None:
        """Claims elements by their member `key`, and appends them to the targets."""
        for element in wanted:
            self.claim(field, getattr(element, key))
        for target in targets:
            target.extend(wanted)

    def set_resources(self, wanted: api.LinuxResources, *targets: api.LinuxResources) -> None:
        """Claims and sets the resources that both adjustments and updates can set."""
        self.replace(wanted.memory, *(target.memory for target in targets))
        self.replace(wanted.cpu, *(target.cpu for target in targets))
        self.append(
            api.HugepageLimits, "page_size", wanted.hugepage_limits, *(target.hugepage_limits for target in targets)
        )
        for key in sorted(wanted.unified):
            self.claim(api.CgroupsUnified, key)
        for target in targets:
            target.unified.update(wanted.unified)
        self.replace(wanted, *targets)

    def clear(self, field: api.Field.ValueType, key: str | None = None) -> None:
        """Records that the plugin has removed a field. From now on, no other plugin can set the field."""
        self.owners[self.container, field, key] = REMOVAL + self.plugin

    def share(self, field: api.Field.ValueType) -> None:
        """Adds an owner to a field to which several plugins may add."""
        other = self.owners.get((self.container, field, None))
        self.owners[self.container, field, None] = f"{other},{self.plugin}" if other else self.plugin
