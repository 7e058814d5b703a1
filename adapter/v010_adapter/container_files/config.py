"""Reads an OCI config.json as an NRI container, as runtimes convert it for their plugins.

Source: containerd/nri pkg/api, the FromOCI functions, and containerd internal/nri/container.go, which calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from nri.proto import nri_pb2 as api
from v010_adapter.container_files.described import PODS_ANNOTATIONS
from v010_adapter.container_files.document import Value
from v010_adapter.errors import NotAdjustable
from v010_adapter.hooks.keys import CONTAINERD, PREFIXES
from v010_adapter.oci.named_parts import Map
from v010_adapter.oci.parts import Group, Part
from v010_adapter.oci.shapes import Shape
from v010_adapter.oci.spec import SPEC
from v010_adapter.oci.values import int64, read


def container(config: Value) -> api.Container:
    """Returns the NRI container for a specification, without names and ids. Raises ConfigError."""
    container = api.Container()
    for always in (container.hooks, container.linux.resources.memory, container.linux.resources.cpu):
        always.SetInParent()
    _fill(container, SPEC, config)
    return container


def unknown(container: api.Container) -> tuple[str, ...]:
    """Returns what is unknown about the container of a specification: containerd omits the pod's annotations."""
    is_in_pod = any(key.startswith(PREFIXES[CONTAINERD]) for key in container.annotations)
    return (PODS_ANNOTATIONS,) if is_in_pod else ()


def _fill(container: api.Container, part: Part, value: Value) -> None:
    if isinstance(part, Group):
        for key, member in part.parts.items():
            _fill(container, member, value[key])
        return
    holder = part.holder(container)
    field = getattr(holder, part.name, None)
    if field is None or value.data is None:  # a container has no memory policy
        return
    if isinstance(field, str):
        setattr(holder, part.name, value.text)
    elif isinstance(part, Map) and part.shape:
        for name in value.keys:
            field[name].CopyFrom(_object(part.shape, value[name]))
    elif isinstance(part, Map):
        field.update(value.named_texts)
    elif not isinstance(field, Message):
        field.extend([_object(part.shape, element) for element in value] if part.shape else value.texts)
    elif part.shape:
        field.CopyFrom(_object(part.shape, value))
    else:
        getattr(holder, part.name).value = _valid(value, lambda: int64(value.data, ""))


def _object(shape: Shape, value: Value) -> Any:
    """Returns the message for an object; members that NRI does not have are left out."""
    known = {key: value[key].data for key in value.keys if key in shape.fields}
    return _valid(value, lambda: read(shape, known, ""))


def _valid(value: Value, reader: Callable[[], Any]) -> Any:
    try:
        return reader()
    except NotAdjustable as error:
        place = error.place.removeprefix(".")
        raise value.error(f"{place}: {error.reason}" if place else error.reason) from None
