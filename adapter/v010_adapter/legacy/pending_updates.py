"""The updates that plugins have asked for, until an answer or a call of their own takes them to the runtime.

Such a call can deadlock a runtime with NRI up to 0.12.0 for ever: the runtime takes two locks in opposite orders
(pkg/adaptation/adaptation.go, updateContainers). Nothing waits for the call's answer, which may come after events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from nri.errors import CallError
from nri.proto import nri_pb2 as api
from v010_adapter.base.loop import Loop

log = logging.getLogger(__name__)

OnUpdated = Callable[[list[api.ContainerUpdate], CallError | None], None]
"""Gets the updates that failed, and the error if the call itself failed."""
Send = Callable[[list[api.ContainerUpdate], OnUpdated], None]
"""Sends updates, and calls back with those that failed, and the error if the call itself failed."""


class PendingUpdates:
    """The updates that wait, one for each container: a later update is merged into an earlier one."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.send: Send | None = None
        """Set if the runtime can be called at any time."""
        self.refusal = ""
        """Why the runtime takes no updates at all, if so."""
        self.existing: set[str] = set()
        """The ids of the containers that the runtime has."""
        self.waiting: dict[str, api.ContainerUpdate] = {}
        """The updates, by container."""
        self._is_calling = False

    def add(self, updates: Iterable[api.ContainerUpdate]) -> None:
        """Takes updates that the runtime shall get."""
        for update in updates:
            earlier = self.waiting.get(update.container_id)
            if earlier is None:
                self.waiting[update.container_id] = update
            else:
                merge(earlier.linux.resources, update.linux.resources)

    def pop(self, besides: str = "") -> list[api.ContainerUpdate]:
        """Removes and returns the waiting updates, for an answer or a call; those of ended containers are dropped.

        The update of `besides` stays: that is the container of the answer, which the answer itself changes.
        """
        if not self.waiting:
            return []
        waiting = {id_: update for id_, update in self.waiting.items() if id_ in self.existing}
        self.waiting = {id_: waiting.pop(id_) for id_ in [besides] if id_ in waiting}
        return list(waiting.values())

    def flush_soon(self) -> None:
        """Sends the waiting updates after the present answer, if the runtime can be called."""
        if self.waiting:
            self._loop.call_soon(self._flush)

    def on_runtime_gone(self) -> None:
        """The connection is lost, and no call is answered any more. The updates wait for the next connection."""
        self.send = None
        self._is_calling = False

    def _flush(self) -> None:
        """Sends the waiting updates, unless a call waits for its answer."""
        if self.send is None or self._is_calling:
            return
        updates = self.pop()
        if updates:
            self._is_calling = True
            self.send(updates, self._on_sent)

    def _on_sent(self, failed: list[api.ContainerUpdate], error: CallError | None) -> None:
        self._is_calling = False
        if error is not None:
            log.error("the runtime has refused updates of containers: %s", error)
        for update in failed:
            log.error("the runtime could not update container %s", update.container_id)
        self._flush()


def merge(earlier: api.LinuxResources, later: api.LinuxResources) -> None:
    """Merges later resources into earlier ones: a value that only the earlier ones have stays."""
    sizes = {limit.page_size for limit in later.hugepage_limits}
    kept = [limit for limit in earlier.hugepage_limits if limit.page_size not in sizes]
    del earlier.hugepage_limits[:]
    earlier.hugepage_limits.extend(kept)
    earlier.MergeFrom(later)
