"""One adapter among those of its runtime: who has joined, who works on an id, whose turn an event is.

`fates` has the theory.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache

from v010_adapter.events.fates import FATES, MINE, REPEAT, SERVED_ELSEWHERE, Fate, Note, State, Turn
from v010_adapter.state.runtime_directory import RuntimeDirectory
from v010_adapter.state.turns_file import JOINED, PLACE, PLACES, UNWRITTEN, WITHOUT_LINE, TurnsFile, obstacle, owners

log = logging.getLogger(__name__)

_CONTAINERS = 24
"""The bits of a container's byte among those of its pod."""


class Turns:
    """One adapter among those of its runtime."""

    def __init__(self, directory: RuntimeDirectory, clock: Callable[[], float], owner: str = "") -> None:
        self.directory = directory
        self._owner = owner
        self.on_change: Callable[[bool, bool], object] = lambda is_shared, is_remade: None
        """Told of each close look: whether other adapters may write records, and whether the directory is a new one."""
        self._clock = clock
        self._me = f"{os.getpid()}.{os.urandom(6).hex()}"  # in containers every adapter may have pid 1
        self._file = TurnsFile(directory)
        self._has_joined = False
        self._joined = 0
        """The byte that tells others that this adapter has joined; 0 if none does."""
        self._unwritten = UNWRITTEN + int.from_bytes(os.urandom(5), "big"), 1
        """The byte that tells others that this adapter cannot write its records."""
        self._stamp_when_alone: tuple[int, int, int] | None = None
        """Which file it is, and how long, if the last look found no other adapter: each that joins makes it longer."""
        self._alone_since = 0.0
        """When this adapter was seen to be alone; 0 if it was so when it joined."""
        self._held: Counter[tuple[int, int]] = Counter()
        """The bytes that are locked, start and length, by how many works."""
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
        self._alone_since = 0.0  # by fact 3, one that has gone before this has got no event that comes here

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
        self._alone_since = self._clock()
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
        """Whether other adapters may have got an event. One that has just gone may have begun it."""
        return self.look() or turn.quiet_at < self._alone_since

    def others_got(self, turn: Turn) -> bool:
        """Whether other adapters have got an event that this one has read too late.

        A note that they have written for it is not for the next event of that name.
        """
        if not self.is_shared(turn):
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
        if not (self.look() or turn.quiet_at < self._alone_since):
            turn.fate = MINE
            return MINE
        note = self._note_of(turn)
        if note is not None or turn.fate is None:  # else the note that has decided has been replaced since
            turn.fate = FATES[note and note.state]
        if turn.fate not in SERVED_ELSEWHERE:
            if note and turn.fate is REPEAT:
                turn.at = note.at
            self._write(turn, turn.answer or State.BEGUN)
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

    def end(self, turn: Turn, state: State | None) -> None:
        """The answer to an event with work has been sent; `state` is None if it was late, or if nobody hears it."""
        turn.is_sent, turn.answer = True, state
        if state is None:
            return
        if turn.is_begun:
            self._write(turn, state)
        elif turn.fate is None and self.is_shared(turn):
            self._note_early(turn, state)

    def _note_early(self, turn: Turn, state: State) -> None:
        """Notes an answer whose time was up before the turn came: nobody else is to answer the event."""
        note = self._note_of(turn)
        if note is not None and note.state is State.BEGUN:  # by an adapter that is late
            turn.at, turn.fate = note.at, REPEAT
        if note is None or turn.fate is REPEAT:
            self._write(turn, state)

    def _note_of(self, turn: Turn) -> Note | None:
        """Returns the note that another adapter has written for an event."""
        note = Note.parse(self._file.read(_place(turn)))
        return note.counted_for(turn) if note is not None and note.by != self._me else None

    def _write(self, turn: Turn, state: State) -> None:
        """Notes the state of an event, unless a note of its id is there that is younger, or perhaps is."""
        place, note = _place(turn), Note(turn.at, self._me, state, turn.name)
        there = Note.parse(self._file.read(place))
        at = turn.quiet_at if turn.is_late else turn.at  # else it would hide a later event that is begun elsewhere
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
    with suppress(OSError):
        for name in os.listdir(directory):
            with suppress(OSError):
                fd = os.open(os.path.join(directory, name, "turns"), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    is_used = bool(owners(fd))
                finally:
                    os.close(fd)
                if is_used and (reason := obstacle(os.path.join(directory, name))):
                    return reason
    return ""


def owners_in(directory: str) -> list[str | None]:
    """Returns the owners of the adapters with this state directory that have joined; not for one that has itself."""
    found: list[str | None] = []
    with suppress(OSError):
        for name in os.listdir(directory):
            with suppress(OSError):
                fd = os.open(os.path.join(directory, name, "turns"), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    found += owners(fd)
                finally:
                    os.close(fd)
    return found
