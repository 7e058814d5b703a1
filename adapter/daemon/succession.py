"""Which events are served when one adapter follows another: none is lost, and none runs twice. Pure.

A runtime sends each event to the adapters one after the other, so two adapters see the same events in the same order.
`lease` says which adapter is the owner; `owed.handover` passes the journal and the running plugins on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from adapter.host.lock import NOTHING, Served
from adapter.nri import Context

Handler = Callable[[Any, Context], Any]
"""Serves an event, given NRI's request; returns the answer, perhaps a Deferred."""


class Event(NamedTuple):
    """An event, and what serves it."""

    serve: Handler
    request: Any
    context: Context

    @property
    def name(self) -> str:
        """The event's method and the id of its pod or container: the same in each adapter."""
        subject = self.request.pod if self.context.method.endswith("PodSandbox") else self.request.container
        return f"{self.context.method} {subject.id}"


class _Begun(NamedTuple):
    """An event that an adapter has begun to serve: its name, when it came, and its context if it came to this one."""

    name: str
    at: float
    context: Context | None = None


MOST_LEFT = 100
"""The events that an adapter keeps in case that the owner has lost its connection and does not know it yet."""


class Succession:
    """The last events that this adapter has served, or has left to the owner."""

    def __init__(self) -> None:
        self._left: deque[tuple[Event, float]] = deque(maxlen=MOST_LEFT)
        """The last events that were left to the owner, and when."""
        self._recent: deque[_Begun] = deque(maxlen=2)
        """The last events that this adapter, or an earlier owner, has begun to serve, the latest first."""
        self._unanswered: set[Context] = set()
        self._joined_at = 0.0
        self._on_its_way = ""
        """The name of the event that the previous owner has served, and that this adapter has yet to get."""

    def join(self, moment: float) -> None:
        """The runtime has synchronized this adapter: events from before do not come any more."""
        self._left.clear()
        self._on_its_way = ""
        self._joined_at = moment

    def note_begun(self, event: Event, moment: float) -> None:
        """Notes an event that this adapter serves."""
        self._left.clear()
        self._recent.appendleft(_Begun(event.name, moment, event.context))
        self._unanswered.add(event.context)

    def note_answered(self, context: Context) -> None:
        """The answer to an event has been sent."""
        self._unanswered.discard(context)

    def note_left(self, event: Event, moment: float) -> None:
        """Notes an event that this adapter leaves to the owner."""
        self._left.append((event, moment))

    def disconnect(self) -> None:
        """The connection is lost: an event without an answer is the next adapter's."""
        heard = [each for each in self._recent if each.context not in self._unanswered]
        self._recent = deque(heard, maxlen=2)
        self._unanswered.clear()

    @property
    def served(self) -> Served:
        """What the next owner must know."""
        last, earlier, *_ = *(each.name for each in self._recent), "", ""
        return Served(last, earlier, self._recent[0].at if self._recent else self._joined_at)

    def take_over(self, served: Served) -> list[Event]:
        """Begins to serve; `served` is what the previous owner has told, NOTHING if it was killed.

        Returns the events that were left to that owner and that it has not served, in their order.
        """
        left = list(self._left)
        self._left.clear()
        if served == NOTHING:
            lost = left[-1:]  # whether the owner has served it, nobody knows
        else:
            # The owner gets each event: one that came to it later proves that it got the one that was left.
            done = max((number for number, (event, _) in enumerate(left, 1) if event.name in served[:2]), default=0)
            lost = [(event, at) for event, at in left[done:] if at > served.at]
        is_last = bool(left) and left[-1][0].name == served.last
        if served.at >= self._joined_at and not lost and not is_last:
            self._on_its_way = served.last
        self._inherit(served, lost)
        return [event for event, _ in lost]

    def _inherit(self, served: Served, lost: list[tuple[Event, float]]) -> None:
        """Notes what the next owner must know of the events before this adapter's own."""
        at = self._joined_at if served == NOTHING else served.at
        known = [_Begun(event.name, moment) for event, moment in reversed(lost)]
        known += [_Begun(name, at) for name in served[:2] if name]
        self._recent = deque(known[:2], maxlen=2)

    def is_done(self, event: Event) -> bool:
        """Whether the previous owner has served the event that comes now."""
        done, self._on_its_way = self._on_its_way, ""
        return bool(done) and done == event.name
