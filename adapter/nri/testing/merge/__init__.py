"""Merges the answers of several plugins to one event into one, or reports their conflict. Pure.

Source of the rules: containerd/nri v0.12.5, pkg/adaptation/result.go and pkg/api/owners.go. As there, evictions are
dropped.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, cast

from google.protobuf.message import Message

from nri import api
from nri.testing.merge.adjustment import Adjustment
from nri.testing.merge.owners import Claims, Conflict, Owners

__all__ = ["Conflict", "Merge"]


class Merge:
    """The merged answers to one event. At most events, answers are empty."""

    def __init__(self, request: Message) -> None:
        self.request = cast(Any, deepcopy(request))
        """The request for the next plugin, with the container or the requested resources as changed so far."""
        self.owners = Owners()
        self.adjust: api.ContainerAdjustment | None = None
        """The adjustment of the container at its creation, None for other events."""
        self._updates: dict[str, api.ContainerUpdate] = {}
        if isinstance(request, api.CreateContainerRequest):
            self.adjust = api.ContainerAdjustment()
            self.request.container.hooks.SetInParent()
            _present(self.request.container.linux.resources)
        if isinstance(request, api.UpdateContainerRequest):
            _present(self.request.linux_resources)

    @property
    def update(self) -> list[api.ContainerUpdate]:
        """The updates in the order of their first mention. At UpdateContainer, the event's own container is last."""
        return sorted(self._updates.values(), key=lambda update: self._is_requested(update.container_id))

    def apply(self, plugin: str, reply: Message) -> None:
        """Adds the answer of a plugin, `NN-NAME`. Raises Conflict, which fails the event."""
        if self.adjust is not None and isinstance(reply, api.CreateContainerResponse):
            container = self.request.container
            Adjustment(Claims(self.owners, plugin, container.id), self.adjust, container).add(reply.adjust)
        if isinstance(reply, api.CreateContainerResponse | api.UpdateContainerResponse | api.StopContainerResponse):
            for wanted in reply.update:
                self._update(plugin, wanted)

    def _update(self, plugin: str, wanted: api.ContainerUpdate) -> None:
        """Adds an update. Raises Conflict, unless the update has `ignore_failure`."""
        id_ = wanted.container_id
        if self.adjust is not None and id_ == self.request.container.id:
            raise Conflict(f'plugin "{plugin}" asked update of "{id_}" during creation')
        update = self._updates.setdefault(id_, api.ContainerUpdate(container_id=id_, ignore_failure=True))
        update.linux.resources.SetInParent()
        update.ignore_failure = update.ignore_failure and wanted.ignore_failure
        try:
            if wanted.linux.HasField("resources"):
                self._add(Claims(self.owners, plugin, id_), update, wanted.linux.resources)
        except Conflict:
            if not wanted.ignore_failure:
                raise

    def _add(self, claims: Claims, update: api.ContainerUpdate, wanted: api.LinuxResources) -> None:
        """Merges all resources, or none if there is a conflict. Claims that were made before the conflict stay."""
        current = self.request.linux_resources if self._is_requested(update.container_id) else update.linux.resources
        merged = api.LinuxResources.FromString(current.SerializeToString())
        claims.set_resources(wanted, merged)
        if merged.HasField("pids"):
            # As upstream: an existing limit counts as set by the plugin, and the plugin's own limit is lost.
            claims.claim(api.PidsLimit)
        for target in (current, update.linux.resources):
            target.CopyFrom(merged)

    def _is_requested(self, id_: str) -> bool:
        return isinstance(self.request, api.UpdateContainerRequest) and self.request.container.id == id_


def _present(resources: api.LinuxResources) -> None:
    """Adds empty messages, as plugins get them if nothing is set. Source: result.go, collectCreateContainerResult."""
    resources.memory.SetInParent()
    resources.cpu.SetInParent()
