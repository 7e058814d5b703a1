"""Reads an OCI config.json as an NRI container, as runtimes convert it for their plugins.

Source: containerd/nri pkg/api, the FromOCI functions, and containerd internal/nri/container.go, which calls them.
"""

from __future__ import annotations

from typing import Any

from adapter.container_files.described import PODS_ANNOTATIONS
from adapter.container_files.document import Value
from adapter.errors import NotAdjustable
from adapter.oci import resources, spec
from adapter.oci.parts import RDT, USER
from adapter.oci.shapes import Shape, shape
from adapter.oci.values import read
from adapter.proto import nri_pb2 as api

CONTAINERDS = "io.kubernetes.cri."
"""The prefix of containerd's annotations. Containers in pods have some of them."""
_OOM_SCORE_ADJ = Shape(api.LinuxContainer, {"oomScoreAdj": shape(api.LinuxContainer).fields["oomScoreAdj"]}, "")


def container(config: Value) -> api.Container:
    """Returns the NRI container for a specification, without names and ids. Raises ConfigError."""
    process, hooks = config["process"], config["hooks"]
    return api.Container(
        annotations=config["annotations"].named_texts,
        args=process["args"].texts,
        env=process["env"].texts,
        mounts=_objects(spec.MOUNT, config["mounts"]),
        hooks=api.Hooks(**{name: _objects(spec.HOOK, hooks[stage]) for stage, name in spec.HOOKS.items()}),
        rlimits=_objects(spec.RLIMIT, process["rlimits"]),
        user=_object(USER, process["user"]) if process["user"].data else None,
        linux=_linux(config["linux"], process),
    )


def unknown(container: api.Container) -> tuple[str, ...]:
    """Returns what is unknown about the container of a specification: containerd omits the pod's annotations."""
    return (PODS_ANNOTATIONS,) if any(key.startswith(CONTAINERDS) for key in container.annotations) else ()


def _linux(linux: Value, process: Value) -> api.LinuxContainer:
    message: api.LinuxContainer = _object(_OOM_SCORE_ADJ, process)
    net_devices = linux["netDevices"]
    message.MergeFrom(
        api.LinuxContainer(
            namespaces=_objects(spec.NAMESPACE, linux["namespaces"]),
            devices=_objects(spec.DEVICE, linux["devices"]),
            resources=_resources(linux["resources"]),
            cgroups_path=linux["cgroupsPath"].text,
            sysctl=linux["sysctl"].named_texts,
            net_devices={name: _object(spec.NET_DEVICE, net_devices[name]) for name in net_devices.keys},
            io_priority=_present(spec.IO_PRIORITY, process["ioPriority"]),
            scheduler=_present(spec.SCHEDULER, process["scheduler"]),
            seccomp_policy=_present(spec.SECCOMP, linux["seccomp"]),
            rdt=_present(RDT, linux["intelRdt"]),
        )
    )
    return message


def _resources(limits: Value) -> api.LinuxResources:
    return api.LinuxResources(
        memory=_object(resources.MEMORY, limits["memory"]),
        cpu=_object(resources.CPU, limits["cpu"]),
        hugepage_limits=_objects(resources.HUGEPAGE, limits["hugepageLimits"]),
        devices=_objects(resources.RULE, limits["devices"]),
        unified=limits["unified"].named_texts,
        pids=_present(resources.PIDS, limits["pids"]),
    )


def _objects(shape: Shape, values: Value) -> list[Any]:
    return [_object(shape, value) for value in values]


def _present(shape: Shape, value: Value) -> Any:
    return None if value.data is None else _object(shape, value)


def _object(shape: Shape, value: Value) -> Any:
    """Returns the message for an object; members that NRI does not have are left out."""
    known = {key: value[key].data for key in value.keys if key in shape.fields}
    try:
        return read(shape, known, "")
    except NotAdjustable as error:
        place = error.place.removeprefix(".")
        raise value.error(f"{place}: {error.reason}" if place else error.reason) from None
