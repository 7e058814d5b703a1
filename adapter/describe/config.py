"""An OCI config.json as NRI tells of it: what runtimes make of a container's specification for their plugins.

Source: containerd/nri pkg/api, the FromOCI functions, and containerd internal/nri/container.go, which calls them.
"""

from __future__ import annotations

from typing import Any

from adapter.describe.document import Value
from adapter.errors import NotAdjustable
from adapter.oci import fields
from adapter.oci.fields import Field, Shape
from adapter.proto import nri_pb2 as api

_MEMORY = Shape(
    api.LinuxMemory,
    {
        field.key: field
        for field in (
            *(
                Field(key, name, fields.int64, optional=True)
                for key, name in (
                    ("limit", "limit"),
                    ("reservation", "reservation"),
                    ("swap", "swap"),
                    ("kernel", "kernel"),
                    ("kernelTCP", "kernel_tcp"),
                )
            ),
            Field("swappiness", "swappiness", fields.uint64, optional=True),
            Field("disableOOMKiller", "disable_oom_killer", fields.boolean, optional=True),
            Field("useHierarchy", "use_hierarchy", fields.boolean, optional=True),
        )
    },
)
_PIDS = Shape(api.LinuxPids, {"limit": Field("limit", "limit", fields.int64)})
_OOM = Shape(api.LinuxContainer, {"oomScoreAdj": Field("oomScoreAdj", "oom_score_adj", fields.int64, optional=True)})


def _gids(value: object, place: str) -> list[int]:
    return [fields.uint32(gid, f"{place}[{number}]") for number, gid in enumerate(fields.is_list(value, place))]


_USER = Shape(
    api.User,
    {
        "uid": Field("uid", "uid", fields.uint32),
        "gid": Field("gid", "gid", fields.uint32),
        "additionalGids": Field("additionalGids", "additional_gids", _gids, repeated=True),
    },
)


def container(spec: Value) -> api.Container:
    """Returns what NRI tells of a specification, but for what has no place in it: names and ids. Raises ConfigError."""
    process, hooks = spec["process"], spec["hooks"]
    return api.Container(
        annotations=spec["annotations"].named_texts,
        args=process["args"].texts,
        env=process["env"].texts,
        mounts=_objects(fields.MOUNT, spec["mounts"]),
        hooks=api.Hooks(**{name: _objects(fields.HOOK, hooks[stage]) for stage, name in fields.HOOKS.items()}),
        rlimits=_objects(fields.RLIMIT, process["rlimits"]),
        user=_object(_USER, process["user"]) if process["user"].data else None,
        linux=_linux(spec["linux"], process),
    )


def _linux(linux: Value, process: Value) -> api.LinuxContainer:
    found: api.LinuxContainer = _object(_OOM, process)
    found.MergeFrom(
        api.LinuxContainer(
            namespaces=_objects(fields.NAMESPACE, linux["namespaces"]),
            devices=_objects(fields.DEVICE, linux["devices"]),
            resources=_resources(linux["resources"]),
            cgroups_path=linux["cgroupsPath"].text,
            sysctl=linux["sysctl"].named_texts,
            net_devices={
                name: _object(fields.NET_DEVICE, linux["netDevices"][name]) for name in linux["netDevices"].keys
            },
            io_priority=_present(fields.IO_PRIORITY, process["ioPriority"]),
            scheduler=_present(fields.SCHEDULER, process["scheduler"]),
            seccomp_policy=_present(fields.SECCOMP, linux["seccomp"]),
        )
    )
    return found


def _resources(resources: Value) -> api.LinuxResources:
    return api.LinuxResources(
        memory=_object(_MEMORY, resources["memory"]),
        cpu=_object(fields.CPU, resources["cpu"]),
        hugepage_limits=_objects(fields.HUGEPAGE, resources["hugepageLimits"]),
        devices=_objects(fields.RULE, resources["devices"]),
        unified=resources["unified"].named_texts,
        pids=_present(_PIDS, resources["pids"]),
    )


def _objects(shape: Shape, values: Value) -> list[Any]:
    return [_object(shape, value) for value in values]


def _present(shape: Shape, value: Value) -> Any:
    return None if value.data is None else _object(shape, value)


def _object(shape: Shape, value: Value) -> Any:
    """Returns the message for an object; what NRI does not tell of it is left out."""
    known = {key: value[key].data for key in value.keys if key in shape.fields}
    try:
        return fields.read(shape, known, "")
    except NotAdjustable as error:
        place = error.place.removeprefix(".")
        raise value.error(f"{place}: {error.reason}" if place else error.reason) from None
