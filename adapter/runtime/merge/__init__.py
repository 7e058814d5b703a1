"""What several plugins answer to one event, made into one answer, or the conflict between them. Pure.

>>> from adapter.runtime.merge import Conflict, Merge

Source of the rules: containerd/nri v0.12.5, pkg/adaptation/result.go and pkg/api/owners.go. Evictions that plugins ask
for are dropped there, so they are here.
"""

from __future__ import annotations

from google.protobuf.message import Message

from adapter.nri import api
from adapter.runtime.merge.adjustment import Adjustments
from adapter.runtime.merge.owners import Conflict, Owners
from adapter.runtime.merge.update import Updates

__all__ = ["Conflict", "Merge"]


class Merge:
    """The answers to one event; to most there is nothing to merge."""

    def __init__(self, request: Message) -> None:
        """Takes the event's request, which is left as it is."""
        self.request: Message = type(request)()
        """What the next plugin gets: the container, or the resources asked for, as the earlier ones changed them."""
        self.request.CopyFrom(request)
        self.owners = Owners()
        self._adjustments: Adjustments | None = None
        self._updates = Updates(self.owners)
        if isinstance(self.request, api.CreateContainerRequest):
            container = self.request.container
            container.hooks.SetInParent()
            _present(container.linux.resources)
            self._adjustments = Adjustments(self.owners, container)
            self._updates = Updates(self.owners, creating=container.id)
        if isinstance(self.request, api.UpdateContainerRequest):
            _present(self.request.linux_resources)
            self._updates = Updates(self.owners, requested=self.request)

    @property
    def adjust(self) -> api.ContainerAdjustment | None:
        """What is to be made of the container that is created; None for other events."""
        return self._adjustments.merged if self._adjustments else None

    @property
    def update(self) -> list[api.ContainerUpdate]:
        """What is to be changed of existing containers; the one that an UpdateContainer is about comes last."""
        return self._updates.all()

    def apply(self, plugin: str, reply: Message) -> None:
        """Adds the answer of a plugin, `NN-NAME`. Raises Conflict; the event has then failed."""
        if self._adjustments and isinstance(reply, api.CreateContainerResponse) and reply.HasField("adjust"):
            self._adjustments.apply(plugin, reply.adjust)
        if isinstance(reply, api.CreateContainerResponse | api.UpdateContainerResponse | api.StopContainerResponse):
            self._updates.apply(plugin, reply.update)


def _present(resources: api.LinuxResources) -> None:
    """Plugins find empty messages where nothing is: result.go, collectCreateContainerResult."""
    resources.memory.SetInParent()
    resources.cpu.SetInParent()
