"""Updates of containers that plugins ask for, until there is an answer that carries them or a call of their own.

Such a call can deadlock a runtime with NRI up to 0.12.0 for ever: two locks, taken in opposite orders there
(pkg/adaptation/adaptation.go, updateContainers). Nobody waits for its answer, which may stand behind events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from adapter.errors import CallError
from adapter.loop import Loop
from adapter.proto import nri_pb2 as api

log = logging.getLogger(__name__)

Send = Callable[[list[api.ContainerUpdate], Callable[[list[api.ContainerUpdate], CallError | None], None]], None]
"""Sends updates, and calls back with those that failed, and the error if the call itself failed."""


class Updates:
    """Updates that wait, one for each container: a later one changes an earlier."""

    def __init__(self, loop: Loop) -> None:
        """Starts empty, and without the means to send any."""
        self._loop = loop
        self.send: Send | None = None
        """Set where the runtime can be called at any time."""
        self.known: set[str] = set()
        """The ids of the containers there are."""
        self._waiting: dict[str, api.ContainerUpdate] = {}
        self._under_way = False

    def add(self, updates: Iterable[api.ContainerUpdate]) -> None:
        """Takes updates that are to reach the runtime."""
        for update in updates:
            earlier = self._waiting.get(update.container_id)
            if earlier is None:
                self._waiting[update.container_id] = update
            else:
                merge(earlier.linux.resources, update.linux.resources)

    def take(self, besides: str = "") -> list[api.ContainerUpdate]:
        """Returns what waits, for an answer that carries it; what is for a container that has ended is dropped.

        What is for the container that the answer is about waits on: it would be a second answer about that.
        """
        waiting = {id_: update for id_, update in self._waiting.items() if id_ in self.known}
        self._waiting = {id_: waiting.pop(id_) for id_ in [besides] if id_ in waiting}
        return list(waiting.values())

    def flush_soon(self) -> None:
        """Sends what waits, behind the answer that is given now, if that can be done."""
        if self.send is not None and self._waiting:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Sends what waits, unless something is under way."""
        if self.send is None or self._under_way:
            return
        updates = self.take()
        if updates:
            self._under_way = True
            self.send(updates, self._sent)

    def _sent(self, failed: list[api.ContainerUpdate], error: CallError | None) -> None:
        self._under_way = False
        if error is not None:
            log.error("the runtime has refused updates of containers: %s", error)
        for update in failed:
            log.error("the runtime could not update container %s", update.container_id)
        self._flush()


def merge(earlier: api.LinuxResources, later: api.LinuxResources) -> None:
    """Changes resources by later ones: what these do not have stays."""
    sizes = {limit.page_size for limit in later.hugepage_limits}
    kept = [limit for limit in earlier.hugepage_limits if limit.page_size not in sizes]
    del earlier.hugepage_limits[:]
    earlier.hugepage_limits.extend(kept)
    earlier.MergeFrom(later)
