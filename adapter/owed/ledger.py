"""Which plugins got a create for which id, so that each of them gets one delete for it.

A create counts once its plugin was spawned, whatever the result. Each id has a record: a file that is removed when no
plugin is owed a delete any more. While this adapter is alone, its memory has what the files have. While it is not
(`is_current`), a record is read again at each event of its id, under the lock of the id.

No event fails for an error of the disk: memory counts as long as a record cannot be written (`_unkept`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from adapter.base.loop import NO_TIMER, Loop
from adapter.errors import reason_of
from adapter.host.runtime_directory import FORGOTTEN, RuntimeDirectory
from adapter.legacy.config import Entry
from adapter.legacy.request import Target
from adapter.owed import records
from adapter.owed.record_files import COUNTED, RecordFiles, name_of
from adapter.owed.records import Create, Key

log = logging.getLogger(__name__)

RETRY = 1.0
"""Seconds until records that could not be written are tried again."""
SLICE = 100
"""Records that are read or written in one turn of the loop, which take a few milliseconds."""


class Ledger:
    """The creates without a delete, by id, and what the creates knew."""

    def __init__(self, loop: Loop, directory: RuntimeDirectory | None) -> None:
        """Without a directory, what is owed is forgotten with this process."""
        self._loop = loop
        self._files = RecordFiles(directory) if directory is not None else None
        self._owed: dict[str, dict[Key, Create]] = {}
        self._targets: dict[str, Target] = {}
        self._running: dict[str, dict[Key, Create]] = {}
        """The deletes that have begun and have not ended."""
        self._unkept: dict[str, Target] = {}
        """The ids whose record is not what it should be: the disk is full, or the directory was removed."""
        self._unread: Iterator[str] = iter(())
        """The records that are to be read."""
        self._unseen: set[str] = set()
        """The ids that memory has, and whose records have not been read."""
        self._is_unreadable = False
        """Whether some record could not be read: all are read again."""
        self._on_read: Callable[[], object] | None = None
        """Called when all records have been read; None if they are not being read."""
        self._is_counted = False
        """Whether the first start is over, as far as this process knows."""
        self._is_shared = False
        """Whether another adapter writes records, too."""
        self.is_current = directory is None
        """Whether memory has all that the records have."""
        self._timer = NO_TIMER
        self.fault = ""
        """Why a kill of this process would forget what is owed, or repeat what is done; empty if it would not."""

    def __len__(self) -> int:
        """Returns the number of ids that are owed a delete."""
        return len(self._owed)

    def __contains__(self, id_: object) -> bool:
        """Whether some plugin is owed a delete for the id."""
        return id_ in self._owed

    def ids(self) -> list[str]:
        """Returns the ids that are owed a delete."""
        return list(self._owed)

    def keys(self, id_: str, since: float) -> set[Key]:
        """Returns the plugins whose creates of an id have been noted since a moment."""
        return {key for key, create in self._owed.get(id_, {}).items() if create.at >= since}

    # The first start

    @property
    def is_first_start(self) -> bool:
        """Whether no adapter has counted what ran before it came to this node."""
        self._is_counted = self._is_counted or (self._files is not None and self._files.are_counted)
        return not self._is_counted

    def end_first_start(self) -> None:
        """What ran at the first start has been counted."""
        self._is_counted = True
        if self._files is not None and self._files.is_there:
            try:
                self._files.note_counted()
            except OSError as error:
                self._complain(error, COUNTED)

    # Creates and deletes

    def add(self, target: Target, entry: Entry) -> None:
        """Notes that a plugin's create is started. Of a plugin that is owed a delete, only the moment is new."""
        id_, key = target.id, entry.key
        of_id = self._owed.get(id_, {})
        is_first = not of_id and id_ not in self._running
        earlier = of_id.get(key)
        self._targets.setdefault(id_, target)
        create = Create(target, entry if earlier is None else earlier.entry, self._loop.time())
        self._owed.setdefault(id_, of_id)[key] = create
        if earlier is not None and self.is_current:
            return
        if is_first and not records.is_kept(create.target):
            log.warning(
                "%s: its spec and labels have more than %d KiB: a delete after this process goes without them",
                *(target, records.MOST_KEPT >> 10),
            )
        self._append(create.target, records.create_line(create, is_first=is_first), is_first=is_first)

    def begin_deletes(self, id_: str) -> tuple[Entry, ...]:
        """Returns the plugins that are owed a delete, in the order of their creates, as configured then.

        Their deletes count as running until the caller calls `end_delete` or `put_back`; the record has them as owed.
        """
        creates = self._owed.pop(id_, {})
        if creates:
            self._running.setdefault(id_, {}).update(creates)
        return tuple(create.entry for create in creates.values())

    def end_delete(self, id_: str, entry: Entry) -> None:
        """Notes that a plugin's delete has ended, if it was owed one."""
        create = self._end(id_, entry)
        if create is None:
            return
        if id_ in self._owed or id_ in self._running:
            self._append(create.target, records.delete_line(id_, entry.key))
        else:
            self._keep(create.target)

    def put_back(self, id_: str, entry: Entry) -> bool:
        """Notes that a plugin's delete could not be started; returns whether the plugin is owed it still."""
        create = self._end(id_, entry)
        if create is not None:
            self._owed.setdefault(id_, {})[entry.key] = create
        return create is not None

    def _end(self, id_: str, entry: Entry) -> Create | None:
        """Notes that a plugin's delete is not under way any more; returns its create, None if it was not."""
        running = self._running.get(id_, {})
        create = running.pop(entry.key, None)
        if create is not None and not running:
            del self._running[id_]
        return create

    def remember(self, target: Target) -> None:
        """Keeps what a create knew. A later create replaces an earlier one, unless only the earlier knew the pid."""
        earlier = self._targets.get(target.id)
        if earlier is None or target.pid or not earlier.pid:
            self._targets[target.id] = target

    def target(self, id_: str) -> Target | None:
        """Returns what the creates of an id knew."""
        return self._targets.get(id_)

    def containers_of(self, pod: str) -> list[str]:
        """Returns the ids of the containers of a pod that have not been removed."""
        if not self.is_current and self._files is not None:
            for name in self._names(pod):
                self._read(name)
        return [id_ for id_, target in self._targets.items() if target.sandbox_id == pod != id_]

    def forget(self, id_: str) -> None:
        """Forgets what the creates of an id knew: it has been removed."""
        self._targets.pop(id_, None)

    # Reading

    def refresh(self, target: Target) -> None:
        """Reads the record of an id again, if another adapter may have written to it."""
        if not self.is_current and target.id not in self._unkept:
            self._read(name_of(self._targets.get(target.id, target)), target.id)

    def expect_changes(self, *, is_shared: bool, is_remade: bool = False) -> None:
        """Other adapters may have written records, or may write them. `is_remade`: the directory was removed."""
        self._is_shared = is_shared
        self.is_current = self._files is None
        if is_remade:
            self._keep_all_later()
            if self._is_counted:
                self.end_first_start()
        if not is_shared and self._on_read is None:
            self.read_all(lambda: None)

    def read_all(self, then: Callable[[], object]) -> None:
        """Reads all records, in slices, and calls back after the last one. Memory is not current until then."""
        is_idle = self._on_read is None
        self._on_read = then
        self.is_current = self._files is None
        self._is_unreadable = False
        self._unread = iter(self._names())
        self._unseen = set(self._owed)
        if is_idle:
            self._loop.call_soon(self._read_slice)

    def _read_slice(self) -> None:
        for number, name in enumerate(self._unread, 1):
            self._read(name)
            if number == SLICE:
                self._loop.call_soon(self._read_slice)
                return
        for id_ in self._unseen & self._owed.keys():  # another adapter has run their deletes
            self.refresh(self._targets[id_])
        self.is_current = not (self._is_shared or self._is_unreadable)
        then, self._on_read = self._on_read, None
        if then is not None:
            then()

    def _names(self, pod: str = "") -> list[str]:
        """Returns the names of all records, or of those of a pod."""
        try:
            return self._files.names(pod) if self._files is not None else []
        except OSError as error:
            self._is_unreadable = True
            self._complain(error, "")
            return []

    def _read(self, name: str, id_: str = "") -> None:
        """Takes a record. Without `id_`, the record tells it."""
        if self._files is None or not self._files.is_there:
            return
        try:
            record = self._files.read(name)
        except OSError as error:
            self._is_unreadable = True
            self._complain(error, name)
            return
        id_ = id_ or record.id
        self._unseen.discard(id_)
        if not id_ or id_ in self._unkept:
            return
        if record.is_whole or id_ not in self._owed:
            self._take(id_, record.creates)
        elif not self._is_shared:  # the file is damaged; of others, it may be half-written
            self._keep_later(self._targets[id_])

    def _take(self, id_: str, creates: list[Create]) -> None:
        """Takes the creates of an id that its record has."""
        running = self._running.get(id_, {})
        owed = {create.entry.key: create for create in creates if create.entry.key not in running}
        if owed:
            self._targets.setdefault(id_, creates[0].target)
            self._owed[id_] = owed
        else:
            self._owed.pop(id_, None)

    # Writing

    def _append(self, target: Target, line: bytes, *, is_first: bool = False) -> None:
        """Adds a line to a record."""
        if self._files is None:
            return
        if self._unkept.pop(target.id, None) is not None:
            self._keep(target)
            return
        if self._files.is_there:
            try:
                self._files.append(name_of(target), line, is_first=is_first)
            except OSError as error:
                self._complain(error, name_of(target))
            else:
                return
        self._keep_later(target)

    def _keep(self, target: Target) -> None:
        """Writes a record as it should be: the creates whose delete has not ended."""
        if self._files is None:
            return
        creates = [*self._owed.get(target.id, {}).values(), *self._running.get(target.id, {}).values()]
        if self._files.is_there:
            try:
                self._files.replace(name_of(target), creates)
            except OSError as error:
                self._complain(error, name_of(target))
            else:
                return
        self._keep_later(target)

    def _keep_all_later(self) -> None:
        """The directory was removed: all records are written again, with what others have written meanwhile."""
        for id_ in {*self._owed, *self._running}:
            known = self._owed.get(id_, {})
            self._read(name_of(self._targets[id_]), id_)
            if owed := self._owed.get(id_, {}) | known:
                self._owed[id_] = owed
            self._keep_later(self._targets[id_])

    def _keep_later(self, target: Target) -> None:
        self._unkept[target.id] = target
        self._repair_later()

    def _repair_later(self) -> None:
        if self._timer.callback is None:
            self._timer = self._loop.call_at(self._loop.time() + RETRY, self.repair)

    def repair(self) -> None:
        """Writes the records that could not be written, in slices; then reads those that could not be read."""
        self._timer.cancel()
        for _ in range(min(SLICE, len(self._unkept))):
            id_, target = next(iter(self._unkept.items()))
            del self._unkept[id_]
            self._keep(target)
            if id_ in self._unkept:
                return
        if self._unkept:
            self._loop.call_soon(self.repair)
            return
        if self._is_unreadable:
            self.read_all(self._on_read or (lambda: None))
        if self.fault and not self._is_unreadable:
            log.info("the records have all that is owed again")
            self.fault = ""

    def _complain(self, error: OSError, name: str) -> None:
        path = self._files.path(name) if self._files is not None else name
        text = f"{path}: {reason_of(error)}: {FORGOTTEN}"
        if not self.fault:
            log.warning("%s", text)
        self.fault = text
        self._repair_later()
