"""One adapter among those of its runtime: the file `turns`, its notes and its locks. `fates` has the theory."""

from __future__ import annotations

import logging
import os
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from adapter.errors import reason_of
from adapter.host import locks
from adapter.host.runtime_directory import FORGOTTEN, RuntimeDirectory
from adapter.turns.fates import DONE, FATES, PLACE, REPEAT, Fate, Note, State, Turn

log = logging.getLogger(__name__)

PLACES = 1024
"""The places of the file."""
TABLE = PLACES * PLACE
LONGEST = 1 << 20
"""Bytes of the file at which an adapter that joins and is alone makes it short again."""
_JOINED = 1 << 60
"""The first of the bytes whose locks tell that an adapter has joined the runtime: the byte of its line in the file."""
_CONTAINERS = 24
"""The bits of a container's byte among those of its pod."""


class OnChange(Protocol):
    """`Ledger.expect_changes`."""

    def __call__(self, *, is_shared: bool, is_remade: bool = False) -> None:
        """Other adapters may write records, or the directory was made again."""


class Turns:
    """One adapter among those of its runtime."""

    def __init__(self, directory: RuntimeDirectory, clock: Callable[[], float]) -> None:
        self.directory = directory
        self.on_change: OnChange | None = None
        """Called when other adapters may have written records, and when the directory was made again."""
        self._clock = clock
        self._me = f"{os.getpid()}.{os.urandom(6).hex()}"  # in containers every adapter may have pid 1
        self._path = os.path.join(directory.path, "turns")
        self._fd = -1
        self._place = 0
        """The byte that tells that this adapter has joined; 0 if it has not."""
        self._begun: dict[int, float] = {}
        """When this adapter, or the first one, began what this adapter has noted last, by the place of the note."""
        self._alone_since = 0.0
        """When this adapter was seen to be alone; 0 if it was so when it joined."""
        self._seen: tuple[int, int, int] | None = None
        """Identity and size of the file when this adapter was last seen to be alone; None if it is not alone."""
        self._held: Counter[tuple[int, int]] = Counter()
        """The bytes that are locked, start and length, by how many jobs and events."""
        self._has_no_locks = False
        self._floor = 0.0
        self.fault = ""
        """Why others do not see what this adapter does; empty if they do."""
        self._open()

    def _open(self) -> bool:
        """Opens the file, which is made if it is missing."""
        self._close()
        if not self.directory.open():
            self.fault = self.directory.fault
            return False
        try:
            self._fd = self.directory.open_file("turns", os.O_RDWR | os.O_CREAT)
            if os.fstat(self._fd).st_size < TABLE:
                os.posix_fallocate(self._fd, 0, TABLE)  # a note must not fail for a full disk
        except OSError as error:
            self._close()
            self._complain(error)
            return False
        if self.fault:
            log.info("%s: the state directory is in use again", self.directory.path)
        self.fault = ""
        return True

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._place = 0

    def _complain(self, error: OSError) -> None:
        text = f"{self._path}: {reason_of(error)}: {FORGOTTEN}"
        if text != self.fault:
            log.warning("%s", text)
        self.fault = text

    # Joining

    def join(self) -> None:
        """The runtime synchronizes this adapter. Call it before the answer: events come after that."""
        self._floor = self._clock()
        if self._fd < 0 or not self._is_there():
            self._open()
        self._show()
        self._seen = None
        self.look()
        self._alone_since = 0.0

    def _show(self) -> None:
        """Tells other adapters that this one has joined."""
        self.leave()
        if self._fd < 0:
            return
        try:
            line = f"{self._me} joined\n".encode()
            if os.fstat(self._fd).st_size > LONGEST and not self.has_others:
                os.ftruncate(self._fd, TABLE)
            end = os.lseek(self._fd, 0, os.SEEK_END)
            while not self._lock(_JOINED + end, 1) or os.fstat(self._fd).st_size > end:  # another one joins just now
                end = os.lseek(self._fd, 0, os.SEEK_END)
            self._place = _JOINED + end
            os.pwrite(self._fd, line, end)
        except OSError as error:
            self._complain(error)

    def leave(self) -> None:
        """The connection with the runtime has ended."""
        if self._place:
            self._unlock(self._place, 1)
            self._place = 0

    @property
    def has_others(self) -> bool:
        """Whether another adapter has joined the runtime."""
        return self._are_there_locks(_JOINED)

    def _are_there_locks(self, start: int) -> bool:
        """Whether another adapter has locked one of the bytes from `start` on."""
        try:
            return self._fd >= 0 and locks.is_locked(self._fd, start, 0)
        except OSError:
            return False  # a file system without such locks

    def _is_there(self) -> bool:
        """Whether the open file is still at its path, so that other processes open the same file."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except OSError:
            return False

    def look(self) -> bool:
        """Looks whether other adapters may get the next event; returns that. Repairs a directory that was removed."""
        try:
            status = os.stat(self._path)
            now = status.st_dev, status.st_ino, status.st_size
        except OSError:
            now = None
        if now is not None and now == self._seen and not self.fault:
            return False
        return self._look_closely()

    def _look_closely(self) -> bool:
        is_remade = False
        if self.fault or self._fd < 0 or not self._is_there():
            was_there = self._fd >= 0 and not self.fault
            if is_remade := self._open():
                if was_there:
                    log.warning("%s was removed or replaced: it is in use again", self.directory.path)
                self._lock_again()
                self._show()
        is_shared = self._are_there_locks(0)  # one that has left, and works on, writes records
        self._seen = None
        self._alone_since = self._clock()
        if not is_shared and self._fd >= 0:
            with suppress(OSError):
                status = os.fstat(self._fd)
                self._seen = status.st_dev, status.st_ino, status.st_size
        if self.on_change is not None:
            self.on_change(is_shared=is_shared, is_remade=is_remade)
        return is_shared

    @property
    def is_lost(self) -> bool:
        """Whether the state directory was removed under a mount of itself: only another process can mount the new one.

        To be asked from time to time: it repairs a directory that was removed otherwise.
        """
        if self._fd >= 0 and self._is_there() and not self.fault:
            return False
        self._look_closely()
        return self._fd < 0 and self.directory.is_lost

    # Locks of ids

    def lock(self, pod: str, id_: str) -> bool:
        """Locks an id for one more job or event; returns False if another adapter works on it.

        A pod's lock covers its containers.
        """
        span = _span(pod, id_)
        if span not in self._held and not self._lock(*span):
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
                    self._unlock(start, held - start)
                start = held + length
        if start < end:
            self._unlock(start, end - start)

    def _lock_again(self) -> None:
        """Locks in a new file what was locked in the old one."""
        for span in self._held:
            self._lock(*span)

    def _lock(self, start: int, length: int) -> bool:
        if self._fd < 0:
            return True
        try:
            return locks.lock(self._fd, start, length)
        except OSError as error:
            if not self._has_no_locks:
                self._has_no_locks = True
                text = "%s: no locks: %s; an adapter beside this one serves the events, too"
                log.warning(text, self._path, reason_of(error))
            return True

    def _unlock(self, start: int, length: int) -> None:
        if self._fd >= 0:
            with suppress(OSError):  # a file system without such locks
                locks.unlock(self._fd, start, length)

    # Events

    def turn(self, method: str, pod: str, id_: str, came: float) -> Turn:
        """Returns the turn of an event that has come, after the moment `came`.

        An adapter that has just gone may have begun it.
        """
        is_shared = self.look() or came < self._alone_since
        turn = Turn(method, pod, id_, self._floor, self._clock(), came=came, is_shared=is_shared)
        self._floor = max(self._floor, came)
        return turn

    def take(self, turn: Turn) -> Fate:
        """Decides an event that others may get, whose id is locked, and notes its begin if it is served here."""
        note = self._note_of(turn)
        if note is not None or turn.fate is not REPEAT:
            turn.fate = FATES[note and note.state]
        if turn.fate is not DONE:
            if note and turn.fate is REPEAT:
                turn.at = note.at
            self._write(turn, turn.answer or State.BEGUN)
            if not turn.is_answered:
                turn.is_begun = True
                self.lock(turn.pod, turn.id)  # until the answer has been sent
        self._pass(turn, note)
        return turn.fate

    def _pass(self, turn: Turn, note: Note | None) -> None:
        """Notes of later events are younger than the note of this one."""
        if note is not None and note.name == turn.name:
            self._floor = max(self._floor, note.at)

    def is_answered(self, turn: Turn) -> bool:
        """Whether another adapter has answered the event, and may still work on it."""
        note = self._note_of(turn) if turn.is_shared else None
        if FATES[note and note.state] is not DONE:
            return False
        turn.fate = DONE
        return True

    def end(self, turn: Turn, state: State | None) -> None:
        """The answer has been sent; `state` is None if it was late, or if nobody hears it."""
        turn.is_answered, turn.answer = True, state
        if turn.is_begun:
            turn.is_begun = False
            if state is not None:
                self._write(turn, state)
            self.unlock(turn.pod, turn.id)
        elif turn.is_shared and turn.fate is None:
            note = self._note_of(turn)
            self._pass(turn, note)
            if turn.has_job and state is not None:
                self._note_early(turn, note, state)

    def _note_early(self, turn: Turn, note: Note | None, state: State) -> None:
        """Notes an answer whose time was up before the turn came: nobody else is to answer the event."""
        if note is not None and note.state is State.BEGUN:  # by an adapter that is late
            turn.at, turn.fate = note.at, REPEAT
        if note is None or turn.fate is REPEAT:
            self._write(turn, state)

    def _note_of(self, turn: Turn) -> Note | None:
        """Returns the note that another adapter has written for an event."""
        place = _place(turn)
        try:
            note = Note.parse(os.pread(self._fd, PLACE, place))
        except OSError:
            return None
        if note is None or note.by == self._me or note.at <= turn.floor or note.at == self._begun.get(place):
            return None
        return note.told_of(turn)

    def _write(self, turn: Turn, state: State) -> None:
        self._begun[_place(turn)] = turn.at
        if self._fd >= 0:
            try:
                os.pwrite(self._fd, Note(turn.at, self._me, state, turn.name).encode(), _place(turn))
            except OSError as error:
                self._complain(error)


def _place(turn: Turn) -> int:
    return zlib.crc32(turn.id.encode("utf-8", "surrogatepass")) % PLACES * PLACE


def _span(pod: str, id_: str) -> tuple[int, int]:
    """Returns the bytes of an id: a container's byte is among those of its pod. Few ids are locked at a time."""
    start = (1 + zlib.crc32(pod.encode("utf-8", "surrogatepass"))) << _CONTAINERS
    if pod == id_:
        return start, 1 << _CONTAINERS
    return start + 1 + zlib.crc32(id_.encode("utf-8", "surrogatepass")) % ((1 << _CONTAINERS) - 1), 1


def others_have_joined(directory: str) -> bool:
    """Whether an adapter with this state directory has joined a runtime. Not for an adapter that has joined itself."""
    names: list[str] = []
    with suppress(OSError):
        names = os.listdir(directory)
    for name in names:
        with suppress(OSError):
            fd = os.open(os.path.join(directory, name, "turns"), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if locks.is_locked(fd, _JOINED, 0):
                    return True
            finally:
                os.close(fd)
    return False
