"""Who got a create for which id, so that each gets exactly one delete for it.

The create counts as soon as the plugin was started, whatever came of it; what the delete needs and the runtime may no
longer know is kept beside it.
"""

from __future__ import annotations

from typing import NamedTuple

from adapter.legacy.config import Entry
from adapter.legacy.request import Subject


class Record(NamedTuple):
    """The creates of one pod or container: how it was then, and the entries, in order, that ran for it."""

    subject: Subject
    entries: tuple[Entry, ...]


class Ledger:
    """Creates without a delete, by id."""

    def __init__(self) -> None:
        """Starts empty."""
        self._records: dict[str, Record] = {}

    def __len__(self) -> int:
        """Returns the number of ids with creates."""
        return len(self._records)

    def __contains__(self, id_: object) -> bool:
        """Whether some plugin is owed a delete for the id."""
        return id_ in self._records

    def add(self, subject: Subject, entry: Entry) -> None:
        """Notes that a plugin's create was started. A second one of the same plugin and id changes nothing.

        But it may tell the pid that there was not at the first.
        """
        record = self._records.get(subject.id)
        entries = record.entries if record else ()
        if all(entry.key != known.key for known in entries):
            entries = (*entries, entry)
        elif record and record.subject.pid:
            return
        self._records[subject.id] = Record(subject, entries)

    def take(self, id_: str) -> Record | None:
        """Returns the creates of an id and forgets them: their deletes are now the caller's business."""
        return self._records.pop(id_, None)
