"""Reads a container and its pod from a file of NRI, OCI, Kubernetes or a runtime's tool. The keys tell which it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from nri.proto import nri_pb2 as api
from v010_adapter.container_files import config, document, inspected, manifest, nri
from v010_adapter.container_files.described import (
    ADDED_ANNOTATIONS,
    ADDED_VOLUME,
    IMAGE_DECIDES,
    PODS_ANNOTATIONS,
    Described,
)
from v010_adapter.container_files.document import Value
from v010_adapter.errors import ConfigError

__all__ = [
    "ADDED_ANNOTATIONS",
    "ADDED_VOLUME",
    "FORMS",
    "IMAGE_DECIDES",
    "PODS_ANNOTATIONS",
    "Described",
    "of_crictl",
    "read",
]

FORMS = """\
FILE is JSON or YAML; - is stdin. It has an NRI container, recorded events, an OCI config.json, Kubernetes manifests, or
the output of crictl inspect, ctr containers info or podman inspect."""
"""The kinds of files, for help texts."""

_CONTAINER = {field.name for field in api.Container.DESCRIPTOR.fields} | {"podSandboxId"}
_POD = {field.name for field in api.PodSandbox.DESCRIPTOR.fields}
_OCI = {"ociVersion", "process", "root"}
_EVENT = {"event", "pod", "container"}

Candidates: TypeAlias = list[tuple[str, Callable[[], Described]]]
"""The containers of a file: `NAMESPACE/POD/NAME`, as far as known, and the function that reads the container."""


def read(file: str, pod_file: str = "", name: str = "", command: str = "") -> Described:
    """Returns the container of a file, with its pod; `name` chooses one of several containers.

    The pod of `pod_file` replaces the pod of the container's file. `command` is the entrypoint of the image, if the
    image decides on the command. Raises ConfigError.
    """
    documents = document.read(file)
    place, candidates = _candidates(documents, command)
    described = _chosen(candidates, name, place)
    if command and (known := next(iter(described.container.args), "")) != command:
        raise ConfigError("-command", f"the command is known: {known or 'none'}")
    return _with_pod(described, document.read(pod_file)) if pod_file else described


def of_crictl(container: bytes, pod: bytes) -> Described:
    """Returns the container in the output of `crictl inspect`, with its pod in that of `inspectp`.

    Raises ConfigError.
    """
    place, candidates = _candidates(document.parse(container, "crictl inspect"), "")
    return _with_pod(_chosen(candidates, "", place), document.parse(pod, "crictl inspectp"))


def _with_pod(described: Described, documents: Sequence[Value]) -> Described:
    unknown = [text for text in described.unknown if text not in (PODS_ANNOTATIONS, ADDED_ANNOTATIONS)]
    if ADDED_ANNOTATIONS in described.unknown or documents[0].keys >= manifest.KEYS:
        unknown.append(ADDED_ANNOTATIONS)
    return described._replace(pod=_pod(documents), unknown=tuple(unknown))


def _candidates(documents: Sequence[Value], command: str) -> tuple[Value, Candidates]:
    """Returns the containers to choose from, and the place that an error about the choice names."""
    first = documents[0]
    keys = first.keys
    if keys >= manifest.KEYS:
        return _of_manifests(documents, command)
    if keys & _EVENT:
        return first, _of_events(documents)
    for own, convert in inspected.TOOLS:
        if keys >= own:
            return first, [(found.name, partial(Described, *found)) for found in map(convert, documents)]
    if keys & _OCI:
        return first, [("", partial(_of_config, first))]
    if keys & (_POD - _CONTAINER):
        raise first.error("this is a pod, not a container: name this file with -pod")
    if keys & _CONTAINER:
        return first, [(one["name"].text, partial(_of_nri, "an NRI container", one["pod"], one)) for one in documents]
    raise first.error(
        "neither an NRI container, nor an OCI config.json, nor a Kubernetes manifest, nor crictl's, ctr's, podman's"
    )


def _chosen(candidates: Candidates, name: str, place: Value) -> Described:
    """Returns the only container of this name, or the only one at all. A name may begin with the pod's name.

    Containers with the same full name are one container at several events: the first event counts. An error names
    `place`.
    """
    by_name: dict[str, Callable[[], Described]] = dict(reversed(candidates))
    found = [full for full in by_name if not name or f"/{full}".endswith(f"/{name}")]
    if len(found) == 1:
        return by_name[found[0]]()
    reason = "choose a container with -name"
    if name:
        reason = f"{'several containers are' if found else 'no container is'} called {name!r}"
    full = dict.fromkeys(full for full, _ in candidates)
    short = dict.fromkeys(one.rpartition("/")[2] for one in full)
    raise place.error(f"{reason}; there are: {', '.join(short if len(short) == len(full) else full) or 'none'}")


def _full(*names: str) -> str:
    return "/".join(filter(None, names))


def _pod(documents: Sequence[Value]) -> api.PodSandbox:
    """Returns the pod of a file: the only one, or that of the first recorded event."""
    value = documents[0]
    pods = _pods_of_manifests(documents) if value.keys >= manifest.KEYS else []
    if value.keys & _EVENT:
        return nri.message(value["pod"], api.PodSandbox())
    if (number := len(pods or documents)) > 1:
        raise value.error(f"there are {number} pods in it")
    if pods:
        return pods[0][1]
    if value.keys >= {"status", "info"}:
        return inspected.crictl_pod(value)
    if value.keys & _POD:
        return nri.message(value, api.PodSandbox())
    raise value.error("neither an NRI pod, nor a Kubernetes manifest, nor crictl's")


def _of_config(value: Value) -> Described:
    container = config.container(value)
    return Described("an OCI config.json", api.PodSandbox(), container, config.unknown(container), value.data)


def _of_manifests(documents: Sequence[Value], command: str) -> tuple[Value, Candidates]:
    pods = _pods_of_manifests(documents)
    candidates: Candidates = [
        (_full(pod.namespace, pod.name, value["name"].text), partial(manifest.container, template, pod, value, command))
        for template, pod in pods
        for value in manifest.containers(template)
    ]
    return documents[0] if len(pods) > 1 else pods[0][0]["spec"], candidates


def _pods_of_manifests(documents: Sequence[Value]) -> list[tuple[Value, api.PodSandbox]]:
    pods = list(manifest.pods(documents))
    if not pods:
        raise documents[0]["kind"].error("neither a Pod nor a manifest with a template of a pod")
    return pods


def _of_events(documents: Sequence[Value]) -> Candidates:
    """Returns the containers of one or more recorded events, those of CreateContainer first."""
    candidates: Candidates = []
    for event in sorted(documents, key=lambda event: event["event"].text != "CreateContainer"):
        pod, container = event["pod"], event["container"]
        if container.keys:
            kind = f"a recorded {event['event'].text}" if event["event"].text else "an NRI request"
            name = _full(pod["namespace"].text, pod["name"].text, container["name"].text)
            candidates.append((name, partial(_of_nri, kind, pod, container)))
    if not candidates:
        raise documents[0].error("it has no container")
    return candidates


def _of_nri(kind: str, pod: Value, container: Value) -> Described:
    pod_message, message = nri.message(pod, api.PodSandbox()), nri.message(container, api.Container())
    unknown = (PODS_ANNOTATIONS,) if message.pod_sandbox_id and not pod.keys else ()
    return Described(kind, pod_message, message, unknown)
