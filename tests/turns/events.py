"""What a runtime asks its adapters, in a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nri import api

if TYPE_CHECKING:
    from .peer import Peer

TIMEOUT = 2.0
CREATES = {"RunPodSandbox": "pr", "CreateContainer": "q", "StartContainer": "pr", "UpdateContainer": "u"}
"""The plugins that run at an event."""
MORE = {"StartContainer": "prv", "StopContainer": "s", "RemoveContainer": "w"}
"""Likewise, with the plugins that run at some events only; `s` and `w` are owed nothing by a create."""


class Event:
    """An event of the runtime."""

    def __init__(self, number: int, method: str, id_: str, pod: str, at: float) -> None:
        self.number, self.method, self.id, self.pod, self.at = number, method, id_, pod, at
        self.ended = at
        self.got: list[Call] = []
        self.accepted: list[Call] = []
        self.has_failed = False
        self.is_vetoed = False

    def __str__(self) -> str:
        return f"{self.method} {self.id} ({self.number})"


class Call:
    """An event at one adapter."""

    def __init__(self, event: Event, peer: Peer, now: float) -> None:
        self.event, self.peer, self.connection = event, peer, peer.connection
        self.at, self.deadline = now, now + TIMEOUT
        self.answered_at = 0.0
        """When the runtime has got the answer; 0 if it has not got it in time."""
        self.is_answered = False
        self.parts: list[str] = []
        self.noted_at = 1e9
        """When the adapter has told others of the answer."""
        self.is_over = False


class Joining:
    """A Synchronize on its way."""

    def __init__(self, request: api.SynchronizeRequest) -> None:
        self.request = request
        self.is_answered = False


class Hold(NamedTuple):
    """An adapter was stopped."""

    peer: Peer
    start: float
    end: float
    ids: frozenset[str]
    """The pods and containers that it worked on."""
