"""What is played: recorded events, or the life of a pod with a container that somebody has described."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from adapter import describe
from adapter.errors import ConfigError
from adapter.nri import api, events
from adapter.runtime.flavour import FLAVOURS, Flavour
from adapter.runtime.recording import POD_LIFE, Recorded, read

PROGRESS = ("state", "pid", "created_at", "started_at", "finished_at", "exit_code", "status_reason", "status_message")
"""What changes in a container's life; the rest of it is as it was created."""
UPDATES = ("UpdateContainer", "PostUpdateContainer")


@dataclass
class Script:
    """Events in order, and what plugins are told before them."""

    events: list[Recorded]
    flavour: Flavour | None = None
    """The runtime that was recorded, if it was."""
    pods: Sequence[api.PodSandbox] = ()
    containers: Sequence[api.Container] = ()
    """What there was before, for Synchronize."""
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The whole OCI specification of containers of which more is known than NRI tells, by id."""
    made_up: bool = False
    """Whether the containers of later events are to be what plugins made of them at their creation."""


def recorded(path: Path) -> Script:
    """Returns a recording. Raises ConfigError."""
    script = Script([])
    try:
        for one in read(path):
            _add(script, one)
    except OSError as error:
        raise ConfigError(str(path), error.strerror or str(error)) from None
    if not script.events:
        raise ConfigError(str(path), "no events in it")
    return script


def _add(script: Script, one: Recorded) -> None:
    if isinstance(one.request, api.ConfigureRequest):
        script.flavour = _flavour(one.request.runtime_name, one.request.runtime_version)
    elif isinstance(one.request, api.SynchronizeRequest):
        script.pods, script.containers = one.request.pods, one.request.containers
    elif events.CALLS[one.event].event:
        script.events.append(one)


def _flavour(name: str, version: str) -> Flavour:
    known = FLAVOURS.get(f"{name}-{version.removeprefix('v').partition('+')[0]}")
    return known or Flavour(name or "containerd", version)


def pod_life() -> Script:
    """Returns the life of a pod with one container, recorded on containerd without plugins that adjust it."""
    return replace(recorded(POD_LIFE), made_up=True)


def made_up(container: str, pod: str, name: str) -> Script:
    """Returns the life of a pod with a container that a file describes: see adapter.describe. Raises ConfigError."""
    described = describe.read(container, pod, name)
    sandbox, ours = described.pod, described.container
    sandbox.id = sandbox.id or ours.pod_sandbox_id or _id("pod", sandbox.name)
    sandbox.name = sandbox.name or "pod"
    sandbox.namespace = sandbox.namespace or "default"
    ours.id = ours.id or _id("container", ours.name)
    ours.name = ours.name or "container"
    ours.pod_sandbox_id = sandbox.id
    life = [_told_of(one, sandbox, ours) for one in pod_life().events if one.event not in UPDATES]
    return Script(life, specs={ours.id: described.spec} if described.spec else {}, made_up=True)


def _id(kind: str, name: str) -> str:
    """Returns what looks like an id of a runtime's, the same every time."""
    return hashlib.sha256(f"{kind} {name}".encode()).hexdigest()


def _told_of(one: Recorded, pod: api.PodSandbox, container: api.Container) -> Recorded:
    """Returns the same event of another pod and container."""
    request = cast(Any, type(one.request)())
    recorded = cast(Any, one.request)
    request.pod.CopyFrom(pod)
    request.pod.pid = pod.pid or recorded.pod.pid
    if recorded.DESCRIPTOR.fields_by_name.get("container"):
        request.container.CopyFrom(with_progress(container, recorded.container))
    return Recorded(one.event, request)


def with_progress(container: api.Container, later: api.Container) -> api.Container:
    """Returns the container at a later time: its pid, state and so on are those of `later`."""
    found = api.Container()
    found.CopyFrom(container)
    for name in PROGRESS:
        found.ClearField(name)  # type: ignore[arg-type]
    for known, value in later.ListFields():
        if known.name in PROGRESS:
            setattr(found, known.name, value)
    return found
