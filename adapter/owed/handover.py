"""What one owner of the state directory passes to the next: the journal, and the plugins that still run.

The events of a pod or container whose plugins an earlier owner still runs wait until these have ended.

`daemon.lease` says which adapter is the owner, `daemon.succession` which events the owners have served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from adapter.base.loop import Loop, Timer
from adapter.host.lock import Lock
from adapter.legacy.queue import Hold, Queue
from adapter.legacy.request import Target
from adapter.owed.journal import Journal
from adapter.owed.ledger import Ledger

log = logging.getLogger(__name__)

RETRY = 1.0
"""Seconds until what could not be opened or written is tried again."""
GLANCE = 0.05
"""Seconds between two looks at which plugins an earlier owner still runs."""

GiveUp = Callable[[Iterable[str]], object]
"""Releases the lock, except for the ids whose plugins still run."""


class Handover:
    """Takes over from the previous owner, and gives the lock to the next."""

    def __init__(self, loop: Loop, lock: Lock | None, ledger: Ledger, queue: Queue) -> None:
        """Takes the loop, the lock (None if nothing is kept on disk), who is owed a delete, and the jobs."""
        self._loop = loop
        self._lock = lock
        self._ledger = ledger
        self._queue = queue
        self._elsewhere: list[Hold] = []
        """The pods and containers whose plugins an earlier owner runs."""
        self._give_up: GiveUp | None = None
        """Set while the lock is to be released."""
        self._timer: Timer | None = None

    def take_over(self, ids: Iterable[str]) -> bool:
        """Resumes from the previous owner's journal, now that the lock is held; returns whether there was one.

        `ids` are those of the runtime's pods and containers, as far as they are known.
        """
        assert self._lock is not None  # noqa: S101 - an adapter without a lock has no one before it
        journal = Journal(self._lock, self._try_later)
        self._ledger.resume_from(journal, self._queue.ids())
        for id_ in {*self._ledger.ids(), *ids}:
            if self._lock.is_elsewhere(id_):
                target = self._ledger.target(id_) or Target.unknown(id_)
                self._elsewhere.append(self._queue.hold(target))
        self._look()
        return journal.existed

    @property
    def fault(self) -> str:
        """What is wrong with the state directory, empty if nothing is."""
        return self._lock.fault or self._ledger.fault if self._lock is not None and self._lock.is_held else ""

    def repair(self) -> None:
        """Checks and repairs the lock and the journal. Call it at each event: a timer runs only during a fault."""
        if self._lock is not None and self._lock.is_held:
            self._lock.repair()
            self._ledger.repair()
        self._try_later()

    def release(self, give_up: GiveUp | None = None) -> None:
        """Lets another adapter serve the events that come from now on: calls `give_up`, by default `Lock.release`.

        The call waits until no earlier owner runs plugins, and nothing waits for their end here: with three adapters,
        events of an id would lose their order, and `Lock.release` would keep ids that no job frees.
        """
        self.repair()  # the next owner reads the journal
        if self._lock is not None and self._lock.is_held:  # else a lock that is taken later would be given up
            self._give_up = give_up or self._lock.release
            self._release_if_alone()

    def cancel_release(self) -> None:
        """Keeps the lock, if it has not been released yet."""
        self._give_up = None
        self.repair()

    def _release_if_alone(self) -> None:
        if self._give_up is not None and not self._elsewhere and self._lock is not None and self._lock.is_alone:
            give_up, self._give_up = self._give_up, None
            give_up(self._queue.ids())

    def _try_later(self) -> None:
        if self._timer is None and self.fault:
            self._timer = self._loop.call_at(self._loop.time() + RETRY, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        self.repair()

    def _look(self) -> None:
        """Starts the events that wait for an earlier owner's runs, as these end."""
        assert self._lock is not None  # noqa: S101 - likewise
        is_alone = self._lock.is_alone  # first: what is read after that is all that the earlier owners write
        ended = [hold for hold in self._elsewhere if is_alone or not self._lock.is_elsewhere(hold.target.id)]
        try:
            self._ledger.read_again()
            self._ledger.repair()
        except Exception:  # the events must not wait for ever
            log.exception("a bug: the journal has not been read")
        for hold in ended:
            self._elsewhere.remove(hold)
            self._queue.remove(hold)
            self._queue.start_after(hold)
        if not is_alone:
            self._loop.call_at(self._loop.time() + GLANCE, self._look)
        else:
            self._release_if_alone()
