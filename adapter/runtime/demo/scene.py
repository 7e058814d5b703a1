"""What the demo knows and shows: who plays, one event at a time, and what it comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from adapter.runtime.outcome import Outcome

MOMENTS = {
    "RunPodSandbox": "the pod's sandbox has been started",
    "CreateContainer": "a container is about to be created",
    "PostCreateContainer": "it has been created",
    "StartContainer": "its process waits to become its program",
    "PostStartContainer": "its program runs",
    "UpdateContainer": "its resources are about to be changed",
    "PostUpdateContainer": "they have been changed",
    "StopContainer": "its process has ended",
    "RemoveContainer": "it is removed",
    "StopPodSandbox": "the pod's sandbox has been stopped",
    "RemovePodSandbox": "the pod is removed",
}
"""What the events mean in a pod's life."""

Json = dict[str, Any]


@dataclass
class Opening:
    """What is known before the first event."""

    runtime: str
    pod: str
    label: str
    annotation: str
    command: str
    samples: str
    plugins: tuple[str, ...]
    hook_samples: str
    hooks: tuple[str, ...]
    record: str
    """Where a node has the program of record.json, which the demo's copy has elsewhere."""
    seconds: float
    """From the launch until the adapter was in service."""
    events: list[str]
    """What it asked for."""
    temporary: str


@dataclass
class Hooks:
    """What of the hooks a container got, and why; stages have NRI's names."""

    injected: dict[str, list[Json]]
    """By stage, from the adapter's answer to the runtime."""
    decisions: list[Json]
    """What `hooks match` says of each file."""
    errors: list[Json]
    """What it says of files that cannot be used."""
    announced: dict[str, list[Json]]
    """What it says would be injected."""

    @property
    def count(self) -> int:
        """How many were injected; a file for two stages makes two."""
        return sum(map(len, self.injected.values()))


@dataclass
class Scene:
    """One event and what came of it."""

    event: str
    outcome: Outcome
    runs: list[Json] = field(default_factory=list)
    """What the adapter logged of each plugin it ran: request, result, time."""
    said: list[Json] = field(default_factory=list)
    """What else it logged, plugins' stderr included."""
    quota: tuple[str, str] = ("", "")
    """The container's CPU quota before and after."""
    hooks: Hooks | None = None
    """Only where a container is created."""


@dataclass
class Ending:
    """What it comes to."""

    events: int
    runs: int
    plugins: int
    seconds: float
    """In events, as the runtime saw it."""
    hooks: int
    """How many were injected."""
    unexpected: list[str]
