"""A container and its pod as people have them at hand: files of NRI's, OCI's or Kubernetes' making.

Which of these a file is, is seen from its keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from adapter.describe import config, document, quantity
from adapter.describe.document import Value
from adapter.proto import nri_pb2 as api

_CONTAINER = {field.name for field in api.Container.DESCRIPTOR.fields} | {"podSandboxId"}
_POD = {field.name for field in api.PodSandbox.DESCRIPTOR.fields}
_OCI = {"ociVersion", "process", "root"}
_MANIFEST = {"apiVersion", "kind"}
_EVENT = {"event", "pod", "container"}


M = TypeVar("M", bound=Message)


class Described(NamedTuple):
    """A container with its pod. `kind` is what the file was, `unknown` what it cannot tell."""

    kind: str
    pod: api.PodSandbox
    container: api.Container
    unknown: tuple[str, ...] = ()
    spec: dict[str, Any] | None = None
    """The whole OCI specification, where that is what the file was."""


def read(file: str, pod_file: str = "", name: str = "") -> Described:
    """Returns the container that a file describes, the one called `name` if there are several, with its pod.

    A pod that has a file of its own replaces the one that came with the container. Raises ConfigError.
    """
    described = _described(document.read(file), name)
    return described._replace(pod=_pod(document.read(pod_file)[0])) if pod_file else described


def _described(documents: Sequence[Value], name: str) -> Described:
    first = documents[0]
    keys = first.keys
    if keys >= _MANIFEST:
        return _of_manifest(_manifest(documents), name)
    if keys & _EVENT:
        return _of_events(documents, name)
    if keys & _OCI:
        return Described("an OCI config.json", api.PodSandbox(), config.container(first), spec=first.data)
    if keys & (_POD - _CONTAINER):
        raise first.error("this is a pod, not a container: give it with -pod")
    if keys & _CONTAINER:
        chosen = _chosen([(first["name"].text, first)], name, first)
        return Described("an NRI container", api.PodSandbox(), _of_nri(chosen))
    raise first.error("neither an NRI container, nor an OCI config.json, nor a Kubernetes Pod")


def _pod(value: Value) -> api.PodSandbox:
    """Returns the pod that a file of its own describes."""
    if value.keys >= _MANIFEST:
        return _pod_of_manifest(_manifest([value]))
    if value.keys & _EVENT:
        return _pod_of_nri(value["pod"])
    if value.keys & _POD:
        return _pod_of_nri(value)
    raise value.error("neither an NRI pod nor a Kubernetes Pod")


# NRI and OCI. Of what is read of them, protojson and Go's encoding/json make the same.


def _of_events(documents: Sequence[Value], name: str) -> Described:
    """Returns what an event, or a recording with one to a line, says of a container; a creation says most."""
    with_container = [one for one in documents if one["container"].keys]
    if not with_container:
        raise documents[0].error("no container in it")
    creations_first = sorted(with_container, key=lambda one: one["event"].text != "CreateContainer")
    event = _chosen([(one["container"]["name"].text, one) for one in creations_first], name, documents[0])
    kind = f"a recorded {event['event'].text}" if event["event"].text else "an NRI request"
    return Described(kind, _pod_of_nri(event["pod"]), _of_nri(event["container"]))


def _of_nri(value: Value) -> api.Container:
    container = api.Container(
        id=value["id"].text,
        pod_sandbox_id=value["pod_sandbox_id"].text or value["podSandboxId"].text,
        name=value["name"].text,
        annotations=value["annotations"].named_texts,
        args=value["args"].texts,
        mounts=map(_mount, value["mounts"]),
    )
    return _with_the_rest(container, value, {"pod_sandbox_id", "podSandboxId"})


def _pod_of_nri(value: Value) -> api.PodSandbox:
    pod = api.PodSandbox(
        id=value["id"].text,
        name=value["name"].text,
        namespace=value["namespace"].text,
        annotations=value["annotations"].named_texts,
    )
    return _with_the_rest(pod, value, set())


def _with_the_rest(message: M, value: Value, read: set[str]) -> M:
    """Adds to a message of which the most important was read all the rest, about which less can be said."""
    read = {"id", "name", "namespace", "annotations", "args", "mounts"} | read
    rest = {key: value[key].data for key in value.keys - read if value[key].data is not None}
    _check_kinds(value, message.DESCRIPTOR)
    try:
        return json_format.ParseDict(rest, message, ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, TypeError, AttributeError) as error:
        raise value.error(str(error)) from None


def _check_kinds(value: Value, of: Any) -> None:
    """Raises ConfigError where a descriptor wants a mapping or a list; protobuf takes a text for an empty message."""
    for field in of.fields:
        inside = value[field.name]
        if field.message_type is None or inside.data is None:
            continue
        if field.message_type.GetOptions().map_entry:
            inside.keys  # noqa: B018 - it is a mapping
        elif field.is_repeated:
            for element in inside:
                _check_kinds(element, field.message_type)
        else:
            _check_kinds(inside, field.message_type)


def _mount(value: Value) -> api.Mount:
    return api.Mount(
        destination=value["destination"].text,
        type=value["type"].text,
        source=value["source"].text,
        options=value["options"].texts,
    )


# Kubernetes


def _manifest(documents: Sequence[Value]) -> Value:
    """Returns the first Pod, or template of one, among the documents."""
    for one in documents:
        if one["kind"].text == "Pod":
            return one
        if one["spec"]["template"].keys:
            return one["spec"]["template"]
    raise documents[0]["kind"].error("neither a Pod nor something with the template of one")


def _of_manifest(pod: Value, name: str) -> Described:
    spec = pod["spec"]
    kinds = ("containers", "initContainers", "ephemeralContainers")
    container = _chosen([(one["name"].text, one) for kind in kinds for one in spec[kind]], name, spec)
    command = container["command"].texts
    unknown = ["the annotations that the kubelet and the runtime add"]
    if not command:
        unknown.append("the entrypoint of the image, which is the command where the manifest has none")
    if any(one["valueFrom"].data is not None for one in container["env"]) or container["envFrom"].data:
        unknown.append("the values of variables that come from elsewhere")
    of_nri = api.Container(
        name=container["name"].text,
        linux=api.LinuxContainer(resources=quantity.resources(container["resources"])),
        args=command + container["args"].texts,
        env=[f"{one['name'].text}={one['value'].text}" for one in container["env"]],
        mounts=[
            api.Mount(destination=mount["mountPath"].text, type="bind", source=mount["name"].text)
            for mount in container["volumeMounts"]
        ],
    )
    return Described("a Kubernetes manifest", _pod_of_manifest(pod), of_nri, tuple(unknown))


def _pod_of_manifest(pod: Value) -> api.PodSandbox:
    metadata = pod["metadata"]
    return api.PodSandbox(
        name=metadata["name"].text,
        namespace=metadata["namespace"].text,
        labels=metadata["labels"].named_texts,
        annotations=metadata["annotations"].named_texts,
    )


def _chosen(candidates: Sequence[tuple[str, Value]], name: str, place: Value) -> Value:
    """Returns the first candidate of that name; without a name there must be no choice.

    `place` is where it is missing otherwise.
    """
    by_name = dict(reversed(candidates))
    if name in by_name:
        return by_name[name]
    if len(by_name) == 1 and not name:
        return candidates[0][1]
    reason = f"no container is called {name!r}" if name else "choose a container with -name"
    known = ", ".join(dict.fromkeys(known for known, _ in candidates)) or "none"
    raise place.error(f"{reason}; there are: {known}")
