"""Which events are served when one adapter follows another, so that none is lost and none runs twice. Pure.

After a kill, nobody knows what was served last: the journal has only the creates begun, and the deletes ended.
A runtime sends each event to the adapters one after the other, so two adapters see the same events in the same order.
`lease` says which adapter is the owner; `owed.handover` passes the journal and the running plugins on.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from adapter.host.lock import NOTHING, Served, Told
from adapter.nri import Context


class Event(NamedTuple):
    """An event, and when it came to this adapter."""

    request: Any
    context: Context
    came: float

    @property
    def name(self) -> str:
        """The event's method and the id of its pod or container: the same in each adapter."""
        return f"{self.context.method} {self.id}"

    @property
    def id(self) -> str:
        """The id of the pod or container."""
        subject = self.request.pod if self.context.method.endswith("PodSandbox") else self.request.container
        return str(subject.id)

    @property
    def is_end(self) -> bool:
        """Whether the pod or container has stopped, or was removed."""
        return self.context.method.startswith(("Stop", "Remove"))


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
        self._left: deque[Event] = deque(maxlen=MOST_LEFT)
        """The last events that were left to the present owner."""
        self._missed: list[Event] = []
        """Events that were left to an earlier owner, which has not served them, before the present one joined."""
        self._recent: deque[_Begun] = deque(maxlen=2)
        """The last events that this adapter, or an earlier owner, has begun to serve, the latest first."""
        self._unanswered: set[Context] = set()
        self.joined_at = 0.0
        self._known_until = 0.0
        """When the last event came that an earlier owner has served."""
        self._on_its_way = ""
        """The name of the event that the previous owner has served, and that this adapter has yet to get."""

    def join(self, moment: float) -> None:
        """The runtime has synchronized this adapter: events from before do not come any more."""
        self._left.clear()
        self._missed.clear()
        self._on_its_way = ""
        self.joined_at = moment

    def note_begun(self, event: Event) -> None:
        """Notes an event that this adapter serves.

        One that is read after the runtime has hung up was sent before: others may have got later events earlier.
        """
        self._left.clear()
        at = event.came if event.context.is_heard else self.served.at
        self._recent.appendleft(_Begun(event.name, at, event.context))
        self._unanswered.add(event.context)

    def note_answered(self, context: Context) -> None:
        """The answer to an event has been sent."""
        self._unanswered.discard(context)

    def note_left(self, event: Event) -> None:
        """Notes an event that this adapter leaves to the owner."""
        self._left.append(event)

    def note_owner(self, told: Told) -> bool:
        """Another adapter has become the owner; returns whether this adapter has events that no owner serves.

        The owner gets each event since it has joined. Only adapters that joined earlier have got the events before. The
        owner knows from its Synchronize what has ended.
        """
        before = [event for event in self._left if event.came < told.since]
        self._left = deque((event for event in self._left if event.came >= told.since), MOST_LEFT)
        self._missed = [event for event in self._missed if event.came < told.since]
        if told.served != NOTHING:  # else nobody knows, and the delete of the last one may have run since
            self._missed += [event for event in _not_served(before, told.served) if not event.is_end]
        return bool(self._missed)

    def disconnect(self) -> None:
        """The connection is lost: an event without an answer is the next adapter's."""
        heard = [each for each in self._recent if each.context not in self._unanswered]
        self._recent = deque(heard, maxlen=2)
        self._unanswered.clear()

    @property
    def served(self) -> Served:
        """What the next owner must know."""
        last, earlier, *_ = *(each.name for each in self._recent), "", ""
        return Served(last, earlier, self._recent[0].at if self._recent else self._known_until)

    def take_over(self, served: Served) -> list[Event]:
        """Begins to serve; `served` is what the previous owner has told, NOTHING if it was killed.

        Returns the events that were left to that owner, or to one before, and not served; after a kill the last one.
        """
        left = list(self._left)
        ended = {event.id for event in left if event.is_end}
        missed = [event for event in self._missed if event.id not in ended]
        lost = _not_served(left, served)
        is_last = bool(left) and left[-1].name == served.last
        if served.at >= self.joined_at and not lost and not is_last:
            self._on_its_way = served.last
        self._left.clear()
        self._missed.clear()
        self._inherit(served, lost)
        return [*missed, *lost]

    def _inherit(self, served: Served, lost: list[Event]) -> None:
        """Notes what the next owner must know of the events before this adapter's own."""
        self._known_until = self.joined_at if served == NOTHING else served.at
        known = [_Begun(event.name, event.came) for event in reversed(lost)]
        known += [_Begun(name, self._known_until) for name in served[:2] if name]
        self._recent = deque(known[:2], maxlen=2)

    def is_done(self, event: Event) -> bool:
        """Whether the previous owner has served the event that comes now."""
        done, self._on_its_way = self._on_its_way, ""
        return bool(done) and done == event.name


def _not_served(left: list[Event], served: Served) -> list[Event]:
    """Returns which of the events that were left to an owner that one has not served."""
    if served == NOTHING:
        return left[-1:]  # whether the owner has served it, nobody knows
    # The owner gets each event: one that came to it later proves that it got the one that was left.
    done = max((number for number, event in enumerate(left, 1) if event.name in served[:2]), default=0)
    return [event for event in left[done:] if event.came > served.at]
