"""What ran at the first start counts as created: before us, the runtime itself ran these plugins.

There may be thousands, so they are counted in slices, between which events are served.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from adapter.base.loop import Loop
from adapter.legacy.job import Plugins
from adapter.legacy.request import Target
from adapter.owed.ledger import Ledger

SLICE = 100
"""Pods and containers of one turn of the loop, which take a few milliseconds."""


class FirstStart:
    """The pods and containers that are not counted yet: their slice is to come, or conf.json cannot be read."""

    def __init__(self, loop: Loop, ledger: Ledger, plugins: Plugins) -> None:
        self._loop = loop
        self.is_counting = False
        """Whether some are still to be counted."""
        self._ledger = ledger
        self._plugins = plugins
        self._targets: dict[str, Target] = {}
        self._goes_on = False

    def begin(self, targets: Iterable[Target]) -> None:
        """Begins to count these, and no others."""
        self._targets = {target.id: target for target in targets}
        self.is_counting = True
        self.count(islice(self._targets, SLICE))

    def forget(self, id_: str) -> None:
        """Does not count an id any more: it has stopped."""
        self._targets.pop(id_, None)

    def count(self, ids: Iterable[str]) -> None:
        """Counts those of these ids at once that have not been counted; the other ids follow."""
        if not self.is_counting:
            return
        entries = self._plugins.entries()
        if entries is None:
            return  # the plugins are not known; the next event looks again
        owes = self._plugins.plans.owes_delete
        for target in [self._targets.pop(id_) for id_ in tuple(ids) if id_ in self._targets]:
            self._ledger.refresh(target)
            if entries and self._ledger.target(target.id) is None:
                target.let_go_of_messages()
                self._ledger.remember(target)
            for entry in entries:
                if owes(entry, is_sandbox=target.is_sandbox):
                    self._ledger.add(target, entry)
        if self._targets and not self._goes_on:
            self._goes_on = True
            self._loop.call_soon(self._go_on)
        elif self.is_counting and not self._targets:
            self.is_counting = False
            self._ledger.end_first_start()

    def count_all(self) -> None:
        """Counts all at once."""
        self.count(self._targets)

    def _go_on(self) -> None:
        self._goes_on = False
        self.count(islice(self._targets, SLICE))
