"""The events to play: a recording, or the life of a pod with the container of a file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask

from nri import api, events
from nri.testing.flavour import FLAVOURS, Flavour
from nri.testing.load import UPDATE
from nri.testing.recorded import POD_LIFE, without_processes
from v010_adapter import container_files
from v010_adapter.container_files.recording import Recorded, read
from v010_adapter.errors import ConfigError

PROGRESS = FieldMask(
    paths=["state", "pid", "created_at", "started_at", "finished_at", "exit_code", "status_reason", "status_message"]
)
"""The fields that change during a container's life. The others keep their values from the creation."""


@dataclass
class Script:
    """Events in order, and the state before them."""

    events: list[Recorded]
    flavour: Flavour | None = None
    """The runtime of the recording, if the recording names it."""
    pods: Sequence[api.PodSandbox] = ()
    containers: Sequence[api.Container] = ()
    """The state for Synchronize."""
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The OCI specification by container id, if the file has it. It has more than NRI's messages."""
    unknown: Sequence[str] = ()
    """What the container's file does not contain."""
    made_up: bool = False
    """Whether later events get the container as the plugins have adjusted it; recorded events stay as they are."""


def recorded(path: Path) -> Script:
    script = Script([])
    for call in read(path):
        if isinstance(call.request, api.ConfigureRequest):
            name, version = call.request.runtime_name, call.request.runtime_version
            known = FLAVOURS.get(f"{name}/{version.removeprefix('v').partition('+')[0]}")
            script.flavour = known or Flavour(name or "containerd", version)
        elif isinstance(call.request, api.SynchronizeRequest):
            script.pods, script.containers = call.request.pods, call.request.containers
        elif events.CALLS[call.event].event:
            script.events.append(call)
    if not script.events:
        raise ConfigError(str(path), "it has no events")
    return script


def pod_life() -> Script:
    """Returns the life of a pod with one container, recorded on containerd."""
    script = recorded(POD_LIFE)
    script.events = [Recorded(event, without_processes(request)) for event, request in script.events]
    return replace(script, made_up=True)


def made_up(described: container_files.Described) -> Script:
    """Returns the life of a pod with the container of a file."""
    created = api.Container(id=_id(f"container {described.container.name}"), name="container")
    created.MergeFrom(described.container)
    pod_id = created.pod_sandbox_id or _id(f"pod {described.pod.name}")
    sandbox = api.PodSandbox(id=pod_id, name="pod", namespace="default")
    sandbox.MergeFrom(described.pod)
    created.pod_sandbox_id = sandbox.id
    life = [call for call in pod_life().events if call.event not in UPDATE]
    for _, message in life:
        request: Any = message
        request.pod.CopyFrom(sandbox)
        if hasattr(request, "container"):
            request.container.CopyFrom(with_progress(created, request.container))
    specs = {created.id: described.spec} if described.spec else {}
    return Script(life, specs=specs, unknown=described.unknown, made_up=True)


def _id(text: str) -> str:
    """Returns an id in the usual form. The same text always has the same id."""
    return hashlib.sha256(text.encode()).hexdigest()


def with_progress(container: api.Container, later: api.Container) -> api.Container:
    """Returns a copy of the container with the pid, the state and so on of `later`."""
    result = deepcopy(container)
    PROGRESS.MergeMessage(later, result)
    return result
