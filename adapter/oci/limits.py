"""The table of the changes that cannot be expressed as an adjustment, or that runtimes would lose.

Every refusal in this package comes from a row. docs/adjusting-containers.md shows the table.
"""

from __future__ import annotations

from typing import NamedTuple

from adapter.errors import NotAdjustable

_LONGEST_NAME = 100


class Limit(NamedTuple):
    """A change that is refused. In `place`, `[NAME]` is any one name, and `*` is any text."""

    place: str
    what: str
    why: str

    def at(self, place: str, detail: str = "") -> NotAdjustable:
        """Returns the refusal for a place; `detail` is added to `why`."""
        return NotAdjustable(place, f"{self.why}: {detail}" if detail else self.why)


def element(place: str, name: str) -> str:
    """Returns the place of an element of a list or map. An unprintable name is escaped, a long name is cut."""
    return f"{place}[{_shown(name)}]"


def inside(place: str, key: str) -> str:
    """Returns the place of a member of an object; `place` is empty for the whole specification."""
    shown = _shown(key) or '""'
    return f"{place}.{shown}" if place else shown


def _shown(name: str) -> str:
    name = name[:_LONGEST_NAME]
    return name if name.isprintable() else name.encode("unicode_escape").decode()


ILL_TYPED = Limit(
    "*",
    "a value that the specification does not allow there: another type, a number out of range, an unknown word, a "
    "text with a NUL character or a lone surrogate",
    "a wrong value",
)
NOWHERE = Limit(
    "*",
    "a change that no row of this table names: `process.user`, `process.capabilities`, `process.cwd`, `root`, "
    "`hostname`, `linux.uidMappings`, `linux.maskedPaths`, `linux.rootfsPropagation`, `linux.resources.blockIO`, "
    "`uidMappings` of a mount, unknown keys",
    "NRI has no field for it",
)
KEPT = Limit(
    "*",
    "removing `process.oomScoreAdj`, `linux.cgroupsPath`, `linux.seccomp`, `linux.memoryPolicy`, a limit of memory, "
    "CPU or pids, a hugepage limit, a unified resource",
    "NRI can change it but not remove it",
)
MARKED = Limit(
    "*[NAME]",
    "adding or changing an annotation, a variable, a mount, a device, a sysctl, or a network device whose name begins "
    "with `-`",
    "NRI takes a name with a leading - as a removal",
)
REPEATED = Limit(
    "*[NAME]",
    "a change of an element whose name occurs more than once: variables (`PATH` on CRI-O), mounts, devices, rlimits, "
    "namespaces, hugepage limits",
    "the name occurs more than once and runtimes change only the first element",
)
ENV_REMOVED = Limit("process.env[NAME]", "removing a variable", "NRI does not forward the removal of a variable")
ENV_BARE = Limit("process.env[NAME]", "adding an entry without `=`, or without a name", "runtimes drop such an entry")
ARGS_EMPTIED = Limit("process.args", "removing all arguments", "runtimes take no arguments as no change")
MOUNT_ORDER = Limit(
    "mounts[NAME]",
    "moving a mount after a mount inside it, which it would hide, or back before it; a new mount may be anywhere",
    "runtimes sort mounts, so that a mount comes before the mounts inside it",
)
HOOKS_KEPT = Limit(
    "hooks.*",
    "removing or changing a hook, or adding a hook before others",
    "NRI can only append hooks",
)
RLIMIT_KEPT = Limit("process.rlimits[NAME]", "removing an rlimit", "NRI has no removal of rlimits")
DEVICE_KEPT = Limit("linux.devices[NAME]", "removing a device", "NRI does not forward the removal of a device")
NAMESPACE = Limit(
    "linux.namespaces[NAME]",
    "a type other than `network`, `pid`, `mount`, `ipc`, `uts`, `user`, `cgroup`",
    "runtimes fail a container with an adjusted namespace of that type",
)
SECCOMP_ERRNO = Limit(
    "linux.seccomp.defaultErrnoRet",
    "a changed policy whose `defaultErrnoRet` is not 1 (EPERM, which is what its absence means)",
    "runtimes drop it from an adjusted policy",
)
MEMORY = Limit(
    "linux.resources.memory.*",
    "`reservation`, `swap`, `kernel`, `kernelTCP`, `swappiness`, `disableOOMKiller`, `useHierarchy`, "
    "`checkBeforeUpdate`; `swap` may follow a new `limit`, to the same number",
    "runtimes change only the limit",
)
ZERO = Limit("linux.resources.*", "a memory limit of 0; in updates any 0", "runtimes take 0 as no change")
PIDS = Limit("linux.resources.pids.limit", "a limit below 0", "runtimes take a limit below 0 as no change")
RULES_KEPT = Limit(
    "linux.resources.devices",
    "removing or changing a device rule, or adding a rule before others",
    "NRI can only append rules",
)
UPDATE = Limit(
    "linux.resources.*",
    "in updates: `pids`, `devices`, `memory.swap` even with the limit, `cpu.realtimeRuntime`, `cpu.realtimePeriod`",
    "updates do not carry it",
)

LIMITS = tuple(row for row in list(vars().values()) if isinstance(row, Limit))
"""All rows above, in their order."""
