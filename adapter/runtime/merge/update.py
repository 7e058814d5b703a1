"""What plugins want changed of containers that exist, in answer to creations, updates and stops.

Source: containerd/nri pkg/adaptation/result.go, update, getContainerUpdate, updateResources.
"""

from __future__ import annotations

from collections.abc import Iterable

from adapter.nri import api
from adapter.runtime.merge import resources
from adapter.runtime.merge.owners import Conflict, Owners


class Updates:
    """The updates that an event brings about, one for each container."""

    def __init__(
        self, owners: Owners, *, creating: str = "", requested: api.UpdateContainerRequest | None = None
    ) -> None:
        """`creating` is the id of a container that does not exist yet; `requested` is what the event is about.

        The requested resources change with what plugins say, for the next plugin to see.
        """
        self._owners = owners
        self._creating = creating
        self._requested = requested
        self._by_id: dict[str, api.ContainerUpdate] = {}

    def apply(self, plugin: str, updates: Iterable[api.ContainerUpdate]) -> None:
        """Adds what a plugin wants. Raises Conflict, unless the plugin said that the update may fail."""
        for wanted in updates:
            update = self._update(plugin, wanted)
            try:
                self._add(plugin, update, wanted)
            except Conflict:
                if not wanted.ignore_failure:
                    raise

    def all(self) -> list[api.ContainerUpdate]:
        """Returns them in the order in which they came up; what was requested itself comes last."""
        return sorted(self._by_id.values(), key=self._is_requested)

    def _is_requested(self, update: api.ContainerUpdate) -> bool:
        return self._requested is not None and update.container_id == self._requested.container.id

    def _update(self, plugin: str, wanted: api.ContainerUpdate) -> api.ContainerUpdate:
        id_ = wanted.container_id
        if self._creating and id_ == self._creating:
            raise Conflict(f'plugin "{plugin}" asked update of "{id_}" during creation')
        if id_ in self._by_id:
            known = self._by_id[id_]
            known.ignore_failure = known.ignore_failure and wanted.ignore_failure
            return known
        update = self._by_id[id_] = api.ContainerUpdate(container_id=id_, ignore_failure=wanted.ignore_failure)
        update.linux.resources.SetInParent()
        return update

    def _add(self, plugin: str, update: api.ContainerUpdate, wanted: api.ContainerUpdate) -> None:
        """Changes nothing if there is a conflict; but what was claimed before it came up stays claimed."""
        if not wanted.linux.HasField("resources"):
            return
        requested = self._requested if self._is_requested(update) else None
        merged = api.LinuxResources()
        merged.CopyFrom(requested.linux_resources if requested else update.linux.resources)
        resources.claim(self._owners, update.container_id, plugin, wanted.linux.resources)
        if merged.HasField("pids"):
            # So it is upstream: a limit that was there counts as set by the plugin, and the one it wants is lost.
            self._owners.claim(update.container_id, api.PidsLimit, plugin)
        resources.add(merged, wanted.linux.resources)
        update.linux.resources.CopyFrom(merged)
        if requested:
            requested.linux_resources.CopyFrom(merged)
