"""Reads a container and its pod from a file: NRI's JSON, a recording, an OCI config.json, or a Kubernetes manifest.

The keys of the file tell its kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from adapter.container_files import config, document, quantity
from adapter.container_files.document import Value
from adapter.proto import nri_pb2 as api

_CONTAINER = {field.name for field in api.Container.DESCRIPTOR.fields} | {"podSandboxId"}
_POD = {field.name for field in api.PodSandbox.DESCRIPTOR.fields}
_OCI = {"ociVersion", "process", "root"}
_MANIFEST = {"apiVersion", "kind"}
_EVENT = {"event", "pod", "container"}


M = TypeVar("M", bound=Message)


class Described(NamedTuple):
    """A container with its pod. `kind` is the kind of the file, `unknown` lists what such a file cannot tell."""

    kind: str
    pod: api.PodSandbox
    container: api.Container
    unknown: tuple[str, ...] = ()
    spec: dict[str, Any] | None = None
    """The whole OCI specification, of an OCI config.json."""


def read(file: str, pod_file: str = "", name: str = "") -> Described:
    """Returns the container of a file, with its pod; `name` chooses one of several containers.

    The pod of `pod_file` replaces the pod of the container's file. Raises ConfigError.
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
        return Described("an NRI container", api.PodSandbox(), _message(chosen, api.Container()))
    raise first.error("neither an NRI container, nor an OCI config.json, nor a Kubernetes Pod")


def _pod(value: Value) -> api.PodSandbox:
    """Returns the pod of a pod's file."""
    if value.keys >= _MANIFEST:
        return _pod_of_manifest(_manifest([value]))
    if value.keys & _EVENT:
        return _message(value["pod"], api.PodSandbox())
    if value.keys & _POD:
        return _message(value, api.PodSandbox())
    raise value.error("neither an NRI pod nor a Kubernetes Pod")


# NRI


def _of_events(documents: Sequence[Value], name: str) -> Described:
    """Returns the container of an event, or of a recording of events, preferably of a CreateContainer."""
    with_container = [event for event in documents if event["container"].keys]
    if not with_container:
        raise documents[0].error("no container in it")
    creations_first = sorted(with_container, key=lambda event: event["event"].text != "CreateContainer")
    event = _chosen([(event["container"]["name"].text, event) for event in creations_first], name, documents[0])
    kind = f"a recorded {event['event'].text}" if event["event"].text else "an NRI request"
    return Described(kind, _message(event["pod"], api.PodSandbox()), _message(event["container"], api.Container()))


def _message(value: Value, message: M) -> M:
    """Returns a message from protojson; keys that it does not know are left out. Raises ConfigError."""
    _check(value, message.DESCRIPTOR)
    try:
        return json_format.ParseDict(value.data or {}, message, ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, TypeError, AttributeError) as error:
        raise value.error(str(error)) from None


def _check(value: Value, kind: Any) -> None:
    """Raises ConfigError, with the line, for a value of the wrong type; protobuf takes a text for an empty message."""
    for field in kind.fields:
        for member in (value[name] for name in {field.name, field.json_name}):
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            elements = [member[name] for name in member.keys] if is_map else member if field.is_repeated else [member]
            for element in elements:
                _check_element(element, field.message_type.fields_by_name["value"] if is_map else field)


def _check_element(value: Value, field: FieldDescriptor) -> None:
    if field.message_type is not None and value.data is not None:
        _check(value, field.message_type)
    elif field.type == FieldDescriptor.TYPE_STRING:
        value.text  # noqa: B018 - raises


# Kubernetes


def _manifest(documents: Sequence[Value]) -> Value:
    """Returns the first Pod, or template of one, among the documents."""
    for document_ in documents:
        if document_["kind"].text == "Pod":
            return document_
        if document_["spec"]["template"].keys:
            return document_["spec"]["template"]
    raise documents[0]["kind"].error("neither a Pod nor something with the template of one")


def _of_manifest(pod: Value, name: str) -> Described:
    spec = pod["spec"]
    kinds = ("containers", "initContainers", "ephemeralContainers")
    container = _chosen([(value["name"].text, value) for kind in kinds for value in spec[kind]], name, spec)
    command = container["command"].texts
    unknown = ["the annotations that the kubelet and the runtime add"]
    if not command:
        unknown.append("the entrypoint of the image, which is the command where the manifest has none")
    if any(variable["valueFrom"].data is not None for variable in container["env"]) or container["envFrom"].data:
        unknown.append("the values of variables that come from elsewhere")
    message = api.Container(
        name=container["name"].text,
        linux=api.LinuxContainer(resources=quantity.resources(container["resources"])),
        args=command + container["args"].texts,
        env=[f"{variable['name'].text}={variable['value'].text}" for variable in container["env"]],
        mounts=[
            api.Mount(destination=mount["mountPath"].text, type="bind", source=mount["name"].text)
            for mount in container["volumeMounts"]
        ],
    )
    return Described("a Kubernetes manifest", _pod_of_manifest(pod), message, tuple(unknown))


def _pod_of_manifest(pod: Value) -> api.PodSandbox:
    metadata = pod["metadata"]
    return api.PodSandbox(
        name=metadata["name"].text,
        namespace=metadata["namespace"].text,
        labels=metadata["labels"].named_texts,
        annotations=metadata["annotations"].named_texts,
    )


def _chosen(candidates: Sequence[tuple[str, Value]], name: str, place: Value) -> Value:
    """Returns the first candidate of that name; without a name there must be one name only.

    Raises ConfigError at `place`.
    """
    by_name = dict(reversed(candidates))
    if name in by_name:
        return by_name[name]
    if len(by_name) == 1 and not name:
        return candidates[0][1]
    reason = f"no container is called {name!r}" if name else "choose a container with -name"
    known = ", ".join(dict.fromkeys(known for known, _ in candidates)) or "none"
    raise place.error(f"{reason}; there are: {known}")
