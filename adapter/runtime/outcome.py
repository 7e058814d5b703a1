"""What became of an event: what each plugin answered, and what it means for the runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from google.protobuf.message import Message

from adapter.nri import api

FATAL = frozenset(("RunPodSandbox", "CreateContainer", "StartContainer", "UpdateContainer", "UpdatePodSandbox"))
"""Events whose errors fail what containerd was asked for; it logs all others (internal/cri/server)."""


class Answer(NamedTuple):
    """What became of one event at one plugin."""

    plugin: str
    """Its `NN-NAME`."""
    reply: Message | None
    """None if the event goes on without this plugin, or fails."""
    error: str
    """Why there is no reply."""
    fails: bool
    """Whether the error is the event's, too."""
    seconds: float


@dataclass
class Outcome:
    """What became of one event."""

    event: str
    answers: list[Answer] = field(default_factory=list)
    """One for each plugin that was asked, in order; the event ends at the first that fails it."""
    error: str = ""
    """What the runtime was told; empty if nothing went wrong for it."""
    adjust: api.ContainerAdjustment | None = None
    """What all of them together want of a container that is created; None for other events and if it fails."""
    update: list[api.ContainerUpdate] = field(default_factory=list)
    """What they want changed of other containers; at an UpdateContainer, that one comes last."""
    request: Message | None = None
    """What one more plugin would have been sent: with the container as all others adjusted it. None if it fails."""

    @property
    def failed(self) -> bool:
        """Whether containerd fails its own caller's request."""
        return bool(self.error) and self.event in FATAL

    @property
    def adjustments(self) -> dict[str, api.ContainerAdjustment]:
        """What each plugin wants of a container that is created."""
        return {
            answer.plugin: answer.reply.adjust
            for answer in self.answers
            if isinstance(answer.reply, api.CreateContainerResponse) and answer.reply.HasField("adjust")
        }

    @property
    def updates(self) -> list[tuple[str, api.ContainerUpdate]]:
        """What each plugin wants changed of other containers."""
        return [(answer.plugin, update) for answer in self.answers for update in getattr(answer.reply, "update", ())]
