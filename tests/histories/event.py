"""What is seen of a history: events, their answers at each adapter, stops of adapters, and holds of containers."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from nri import api

if TYPE_CHECKING:
    from v010_adapter.events.work import PluginWork
    from v010_adapter.legacy.config import Entry

    from .peer import Peer
    from .run import Run

TIMEOUT = 2.0
"""Seconds that the runtime waits for an answer."""
RESERVE = 0.25
"""Seconds before the end of that at which an answer is due, where the runtime drops a plugin whose answer is late."""
PER_BYTE = 0.2e-6
"""Seconds by which it is due earlier, for each byte of the event: to make its answer takes time."""


class Event:
    """An event of the runtime; its number is -1 if it is a delete that no event asks for."""

    def __init__(self, number: int, method: str, id_: str, pod: str, at: float, timeout: float = inf) -> None:
        self.number, self.method, self.id, self.pod, self.at, self.timeout = number, method, id_, pod, at, timeout
        self.ended = at
        self.got: list[Call] = []
        self.accepted: list[Call] = []
        self.has_failed = False

    @property
    def is_delete(self) -> bool:
        return self.method.startswith(("Stop", "Remove"))

    @property
    def is_create(self) -> bool:
        return not self.is_delete and "Update" not in self.method

    def __str__(self) -> str:
        return f"{self.method} {self.id} ({self.number}) at {self.at:.3f}"


class Call:
    """An event at one adapter."""

    def __init__(self, event: Event, peer: Peer, now: float) -> None:
        self.event, self.peer, self.connection = event, peer, peer.connection
        self.at, self.deadline = now, now + event.timeout
        self.number = -1
        """Its place among the calls of a history."""
        self.answers: list[tuple[float, Exception | None]] = []
        self.heard_at = 0.0
        """When the runtime has got the answer; 0 if it has not got it in time."""
        self.is_answered = False
        self.parts: list[str] = []
        self.noted_at = inf
        """When the adapter has told others of the answer."""
        self.is_over = False
        self.size = 0
        self.entries: tuple[Entry, ...] | None = ()
        """What conf.json had; None if it was broken."""
        self.work: PluginWork | None = None
        self.waits = False
        """Whether it was not done with at once, so that other events may have to wait for it."""
        self.is_dropped = self.was_late = False
        """Whether the connection had ended before any program was started for it, and whether it was answered then."""
        self.runs: list[Run] = []
        self.hold: Hold | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it is decided what becomes of the event: it has been answered, and its container is not held."""
        return bool(self.answers) and (self.hold is None or self.hold.ended < inf)

    @property
    def has_failed(self) -> bool:
        """Whether the answer was an error, or the container that was held has not started."""
        return self.answers[0][1] is not None or (self.hold is not None and not self.hold.starts)

    @property
    def is_asked(self) -> bool:
        """Whether an event asks for it."""
        return self.event.number >= 0

    @property
    def due(self) -> float:
        """When it must be answered."""
        timeout = self.event.timeout
        return max(self.at, self.deadline - min(RESERVE + self.size * PER_BYTE, max(timeout, 0) / 2))

    def __str__(self) -> str:
        return f"{self.event}: {self.peer}"


class Joining:
    """A Synchronize on its way."""

    def __init__(self, request: api.SynchronizeRequest) -> None:
        self.request = request
        self.is_answered = False


class Stop(NamedTuple):
    """An adapter was stopped."""

    peer: Peer
    start: float
    end: float
    ids: frozenset[str]
    """The pods and containers that it worked on."""


class Hold:
    """A container was held."""

    def __init__(self, call: Call, begun: float, *, must_finish: bool) -> None:
        self.call, self.begun, self.ended, self.must_finish = call, begun, inf, must_finish
        self.starts = self.is_ours = False
        """Whether the container was let go, and whether the adapter has ended the hold."""
        self.before = 0
        """The number of calls that had come when it ended: two may come at one moment."""
