"""Whose turn it is: which of several adapters does the work of an event.

THE PROMISE. The work of an event is done once, and its changes are sent once, if any adapter that gets the event can do
it. A plugin that saw a create of a pod or container sees one delete. No adapter is the owner: whoever is asked first
serves, and the others see that in the state directory.

THE FACTS.
 1. NRI holds one lock over an event, and asks the plugins in turn: the next one after the one before has answered, has
    not answered in time, or has lost its connection (pkg/adaptation/adaptation.go, in 0.8.0 to 0.12.5). So all adapters
    get their events in the same order, and an adapter that is asked knows: an answer that has not been sent to the
    runtime by now does not count any more.
 2. At the first error NRI returns, and asks nobody else. So an event that failed elsewhere has not come here, unless
    it came here before, and this adapter's time was up when the other one was asked.
 3. A plugin is added under the same lock: an adapter that joins during an event does not get it.
 4. A kernel lock (F_OFD_SETLK) ends with its process. A process that hangs keeps its locks.
 5. All processes of a machine have one monotonic clock. It orders notes; no duration decides.

THE RULES. The file `turns` has a place for each id, by hash. The place has a note of the last event of the id: who has
begun it, and whether its answer has been sent. An adapter works on an id only while it has the lock of the id; a pod's
lock covers its containers. Having the lock, it asks `FATES` what becomes of the event:

    the note of another adapter    the event is
    none for it                     MINE      nobody has served it
    BEGUN                           REPEAT    its adapter ended, or was late: what it lacks runs here
    ANSWERED                        DONE      the runtime has its answer; only deletes that are still owed run here
    FAILED                          MINE      by fact 2 this is another event with the same name
    LATER                           PAST      the runtime has gone on without this adapter

An adapter writes BEGUN before it works, and ANSWERED or FAILED after its answer has been sent in time; a late answer,
or one that nobody hears, stays BEGUN, by fact 1. In time is what was sent before `Turn.deadline`, which is at most
`SHORT_WAIT` of the loop before the runtime's, or at most the duration of a stop. If its time is up before its turn, it
writes ANSWERED all the same: the work goes on there. A note has the time at which its event came to the adapter that
began it first. A note never replaces a younger one of the id. It is for this event if it has the same method and id,
and is younger than `Turn.floor`. LATER is a note for a later event: it has the same id, another method, and is younger
than `Turn.later`; or a note that this event has failed, by fact 2: it is younger than `Turn.deadline`. By fact 1, an
event that was read here in time was read before any adapter began the next one; of one that perhaps was read too late,
a moment is known at which it had not come yet.

An event that is read too late, for the adapter was stopped, is skipped if other adapters have got it, unless it
is an end: perhaps they have ended, and the deletes are owed. Its note replaces none that is younger than
`Turn.quiet_at`: that may be one of a later event. An adapter that hangs keeps its lock: who gets the event next waits
until its own deadline, then `onFailure` decides. An adapter that is alone, by fact 3, writes no notes. It knows that by
one `stat` at each event with work: each adapter that joins makes the file longer.

Creates and deletes are not decided here. The record of an id (`state.ledger`) has the creates without a delete. It is
read under the id's lock, so a delete runs once, whoever asks for it: an event, a Synchronize, the end of a process.

WHAT MAY STILL GO WRONG. A create whose plugin was killed between its note and its request counts as run. What is under
way at a kill may be repeated, unless it is a create: a delete, changes that were just sent, the plugins at an
UpdateContainer, and those that run at an end without a create; the latter also if the adapter was stopped for long when
the end came. An event that only a killed or hanging adapter has got is lost; if that was before the first start was
counted (`events.first_start`), its create counts as run. If the state directory is removed, or has no room any more
while several adapters have joined, each of them knows its own records only: deletes and events may be served twice, or
be lost with their adapter. A create that waited for an adapter that hangs is not repeated once its id has ended.
Plugins that were to run after the answer are lost with their adapter. An adapter that was stopped while an id ended and
began again may take the end for one of the new life, or repeat its create; one that reads an update too late may repeat
the next one, whose note it takes for one of the first. So may one whose note was replaced by that of another id, which
has the same place by chance. A record that is damaged while its adapter is alone is lost if that adapter is killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import NamedTuple

from v010_adapter.state.runtime_directory import file_name
from v010_adapter.state.turns_file import PLACE

ENDS = "Stop", "Remove"
"""How the methods of an id's end begin."""


class State(Enum):
    """What a note tells of an event."""

    BEGUN = "begun"
    ANSWERED = "answered"
    FAILED = "failed"
    LATER = "later"
    """The runtime has gone on: the note is for a later event, or tells that this one has failed. None is written so."""


class Fate(Enum):
    """What becomes of an event at an adapter that has the lock of its id."""

    MINE = auto()
    """The adapter serves it."""
    REPEAT = auto()
    """The adapter serves it, except for the creates that another adapter has noted."""
    DONE = auto()
    """Another adapter has answered it: the answer is empty."""
    PAST = auto()
    """Other adapters have gone on: nothing runs."""


MINE, REPEAT, DONE, PAST = Fate

FATES: Mapping[State | None, Fate] = MappingProxyType(
    {None: MINE, State.BEGUN: REPEAT, State.ANSWERED: DONE, State.FAILED: MINE, State.LATER: PAST}
)
"""The fate of an event, by the note that another adapter has written."""
SERVED_ELSEWHERE = DONE, PAST


class Note(NamedTuple):
    """The last event of an id that an adapter has begun."""

    at: float
    """When the first adapter began it."""
    by: str
    state: State
    name: str

    def encode(self) -> bytes:
        """Returns the place in the file."""
        return f"{self.at!r} {self.by} {self.state.value} {self.name}".encode().ljust(PLACE - 1) + b"\n"

    @classmethod
    def parse(cls, place: bytes) -> Note | None:
        """Returns the note in a place of the file, None if there is none."""
        words = place.decode("utf-8", "replace").split()
        try:
            at, by, state, method, id_ = words
            return cls(float(at), by, State(state), f"{method} {id_}")
        except ValueError:
            return None

    @property
    def id(self) -> str:
        """The id, as a file name."""
        return self.name.partition(" ")[2]

    def counted_for(self, turn: Turn) -> Note | None:
        """Returns the note as it counts for an event, None if it is for an earlier one, or for another id."""
        if self.name == turn.name:
            counts, has_gone_on = self.at > turn.floor, self.state is State.FAILED and self.at >= turn.deadline
        else:
            counts, has_gone_on = self.at > turn.later and self.id == file_name(turn.id), True
        return (self._replace(state=State.LATER) if has_gone_on else self) if counts else None


class Turn:
    """An event at this adapter."""

    __slots__ = (
        *("answer", "at", "deadline", "fate", "floor", "id", "is_begun", "is_late", "is_sent", "later", "method"),
        *("pod", "quiet_at"),
    )

    def __init__(
        self,
        method: str,
        pod: str,
        id_: str,
        at: float,
        quiet_at: float,
        *,
        deadline: float,
        floor: float,
        later: float,
    ) -> None:
        self.method, self.pod, self.id = method, pod, id_
        self.floor, self.later = floor, later
        """Notes of other adapters for this event are younger than `floor`, those for later events than `later`."""
        self.quiet_at = quiet_at
        """A moment at which the event had not come here yet; see `Loop`."""
        self.deadline = deadline
        """Until then, at least, the runtime waits for the answer, unless it closes the connection."""
        self.is_late = False
        """Whether it was read here too late, after other adapters have got it."""
        self.at = at
        """When the event came to the adapter that has begun it first."""
        self.fate: Fate | None = None
        """Set when the turn has come."""
        self.is_begun = False
        """Whether others have been told that it is served here, and wait to be told of its answer."""
        self.is_sent = False
        """Whether the answer has been sent. Plugins may still run."""
        self.answer: State | None = None
        """What the runtime has got from this adapter; None if that was late, or nothing."""

    @property
    def is_end(self) -> bool:
        """Whether the event is one of the id's end."""
        return self.method.startswith(ENDS)

    @property
    def name(self) -> str:
        """The method and the id: the same in each adapter that gets the event."""
        return f"{self.method} {file_name(self.id)}"
