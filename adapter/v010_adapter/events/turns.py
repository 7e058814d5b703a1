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

An adapter writes BEGUN before it works, and ANSWERED or FAILED after its answer has been sent in time. After a late
answer, and after one that nobody hears, the note stays BEGUN, by fact 1. An answer is in time if it was sent before
`Turn.deadline`. That is earlier than the runtime's deadline by at most `SHORT_WAIT` of the loop, or by at most the
duration of a stop of this process. If the time of an event is up before its turn, the adapter writes ANSWERED all the
same, and works on. A note has the time at which its event came to the adapter that began it first; if it is FAILED, to
the adapter that wrote it. A note never replaces a younger note of the same id.

A note is for this event if it has the same method and id, and is younger than `Turn.floor`. A note counts as LATER if
it is for a later event, which is so if it has the same id, another method, and is younger than `Turn.later`. It also
counts as LATER if it says that this event has failed, by fact 2: then it is younger than `Turn.deadline`. By fact 1, an
event that was read here in time was read before any adapter began the next event. Of an event that perhaps was read too
late, `Turn.quiet_at` is known: a moment at which it had not come yet.

An adapter that was stopped may read an event too late. It skips the event if other adapters have got it. It does not
skip an end: the others may have ended themselves, and the deletes are owed. The note of such an event replaces no note
that is younger than `Turn.quiet_at`, which may be one of a later event. An adapter that hangs keeps its lock: the
adapter that gets the event next waits until its own deadline, then `onFailure` decides. An adapter that is alone, by
fact 3, writes no notes. It knows that by one `stat` at each event with work: each adapter that joins makes the file
longer. After the others have gone, it still looks for their notes at its first event: they may have answered that
event, and the runtime asks this adapter afterwards, however much later.

Creates and deletes are not decided here. The record of an id (`state.ledger`) has the creates without a delete. It is
read under the id's lock, so a delete runs once, whoever asks for it: an event, a Synchronize, the end of a process.

WHAT MAY STILL GO WRONG.
 - An adapter is killed. Events that only it has got are lost, and plugins that were to run after its answer. A create
   that it had noted, or that came before the first start was counted (`deletes.FirstStart`), counts as run. What else
   was under way may be repeated: a delete, changes just sent, plugins at an UpdateContainer or an end without a create.
 - It hangs. Events that only it has got are lost. A create that waited for it is not repeated once its id has ended.
   When it goes on, it may repeat the update after one that it reads too late, and what it cannot know to be done, for
   another id with the same place has replaced the note; it, or who has waited for it, the plugins of an end without a
   create. If it goes on in time and answers a creation, it cannot know that it was in time: another adapter may send
   the changes once more. A container that it holds for plugins that may fail starts at the limit of the hold, even if
   it has been stopped meanwhile.
 - The state directory is removed, or full, while several have joined. Each knows its own records only: deletes and
   events may be served twice, or be lost with their adapter. So is a record that is damaged while one is alone.
 - An id begins again, as in no runtime, before all have served its end: its delete may be lost, or be run too early.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum, auto
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from v010_adapter.state.runtime_directory import RuntimeDirectory, file_name
from v010_adapter.state.turns_file import JOINED, PLACE, PLACES, UNWRITTEN, WITHOUT_LINE, TurnsFile, obstacle, owners

log = logging.getLogger(__name__)

ENDS = "Stop", "Remove"
"""How the methods of an id's end begin."""
_CONTAINERS = 24
"""The bits of a container's byte among those of its pod."""


class NoteState(Enum):
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

FATES: Mapping[NoteState | None, Fate] = MappingProxyType(
    {None: MINE, NoteState.BEGUN: REPEAT, NoteState.ANSWERED: DONE, NoteState.FAILED: MINE, NoteState.LATER: PAST}
)
"""The fate of an event, by the note that another adapter has written."""
SERVED_ELSEWHERE = DONE, PAST


class Note(NamedTuple):
    """The last event of an id that an adapter has begun."""

    at: float
    """When the event came to the adapter that began it first, or that failed it."""
    by: str
    state: NoteState
    name: str

    def encode(self) -> bytes:
        """Returns the place in the file."""
        return f"{self.at!r} {self.by} {self.state.value} {self.name}".encode().ljust(PLACE - 1) + b"\n"

    @classmethod
    def parse(cls, place: bytes) -> Note | None:
        """Returns the note in a place of the file, None if there is none."""
        words = place.decode("utf-8", "replace").split()
        with suppress(ValueError):
            at, by, state, method, id_ = words
            return cls(float(at), by, NoteState(state), f"{method} {id_}")
        return None

    @property
    def id(self) -> str:
        """The id, as a file name."""
        return self.name.partition(" ")[2]

    def counted_for(self, turn: Turn) -> Note | None:
        """Returns the note as it counts for an event, None if it is for an earlier one, or for another id."""
        if self.name == turn.name:
            counts, has_gone_on = self.at > turn.floor, self.state is NoteState.FAILED and self.at >= turn.deadline
        else:
            counts, has_gone_on = self.at > turn.later and self.id == file_name(turn.id), True
        return (self._replace(state=NoteState.LATER) if has_gone_on else self) if counts else None


class Turn:
    """An event at this adapter."""

    __slots__ = (
        *("answer", "at", "came", "deadline", "fate", "floor", "id", "is_begun", "is_late", "is_sent", "later"),
        *("method", "pod", "quiet_at"),
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
        self.at = self.came = at
        """When the event came to the adapter that has begun it first, and when it came here."""
        self.fate: Fate | None = None
        """Set when the turn has come."""
        self.is_begun = False
        """Whether others have been told that it is served here, and wait to be told of its answer."""
        self.is_sent = False
        """Whether the answer has been sent. Plugins may still run."""
        self.answer: NoteState | None = None
        """What the runtime has got from this adapter; None if that was late, or nothing."""

    @property
    def is_end(self) -> bool:
        """Whether the event is one of the id's end."""
        return self.method.startswith(ENDS)

    @property
    def name(self) -> str:
        """The method and the id: the same in each adapter that gets the event."""
        return f"{self.method} {file_name(self.id)}"


class Turns:
    """One adapter among those of its runtime."""

    def __init__(self, directory: RuntimeDirectory, clock: Callable[[], float], owner: str = "") -> None:
        self.directory = directory
        self._owner = owner
        self.on_change: Callable[[bool, bool], object] = lambda is_shared, is_remade: None
        """Called after each close look, with: may other adapters write records? Is the directory a new one?"""
        self._clock = clock
        self._me = f"{os.getpid()}.{os.urandom(6).hex()}"  # in containers every adapter may have pid 1
        self._file = TurnsFile(directory)
        self._has_joined = False
        self._joined = 0
        """The byte whose lock tells others that this adapter has joined; 0 if it has no such lock."""
        self._unwritten = UNWRITTEN + int.from_bytes(os.urandom(5), "big"), 1
        """The byte, and a length of 1. Its lock tells others that this adapter cannot write its records."""
        self._stamp_when_alone: tuple[int, int, int] | None = None
        """The file's identity and length at the last close look, if that found this adapter alone.

        Every adapter that joins makes the file longer. So one `stat` tells whether this adapter is still alone.
        """
        self._looked_at = 0.0
        """The time of the last close look; 0 after joining.

        An event that came before the look may have come to an adapter that had gone by then.
        """
        self._held: Counter[tuple[int, int]] = Counter()
        """The locked bytes, by start and length, each with the number of works that need the lock."""
        self._floor = 0.0
        """Notes of other adapters for the next event are younger than this."""

    @property
    def fault(self) -> str:
        """Why others do not see what this adapter does; empty if they do."""
        return self._file.fault

    # Joining

    def join(self) -> None:
        """The runtime synchronizes this adapter. Call it before the answer: events come after that."""
        self._floor = self._clock()
        self._has_joined = True
        if self._file.is_usable:
            self._announce()
        self._look_closely()  # it opens the file anew if that cannot be used, and announces this adapter then
        self._looked_at = 0.0  # by fact 3, an adapter that has gone before this moment has got no event that comes here

    def _announce(self) -> bool:
        """Tells other adapters that this one has joined; returns False if it cannot tell its owner."""
        self._withdraw()
        if not self._has_joined:
            return True
        try:
            if not self.has_others:
                self._file.cut()
            line = f"{self._me} joined {self._owner}\n".encode()
            self._joined = JOINED + self._file.append(line)
            while not self._file.lock(self._joined, 1):  # the lines were cut while the one who has it joined
                self._joined = JOINED + self._file.append(line)
            self._file.append(b"\n")  # the file is longer once more: others look when the byte is locked
        except OSError as error:
            self._announce_without_line()
            self._file.complain(error)
            return False
        return True

    def _announce_without_line(self) -> None:
        """Whoever joins later sees that somebody has joined."""
        self._withdraw()
        if self._has_joined and self._file.is_open:
            self._joined = WITHOUT_LINE + int.from_bytes(os.urandom(5), "big")
            self._file.lock(self._joined, 1)

    def leave(self) -> None:
        """The connection with the runtime has ended."""
        self._has_joined = False
        self._withdraw()

    def _withdraw(self) -> None:
        if self._joined:
            self._file.unlock(self._joined, 1)
            self._joined = 0

    def tell_unwritten(self, is_so: bool) -> None:
        """Tells others whether this adapter has records that it cannot write: nobody is to take its place then."""
        if is_so and self._unwritten not in self._held:
            self._file.lock(*self._unwritten)
            self._held[self._unwritten] = 1
        elif not is_so and self._held.pop(self._unwritten, 0):
            self._file.unlock(*self._unwritten)

    @property
    def has_others(self) -> bool:
        """Whether another adapter has joined the runtime."""
        return self._file.is_locked_from(JOINED)

    def look(self) -> bool:
        """Looks whether other adapters may get the next event; returns that. Repairs a directory that was removed."""
        return not self._file.has(self._stamp_when_alone) and self._look_closely()

    def _look_closely(self) -> bool:
        is_remade = not self._file.is_usable and self._repair()
        is_shared = self._file.is_locked_from(0)  # one that has lost its runtime, and works on, writes records
        self._looked_at = self._clock()
        self._stamp_when_alone = None if is_shared else self._file.stamp()
        self.on_change(is_shared, is_remade)
        return is_shared

    def _repair(self) -> bool:
        """Makes the file usable, if that is possible; returns whether the directory is a new one that can be used."""
        was_open, was_at_path, had_fault = self._file.is_open, self._file.is_at_path, bool(self._file.fault)
        can_be_used = self._file.open()
        if not was_at_path:
            self._joined = 0  # its lock has ended with the open file
            for span in self._held:
                self._file.lock(*span)
        if not can_be_used:
            if not self._joined:
                self._announce_without_line()
            return False
        if was_open and not was_at_path and not had_fault:
            log.warning("%s was removed or replaced: it is in use again", self.directory.path)
        if self._announce():
            self._file.recover()
        return not was_at_path and self.directory.is_new

    @property
    def stranger(self) -> str | None:
        """Another owner whose adapter has joined the runtime, None if there is none."""
        return stranger(self._file.owners(), self._owner)

    @property
    def is_lost(self) -> bool:
        """Whether the state directory was removed under a mount of itself: only another process can mount the new one.

        To be asked from time to time: it repairs a directory that was removed otherwise, and sees who has joined.
        """
        if self._file.is_usable:
            self.look()
            return False
        self._look_closely()
        return not self._file.is_open and self.directory.is_lost

    # Locks of ids

    def lock(self, pod: str, id_: str) -> bool:
        """Locks an id for one more work; returns False if another adapter works on it.

        A pod's lock covers its containers.
        """
        span = _span(pod, id_)
        if span not in self._held and not self._file.lock(*span):
            return False
        self._held[span] += 1
        return True

    def unlock(self, pod: str, id_: str) -> None:
        """Ends one `lock` of an id. What else is held of the pod stays locked: they share bytes."""
        span = _span(pod, id_)
        self._held[span] -= 1
        if self._held[span]:
            return
        del self._held[span]
        start, end = span[0], span[0] + span[1]
        for held, length in sorted(self._held):
            if held < end and held + length > start:
                if held > start:
                    self._file.unlock(start, held - start)
                start = held + length
        if start < end:
            self._file.unlock(start, end - start)

    # Events

    def turn(self, method: str, pod: str, id_: str, quiet_at: float, timeout: float) -> Turn:
        """Returns the turn of an event that has come after `quiet_at`. The runtime waits `timeout` seconds."""
        now, floor, deadline = self._clock(), self._floor, quiet_at + timeout
        self._floor = now if now < deadline else max(quiet_at, floor)
        return Turn(method, pod, id_, now, quiet_at, deadline=deadline, floor=floor, later=self._floor)

    def is_shared(self, turn: Turn) -> bool:
        """Whether other adapters may have got an event. One that has gone may have begun the first event after that."""
        return self.look() or turn.quiet_at < self._looked_at or turn.floor < self._looked_at

    def others_got(self, turn: Turn) -> bool:
        """Whether other adapters have got an event that this one has read too late.

        A note that they have written for it is not for the next event of that name.
        """
        if not (self.look() or turn.quiet_at < self._looked_at):
            return False
        turn.is_late = True
        note = self._note_of(turn)
        if note is not None and note.name == turn.name:
            self._floor = max(self._floor, note.at)
        return True

    def take(self, turn: Turn) -> Fate | None:
        """Locks the id of an event, and decides the event; None if another adapter works on the id.

        If others may get the event, and it is served here, notes its begin. `unlock` must follow.
        """
        if not self.lock(turn.pod, turn.id):
            return None
        if not self.is_shared(turn):
            turn.fate = MINE
            return MINE
        note = self._note_of(turn)
        if note is not None or turn.fate is None:  # else the note that has decided has been replaced since
            turn.fate = FATES[note and note.state]
        if turn.fate not in SERVED_ELSEWHERE:
            if note and turn.fate is REPEAT:
                turn.at = note.at
            self._write(turn, turn.answer or NoteState.BEGUN)
            turn.is_begun = not turn.is_sent
        return turn.fate

    def take_id(self, pod: str, id_: str) -> Fate | None:
        """Locks an id for a delete that no event asks for; None if another adapter works on the id."""
        if not self.lock(pod, id_):
            return None
        self.look()  # an adapter that has joined since the last event may have run these deletes
        return MINE

    def is_answered(self, turn: Turn) -> bool:
        """Whether another adapter has answered the event, and may still work on it."""
        note = self._note_of(turn) if self.is_shared(turn) else None
        fate = FATES[note and note.state]
        if fate not in SERVED_ELSEWHERE:
            return False
        turn.fate = fate
        return True

    def end(self, turn: Turn, state: NoteState | None) -> None:
        """The answer to an event with work has been sent; `state` is None if it was late, or if nobody hears it."""
        turn.is_sent, turn.answer = True, state
        if state is None:
            return
        if turn.is_begun:
            self._write(turn, state)
        elif turn.fate is None and self.is_shared(turn):
            self._note_early(turn, state)

    def _note_early(self, turn: Turn, state: NoteState) -> None:
        """Notes an answer whose time was up before the turn came: nobody else is to answer the event."""
        note = self._note_of(turn)
        if note is not None and note.state is NoteState.BEGUN:  # by an adapter that is late
            turn.at, turn.fate = note.at, REPEAT
        if note is None or turn.fate is REPEAT:
            self._write(turn, state)

    def _note_of(self, turn: Turn) -> Note | None:
        """Returns the note that another adapter has written for an event."""
        note = Note.parse(self._file.read(_place(turn)))
        return note.counted_for(turn) if note is not None and note.by != self._me else None

    def _write(self, turn: Turn, state: NoteState) -> None:
        """Notes the state of an event, unless a note of its id is there that is younger, or perhaps is."""
        since = turn.came if state is NoteState.FAILED else turn.at  # see `Note.counted_for`
        place, note = _place(turn), Note(since, self._me, state, turn.name)
        there = Note.parse(self._file.read(place))
        at = turn.quiet_at if turn.is_late else since  # else it would hide a later event that is begun elsewhere
        if there is None or there.id != note.id or not at < there.at <= self._clock():
            self._file.write(place, note.encode())


def _place(turn: Turn) -> int:
    return PLACE + zlib.crc32(turn.id.encode("utf-8", "surrogatepass")) % PLACES * PLACE


@lru_cache(100)
def _span(pod: str, id_: str) -> tuple[int, int]:
    """Returns the bytes of an id: a container's byte is among those of its pod. Few ids are locked at a time."""
    start = (1 + zlib.crc32(pod.encode("utf-8", "surrogatepass"))) << _CONTAINERS
    if pod == id_:
        return start, 1 << _CONTAINERS
    return start + 1 + zlib.crc32(id_.encode("utf-8", "surrogatepass")) % ((1 << _CONTAINERS) - 1), 1


def stranger(joined: Iterable[str | None], owner: str) -> str | None:
    """Returns another owner among those whose adapters have joined, None if there is none."""
    return next((one for one in joined if one not in (owner, None)), None)


def obstacle_in(directory: str) -> str:
    """Returns why an adapter with this state directory must not join beside those that have joined; empty if it may."""
    return next(filter(None, (obstacle(path) for path, joined in _joined_in(directory) if joined)), "")


def owners_in(directory: str) -> list[str | None]:
    """Returns the owners of the adapters with this state directory that have joined; not for one that has itself."""
    return [owner for _, joined in _joined_in(directory) for owner in joined]


def _joined_in(directory: str) -> Iterator[tuple[str, list[str | None]]]:
    """Yields each runtime's directory in a state directory, with the owners of the adapters that have joined."""
    with suppress(OSError):
        for name in os.listdir(directory):
            path = os.path.join(directory, name)
            with suppress(OSError):
                fd = os.open(os.path.join(path, "turns"), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    joined = owners(fd)
                finally:
                    os.close(fd)
                yield path, joined
