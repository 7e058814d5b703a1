"""The OCI specification of a container as far as NRI tells it."""

from __future__ import annotations

from typing import Any, TypeAlias

from adapter.oci import fields
from adapter.oci.fields import write
from adapter.oci.resources import resources_from
from adapter.proto import nri_pb2 as api

Spec: TypeAlias = dict[str, Any]
"""An OCI runtime specification as `gojson.plain` returns it."""


def spec_from(pod: api.PodSandbox, container: api.Container) -> Spec:
    """Returns the specification that NRI's data describes, written as Go's encoder writes it.

    What NRI does not tell (capabilities, root, with older ones the user, and so on) is absent. All that it does tell
    is in the container; nothing comes from `pod` so far. Reverses pkg/api's FromOCI functions.
    """
    spec = {
        "process": _process(container),
        "mounts": [write(fields.MOUNT, mount) for mount in container.mounts],
        "hooks": _hooks(container.hooks),
        "annotations": dict(container.annotations),
        "linux": _linux(container.linux),
    }
    return {key: value for key, value in spec.items() if value}


def _process(container: api.Container) -> Spec:
    linux = container.linux
    process: Spec = {}
    if container.HasField("user"):
        process["user"] = write(fields.USER, container.user)
    process["args"] = list(container.args)
    process["env"] = list(container.env)
    process["rlimits"] = [write(fields.RLIMIT, rlimit) for rlimit in container.rlimits]
    if linux.HasField("oom_score_adj"):
        process["oomScoreAdj"] = linux.oom_score_adj.value
    # Each has a word for none, which OCI says by absence.
    if linux.scheduler.policy:
        process["scheduler"] = write(fields.SCHEDULER, linux.scheduler)
    if getattr(linux.io_priority, "class"):
        process["ioPriority"] = write(fields.IO_PRIORITY, linux.io_priority)
    return {key: value for key, value in process.items() if value or value == 0}


def _hooks(hooks: api.Hooks) -> Spec:
    stages = {stage: getattr(hooks, name) for stage, name in fields.HOOKS.items()}
    return {stage: [write(fields.HOOK, hook) for hook in found] for stage, found in stages.items() if found}


def _linux(linux: api.LinuxContainer) -> Spec:
    spec: Spec = {"sysctl": dict(linux.sysctl)}
    if linux.HasField("resources"):
        spec["resources"] = resources_from(linux.resources)
    spec["cgroupsPath"] = linux.cgroups_path
    spec["namespaces"] = [write(fields.NAMESPACE, namespace) for namespace in linux.namespaces]
    spec["devices"] = [write(fields.DEVICE, device) for device in linux.devices]
    spec["netDevices"] = {name: write(fields.NET_DEVICE, device) for name, device in linux.net_devices.items()}
    if linux.HasField("seccomp_policy"):
        spec["seccomp"] = write(fields.SECCOMP, linux.seccomp_policy)
    if linux.HasField("rdt"):
        spec["intelRdt"] = _rdt(linux.rdt)
    return {key: value for key, value in spec.items() if value}


def _rdt(rdt: api.LinuxRdt) -> Spec:
    rdt_spec: Spec = {
        "closID": rdt.clos_id.value,
        "schemata": list(rdt.schemata.value),
        "enableMonitoring": rdt.enable_monitoring.value,
    }
    return {key: value for key, value in rdt_spec.items() if value}
