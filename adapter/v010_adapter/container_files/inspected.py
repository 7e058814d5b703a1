"""Containers as the tools of runtimes show them: `crictl inspect`, `ctr containers info`, `podman inspect`.

Sources: cri-tools cmd/crictl/container.go; containerd cmd/ctr/commands/containers/containers.go and
internal/cri/labels; podman libpod/define/container_inspect.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nri.proto import nri_pb2 as api
from v010_adapter.container_files import config
from v010_adapter.container_files.described import Described
from v010_adapter.container_files.document import Value
from v010_adapter.hooks.keys import CONTAINERD, PREFIXES


def _crictl(value: Value) -> Described:
    status, info = value["status"], value["info"]
    spec = info["runtimeSpec"]
    if not spec.keys:
        raise info.error("it has no runtimeSpec")
    id_, name = status["id"].text, status["metadata"]["name"].text
    found = _of_spec("crictl inspect", spec, id_, name, status["labels"], info["sandboxID"].text)
    found.container.annotations.update(status["annotations"].named_texts)  # containerd's specification lacks them
    return found


def crictl_pod(value: Value) -> api.PodSandbox:
    """Returns the pod in the output of `crictl inspectp`. Raises ConfigError.

    containerd also tells plugins the annotations of its specification (internal/cri/nri, GetAnnotations).
    """
    status, added = value["status"], value["info"]["runtimeSpec"]["annotations"].named_texts
    if not any(key.startswith(PREFIXES[CONTAINERD]) for key in added):
        added = {}
    metadata = status["metadata"]
    return api.PodSandbox(
        id=status["id"].text,
        name=metadata["name"].text,
        namespace=metadata["namespace"].text,
        uid=metadata["uid"].text,
        labels=status["labels"].named_texts,
        annotations={**status["annotations"].named_texts, **added},
    )


def _ctr(value: Value) -> Described:
    spec, labels, id_ = value["Spec"], value["Labels"], value["ID"].text
    sandbox_id = spec["annotations"]["io.kubernetes.cri.sandbox-id"].text
    name = labels["io.kubernetes.container.name"].text or id_
    return _of_spec("ctr containers info", spec, id_, name, labels, sandbox_id)


def _of_spec(tool: str, spec: Value, id_: str, name: str, labels: Value, sandbox_id: str) -> Described:
    container = config.container(spec)
    container.MergeFrom(api.Container(id=id_, name=name, labels=labels.named_texts, pod_sandbox_id=sandbox_id))
    pod = api.PodSandbox(
        id=sandbox_id,
        name=labels["io.kubernetes.pod.name"].text,
        namespace=labels["io.kubernetes.pod.namespace"].text,
        uid=labels["io.kubernetes.pod.uid"].text,
    )
    return Described(tool, pod, container, config.unknown(container), spec.data)


def _podman(value: Value) -> Described:
    own = value["Config"]
    path = value["Path"].text
    container = api.Container(
        id=value["Id"].text,
        name=value["Name"].text.lstrip("/"),
        pod_sandbox_id=value["Pod"].text,
        labels=own["Labels"].named_texts,
        annotations=own["Annotations"].named_texts,
        args=[path, *value["Args"].texts] if path else [],
        env=own["Env"].texts,
        mounts=map(_mount, value["Mounts"]),
    )
    pod = api.PodSandbox(id=container.pod_sandbox_id)
    return Described("podman inspect", pod, container, ("the limits of the container",))


def _mount(mount: Value) -> api.Mount:
    """Returns a mount. A named volume is a bind mount of its directory."""
    kind = mount["Type"].text
    options = [*mount["Options"].texts, mount["Propagation"].text, "rw" if mount["RW"].data is True else "ro"]
    return api.Mount(
        destination=mount["Destination"].text,
        type="bind" if kind == "volume" else kind,
        source=mount["Source"].text,
        options=filter(None, options),
    )


TOOLS: Sequence[tuple[set[str], Callable[[Value], Described]]] = (
    ({"status", "info"}, _crictl),
    ({"ID", "Spec"}, _ctr),
    ({"Id", "Config"}, _podman),
)
"""The keys that each tool's output has, and the function that reads a container in it. It raises ConfigError."""
