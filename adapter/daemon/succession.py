"""Which events are served when one adapter follows another: none is lost, and none runs twice. Pure.

A runtime sends each event to the adapters one after the other, so two adapters see the same events in the same order.
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


class Succession:
    """The last events that this adapter has served, or has left to the owner."""

    def __init__(self) -> None:
        self.left: Event | None = None
        """The last event, if it was left to the owner."""
        self._left_at = 0.0
        self._recent: deque[Event] = deque(maxlen=2)
        """The last events that this adapter has begun to serve, the latest first."""
        self._served_at = 0.0
        self._unanswered: set[Context] = set()
        self._joined_at = 0.0
        self._on_its_way = ""
        """The name of the event that the previous owner has served, and that this adapter has yet to get."""

    def join(self, moment: float) -> None:
        """The runtime has synchronized this adapter: events from before do not come any more."""
        self.left, self._on_its_way = None, ""
        self._joined_at = moment

    def begin(self, event: Event, moment: float) -> None:
        """Notes an event that this adapter serves."""
        self._recent.appendleft(event)
        self._served_at = moment
        self._unanswered.add(event.context)

    def answer(self, context: Context) -> None:
        """The answer to an event has been sent."""
        self._unanswered.discard(context)

    def leave(self, event: Event, moment: float) -> None:
        """Notes an event that this adapter leaves to the owner."""
        self.left, self._left_at = event, moment

    def disconnect(self) -> None:
        """The connection is lost: an event without an answer is the next adapter's."""
        heard = (event for event in self._recent if event.context not in self._unanswered)
        self._recent = deque(heard, maxlen=2)
        self._unanswered.clear()

    @property
    def served(self) -> Served:
        """What the next owner must know."""
        last, earlier, *_ = *(event.name for event in self._recent), "", ""
        return Served(last, earlier, self._served_at)

    def take_over(self, served: Served) -> Event | None:
        """Begins to serve; `served` is what the previous owner has told, NOTHING if it was killed.

        Returns the event that was left to that owner and that it has not served, if there is one.
        """
        left, self.left = self.left, None
        if served.at >= self._joined_at and (left is None or left.name != served.last):
            self._on_its_way = served.last
        if left is None or left.name in served[:2]:
            return None
        # The previous owner gets each event: one that came to it later proves that it got the one that was left.
        return left if served == NOTHING or served.at < self._left_at else None

    def is_done(self, event: Event) -> bool:
        """Whether the previous owner has served the event that comes now."""
        done, self._on_its_way = self._on_its_way, ""
        return bool(done) and done == event.name
