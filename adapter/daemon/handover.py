"""What passes between the owner of the state directory and the one before: the journal, and the chains under way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from adapter.base.loop import Loop, Timer
from adapter.daemon.plugin_job import PluginJob
from adapter.daemon.queue import Queue
from adapter.host.owner import Owner
from adapter.legacy.request import Target
from adapter.owed.journal import Journal
from adapter.owed.ledger import Ledger
from adapter.proto import nri_pb2 as api

log = logging.getLogger(__name__)

CARE = 1.0
"""Seconds until what could not be opened or written is tried again."""
GLANCE = 0.05
"""Seconds between two looks at the chains that an earlier owner has under way."""


class Handover:
    """The events of an id whose chains an earlier owner has under way wait until these have ended."""

    def __init__(
        self,
        loop: Loop,
        owner: Owner | None,
        ledger: Ledger,
        queue: Queue,
        empty_job: Callable[[Target], PluginJob],
    ) -> None:
        """Takes the lock, if there is one, and what returns a job without plugins: the events of an id wait for it."""
        self._loop = loop
        self._owner = owner
        self._ledger = ledger
        self._queue = queue
        self._empty_job = empty_job
        self._elsewhere: list[PluginJob] = []
        self._is_leaving = False
        self._timer: Timer | None = None

    @property
    def is_owner(self) -> bool:
        """Whether this process serves the events."""
        return self._owner is None or self._owner.is_held

    def take_over(self, ids: Iterable[str]) -> bool:
        """Resumes from the previous owner's journal; returns whether there was one. `ids` are the runtime's."""
        assert self._owner is not None  # noqa: S101 - an adapter without a lock has no one before it
        journal = Journal(self._owner)
        journal.on_fault = self._try_later
        self._ledger.keep_in(journal)
        for id_ in {*self._ledger.ids(), *ids}:
            if self._owner.is_elsewhere(id_):
                unknown = Target(id_, "", 0, api.Container(), api.PodSandbox())
                self._elsewhere.append(self._empty_job(self._ledger.target(id_) or unknown))
                self._queue.hold(self._elsewhere[-1])
        self._look()
        return journal.existed

    @property
    def fault(self) -> str:
        """What is wrong with the state directory, empty if nothing is."""
        return self._owner.fault or self._ledger.fault if self._owner is not None and self._owner.is_held else ""

    def keep(self) -> None:
        """Checks and repairs the lock and the journal. Call it at each event: a timer runs only during a fault."""
        if self._owner is not None and self._owner.is_held:
            self._owner.keep()
            self._ledger.mend()
        self._try_later()

    def _try_later(self) -> None:
        if self._timer is None and self.fault:
            self._timer = self._loop.call_at(self._loop.time() + CARE, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        self.keep()

    def _look(self) -> None:
        """Starts the events that wait for an earlier owner's chains, as these end."""
        assert self._owner is not None  # noqa: S101 - likewise
        is_alone = self._owner.is_alone
        ended = [job for job in self._elsewhere if is_alone or not self._owner.is_elsewhere(job.target.id)]
        try:
            self._ledger.read_again()
            self._ledger.mend()
        except Exception:  # the events must not wait for ever
            log.exception("a bug: the journal has not been read")
        for job in ended:
            self._elsewhere.remove(job)
            self._queue.let_go(job)
        if not is_alone:
            self._loop.call_at(self._loop.time() + GLANCE, self._look)
        elif self._is_leaving:
            self.release()

    def release(self) -> None:
        """Lets another process serve the events that come from now on.

        That happens when no earlier owner has chains under way: the events of an id would lose their order among three.
        """
        if self._owner is None or not self._owner.is_held:
            return  # an adapter that waits must not give up the lock once it has it
        self._is_leaving = not self._owner.is_alone
        if not self._is_leaving:
            self._owner.release(self._queue.ids())

    def stay(self) -> None:
        """Goes on to serve, if the lock has not been released yet."""
        self._is_leaving = False
        self.keep()

    def ended(self, id_: str) -> None:
        """Lets another process have an id, if no job of the id is left."""
        if self._owner is not None and not self._queue.of(id_):
            self._owner.leave(id_)
