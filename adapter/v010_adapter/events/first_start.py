"""What runs at the first start counts as created: until then, the runtime itself ran these plugins.

The first start is that of the first adapter of a node. At other starts, what runs and has no record has had no create:
it has started while no adapter was there, as at each boot before the adapter. A mark tells that an adapter has been
here (`RuntimeDirectory.mark`). It is made when all that counts has a record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from v010_adapter.errors import ConfigError
from v010_adapter.legacy.plugins import LegacyPlugins
from v010_adapter.legacy.request import Target
from v010_adapter.state.ledger import Ledger
from v010_adapter.state.runtime_directory import RuntimeDirectory

log = logging.getLogger(__name__)


class FirstStart:
    """The pods and containers that do not count yet, because conf.json cannot be read."""

    def __init__(self, ledger: Ledger, plugins: LegacyPlugins, directory: RuntimeDirectory) -> None:
        self._ledger = ledger
        self._plugins = plugins
        self._directory = directory
        self._ids: dict[str, None] = {}
        self.is_counting = False
        """Whether some may not count yet."""

    @property
    def is_due(self) -> bool:
        """Whether this is the first adapter on this node, as far as that is known."""
        return not self._directory.is_marked

    def begin(self, targets: Iterable[Target]) -> None:
        """Counts these, and no others."""
        entries = self._plugins.entries()
        for target in targets if entries is None or entries else ():
            self._ledger.keep_later(target)
            self._ids[target.id] = None
        self.is_counting = True
        self.count()

    def forget(self, id_: str) -> None:
        """Does not count an id any more: it has stopped."""
        self._ids.pop(id_, None)

    def count(self) -> None:
        """Counts what does not count yet, if the plugins are known. What has a record had its creates."""
        entries = self._plugins.entries() if self.is_counting else None
        if entries is None:
            return
        ids, self._ids, self.is_counting = self._ids, {}, False
        owes = self._plugins.plans.owes_delete
        for target in filter(None, map(self._ledger.target, ids)):
            self._ledger.refresh(target)
            if target.id not in self._ledger:
                self._ledger.add_later(target.id, [e for e in entries if owes(e, is_sandbox=target.is_sandbox)])
        self._ledger.when_written(partial(self._mark, logging.WARNING if entries else logging.DEBUG))

    def _mark(self, level: int) -> None:
        try:
            self._directory.mark()
        except (ConfigError, OSError) as error:
            log.log(level, "%s: after the next boot, what runs before the adapter counts as created", error)
