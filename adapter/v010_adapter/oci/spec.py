"""The table of a specification's parts: the place of a part, its kind, and NRI's field for it.

Three functions walk the table: `spec_from` writes a container's fields as a specification, `adjustment` turns the
difference of two specifications into an adjustment, `apply` applies an adjustment to a specification.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.message import Message

from nri.needs import NOT_FORWARDED, NOT_REMOVABLE
from nri.proto import nri_pb2 as api
from v010_adapter.errors import NotAdjustable
from v010_adapter.oci import limits
from v010_adapter.oci.named_parts import Env, Map, NamedList
from v010_adapter.oci.parts import Appended, Args, Fields, Group, Rdt, Scalar, Texts, User, WholeObject
from v010_adapter.oci.precision import restore_precision
from v010_adapter.oci.resource_parts import CgroupLimits, Memory, Resources
from v010_adapter.oci.resources import CPU, HUGEPAGE, MEMORY, PIDS, RULE
from v010_adapter.oci.shapes import shape
from v010_adapter.oci.values import Spec, as_object, int64, text

USER = shape(api.User, always=("uid", "gid"))
MOUNT = shape(api.Mount, "destination")
HOOK = shape(api.Hook, "path")
RLIMIT = shape(api.POSIXRlimit, "type", always=("hard", "soft"))
DEVICE = shape(api.LinuxDevice, "path", always=("type", "major", "minor"))
NAMESPACE = shape(api.LinuxNamespace, "type")
NET_DEVICE = shape(api.LinuxNetDevice)
RDT = shape(api.LinuxRdt)
IO_PRIORITY = shape(api.LinuxIOPriority, "class", always=("priority",))
SCHEDULER = shape(api.LinuxScheduler, "policy")
MEMORY_POLICY = shape(api.LinuxMemoryPolicy, "mode", always=("nodes",))
_SECCOMP_ARG = shape(api.LinuxSeccompArg, always=("index", "value", "op"))
_SYSCALL = shape(api.LinuxSyscall, always=("names", "action"), args=_SECCOMP_ARG)
SECCOMP = shape(api.LinuxSeccomp, "defaultAction", syscalls=_SYSCALL)

HOOKS = {field.json_name: field.name for field in api.Hooks.DESCRIPTOR.fields}
"""NRI's field for each stage of hooks."""


_RESOURCES = Resources(
    devices=Appended("linux.resources.devices", RULE, "NRI can only append rules"),
    memory=Memory("linux.resources.memory", MEMORY, ignored=[0]),
    cpu=CgroupLimits("linux.resources.cpu", CPU),
    pids=CgroupLimits("linux.resources.pids", PIDS, ignored=range(-1 << 63, 0)),
    hugepageLimits=NamedList("linux.resources.hugepage_limits", HUGEPAGE, irremovable=NOT_REMOVABLE),
    unified=Map("linux.resources.unified", irremovable=NOT_REMOVABLE),
)
_PROCESS = Group(
    user=User("user", USER),
    args=Args("args"),
    env=Env("env"),
    rlimits=NamedList("rlimits", RLIMIT, irremovable="NRI has no removal of rlimits"),
    oomScoreAdj=Scalar("linux.oom_score_adj", int64),
    scheduler=WholeObject("linux.scheduler", SCHEDULER, removable=True),
    ioPriority=WholeObject("linux.io_priority", IO_PRIORITY, removable=True),
)
_LINUX = Group(
    sysctl=Map("linux.sysctl"),
    resources=_RESOURCES,
    cgroupsPath=Scalar("linux.cgroups_path", text),
    namespaces=NamedList(
        "linux.namespaces", NAMESPACE, names={"network", "pid", "mount", "ipc", "uts", "user", "cgroup"}
    ),
    devices=NamedList("linux.devices", DEVICE, irremovable=NOT_FORWARDED, marks=True),
    netDevices=Map("linux.net_devices", NET_DEVICE),
    seccomp=WholeObject("linux.seccomp_policy", SECCOMP, removable=False),
    intelRdt=Rdt("linux.rdt", RDT),
    memoryPolicy=WholeObject("linux.memory_policy", MEMORY_POLICY, removable=False),
)
SPEC = Group(
    process=_PROCESS,
    mounts=NamedList("mounts", MOUNT, marks=True),
    hooks=Group(**{key: Appended(f"hooks.{name}", HOOK, "NRI can only append hooks") for key, name in HOOKS.items()}),
    annotations=Map("annotations"),
    linux=_LINUX,
)
_BY_FIELD = SPEC.by_field()


def spec_from(container: api.Container) -> Spec:
    """Returns the specification that NRI's data describes, written as Go's encoder writes it.

    Values that NRI does not report (capabilities, root, with older runtimes the user, and so on) are absent. Reverses
    pkg/api's FromOCI functions.
    """
    return SPEC.to_oci(container)


def to_json(container: Fields, texts: Texts, before: Spec, edited: Spec) -> str:
    """Returns the specification of a container, given its fields, as JSON.

    The parts in `before`, from `read`, are written as in `edited`. `texts` keeps the JSON of the container's fields for
    the next call.
    """
    if not texts:
        texts.update(_texts(container, ""))
    return SPEC.edited_json(texts, before, edited) or "{}"


def _texts(fields: Fields, place: str) -> Iterator[tuple[str, str]]:
    """Yields the name and the JSON of each field. Fields that are not set are not read: that would make objects."""
    for field, value in fields:
        name = place + field.name
        if part := _BY_FIELD.get(name):
            yield name, part.to_json(value)
        elif name in ("linux", "hooks"):
            yield from _texts(value.ListFields(), f"{name}.")


def read(container: api.Container, patch: Any, before: Spec, edited: Spec) -> None:
    """Adds the parts of the specification that a patch names to `before`, and to `edited`, the edited specification.

    A patch of None names all parts.
    """
    SPEC.read(container, patch, before, edited)


def adjustment(before: Spec, after: Spec) -> api.ContainerAdjustment:
    """Returns the adjustment that turns `before` into `after`, empty if they are the same. Modifies neither.

    `after` is a plugin's edited version of `before`. Raises NotAdjustable for a change that cannot be expressed.
    """
    adjusted = api.ContainerAdjustment()
    SPEC.adjust(adjusted, before, restore_precision(before, as_object(after, "spec")), "")
    refuse_ineffective(adjusted)
    return adjusted


def apply(spec: Spec, adjustment: api.ContainerAdjustment, *, collected: bool = False) -> Spec:
    """Returns a new specification with the adjustment. Parts that it does not change are shared with `spec`.

    `collected`: the adjustment is the runtime's collection of all plugins' adjustments, not one plugin's. Then an empty
    first argument is an argument, not a mark. CDI devices, and classes of block I/O and RDT, have no place in a
    specification: the runtime resolves them. What runtimes change besides (docs/adjusting-containers.md) is left out.
    Source: containerd/nri pkg/runtime-tools/generate/generate.go (Adjust), pkg/adaptation/result.go (adjustArgs).
    """
    applied = SPEC.apply(adjustment, spec)
    if adjustment.args[:1] == [""] and not collected:
        applied["process"]["args"] = list(adjustment.args[1:])
    return applied


def outside_spec(*adjustments: api.ContainerAdjustment) -> api.ContainerAdjustment:
    """Returns the CDI devices and the classes of block I/O and RDT of adjustments. Runtimes look these up by name.

    A later class replaces an earlier one. Duplicate CDI devices are removed, because they would fail the container.
    """
    part = api.ContainerAdjustment()
    names = {device.name for adjustment in adjustments for device in adjustment.CDI_devices}
    for adjustment in adjustments:
        for device in adjustment.CDI_devices:
            if device.name in names:
                names.remove(device.name)
                part.CDI_devices.append(device)
        resources = adjustment.linux.resources
        if resources.HasField("blockio_class"):
            part.linux.resources.blockio_class.CopyFrom(resources.blockio_class)
        if resources.HasField("rdt_class"):
            part.linux.resources.rdt_class.CopyFrom(resources.rdt_class)
    return part


def resources_to(before: Mapping[str, Any], after: Mapping[str, Any]) -> api.LinuxResources:
    """Returns the update that turns `before`, OCI's resources, into `after`.

    Raises NotAdjustable, with places in `linux.resources`, also for changes that an update would lose. Source:
    containerd internal/cri/nri/nri_api_linux.go (toCRIResources).
    """
    place = "linux.resources"
    adjusted = api.ContainerAdjustment()
    _RESOURCES.adjust(adjusted, before, restore_precision(before, as_object(after, place)), place)
    refuse_ineffective(adjusted)
    _refuse_lost(adjusted.linux.resources)
    return adjusted.linux.resources


def refuse_ineffective(adjusted: api.ContainerAdjustment) -> None:
    """Raises NotAdjustable for values that runtimes take as no change, or drop."""
    resources, policy = adjusted.linux.resources, adjusted.linux.seccomp_policy
    if resources.memory.HasField("limit") and not resources.memory.limit.value:
        raise NotAdjustable("linux.resources.memory.limit", limits.ZERO)
    if resources.pids.limit < 0:
        raise NotAdjustable("linux.resources.pids.limit", "runtimes take a limit below 0 as no change")
    if policy.HasField("default_errno") and policy.default_errno.value != 1:
        raise NotAdjustable("linux.seccomp.defaultErrnoRet", "runtimes drop it from an adjusted policy")


def _refuse_lost(resources: api.LinuxResources) -> None:
    has_swap, has_pids = resources.memory.HasField("swap"), resources.HasField("pids")
    for part, is_set in {"devices": resources.devices, "pids": has_pids, "memory.swap": has_swap}.items():
        if is_set:
            raise NotAdjustable(f"linux.resources.{part}", limits.UPDATE)
    for field, wrapper in resources.cpu.ListFields():
        if field.name.startswith("realtime_"):
            raise NotAdjustable(f"linux.resources.cpu.{field.json_name}", limits.UPDATE)
        if isinstance(wrapper, Message) and not wrapper.value:  # type: ignore[attr-defined]
            raise NotAdjustable(f"linux.resources.cpu.{field.json_name}", limits.ZERO)
