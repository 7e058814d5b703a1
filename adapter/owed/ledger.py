"""Which plugins got a create for which id, so that each of them gets one delete for it.

A create counts once its plugin was spawned, whatever the result. The ledger keeps what the create knew of the pod or
container until the removal, because the runtime may tell less at a delete. Only a delete during which the adapter was
killed runs again: nothing on disk shows that it had begun.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from adapter.legacy.config import Entry
from adapter.legacy.request import Target
from adapter.owed.journal import Journal
from adapter.owed.records import Create


class Ledger:
    """The creates without a delete, by id, and what the creates knew."""

    def __init__(self) -> None:
        self._owed: dict[str, tuple[Entry, ...]] = {}
        self._targets: dict[str, Target] = {}
        self._running: dict[str, list[Entry]] = {}
        """The deletes that have begun and have not ended."""
        self._journal: Journal | None = None

    def resume_from(self, journal: Journal | None, at_work: Collection[str] = ()) -> None:
        """Resumes from a journal, and writes to it; without one, starts empty. `at_work` are the ids that have jobs."""
        if self._journal is not None:
            self._journal.close()
        self._journal = journal
        self._owed = {}
        self._targets = {id_: target for id_, target in self._targets.items() if id_ in self._running or id_ in at_work}
        self.read_again()
        self.repair()

    @property
    def fault(self) -> str:
        """What is wrong with the journal, empty if nothing is."""
        return self._journal.fault if self._journal is not None else ""

    def read_again(self) -> None:
        """Takes the changes that an earlier owner has written to the journal."""
        for change in self._journal.read() if self._journal is not None else ():
            if isinstance(change, Create):
                self._targets.setdefault(change.target.id, change.target)
                if change.entry not in self._running.get(change.target.id, ()):
                    self._owe(change.target.id, change.entry)
            elif change.id in self._owed:
                self._owed[change.id] = tuple(entry for entry in self._owed[change.id] if entry.key != change.key)
                if not self._owed[change.id]:
                    del self._owed[change.id]

    def repair(self) -> None:
        """Opens the journal if it is not open; writes it anew if it is incomplete or has grown a lot."""
        if self._journal is not None and self._journal.must_be_written:
            is_ours = self._journal.is_ours  # before the reading: earlier owners may write until they are done
            self.read_again()
            if is_ours:
                self._journal.write(self._creates())

    def _owe(self, id_: str, entry: Entry) -> bool:
        """Notes that a plugin is owed a delete; returns whether it was not noted before."""
        entries = self._owed.get(id_, ())
        is_news = entry.key not in [known.key for known in entries]
        if is_news:
            self._owed[id_] = (*entries, entry)
        return is_news

    def __len__(self) -> int:
        """Returns the number of ids that are owed a delete."""
        return len(self._owed)

    def __contains__(self, id_: object) -> bool:
        """Whether some plugin is owed a delete for the id."""
        return id_ in self._owed

    def ids(self) -> list[str]:
        """Returns the ids that are owed a delete."""
        return list(self._owed)

    def keys(self) -> Iterator[tuple[str, tuple[str, int]]]:
        """Yields the ids and plugins that are owed a delete."""
        return ((id_, entry.key) for id_, entries in self._owed.items() for entry in entries)

    def add(self, target: Target, entry: Entry) -> None:
        """Notes that a plugin's create was started. A second create of the same plugin and id changes nothing."""
        self._targets.setdefault(target.id, target)
        is_first = target.id not in self._owed and target.id not in self._running
        if self._owe(target.id, entry) and self._journal is not None:
            self._journal.add_create(target, entry, is_first=is_first)
            if self._journal.fault:
                self.repair()

    def begin_deletes(self, id_: str) -> tuple[Entry, ...]:
        """Returns the plugins that are owed a delete, in the order of their creates, as configured then.

        Their deletes count as running until the caller calls `end_delete` or `put_back`; the journal has them as owed.
        """
        entries = self._owed.pop(id_, ())
        if entries:
            self._running.setdefault(id_, []).extend(entries)
        return entries

    def end_delete(self, id_: str, entry: Entry) -> None:
        """Notes that a plugin's delete has ended, if it was owed one."""
        if self._end(id_, entry) and self._journal is not None:
            self._journal.add_delete(id_, entry)
            self.repair()

    def put_back(self, id_: str, entry: Entry) -> bool:
        """Notes that a plugin's delete could not be started; returns whether the plugin is owed it still."""
        is_owed = self._end(id_, entry)
        if is_owed:
            self._owed[id_] = (*self._owed.get(id_, ()), entry)
        return is_owed

    def _end(self, id_: str, entry: Entry) -> bool:
        """Notes that a plugin's delete is not under way any more; returns whether it was."""
        running = self._running.get(id_, [])
        if entry not in running:
            return False
        running.remove(entry)
        if not running:
            del self._running[id_]
        return True

    def _creates(self) -> Iterator[Create]:
        """Yields the creates whose delete has not ended."""
        for entries in (self._owed, self._running):
            for id_, of_id in entries.items():
                for entry in of_id:
                    yield Create(self._targets[id_], entry)

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
        return [id_ for id_, target in self._targets.items() if target.sandbox_id == pod != id_]

    def forget(self, id_: str) -> None:
        """Forgets what the creates of an id knew: it has been removed."""
        self._targets.pop(id_, None)
