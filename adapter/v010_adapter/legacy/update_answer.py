"""The answer to UpdateContainer: what the legacy plugins, one after the other, make of the requested resources."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from nri.proto import nri_pb2 as api
from v010_adapter.base import gojson
from v010_adapter.errors import NotAdjustable
from v010_adapter.legacy.answer import AnswerBuilder, container_update, plain, refuse
from v010_adapter.legacy.pending_updates import PendingUpdates, merge
from v010_adapter.legacy.request import Target
from v010_adapter.legacy.result import Result
from v010_adapter.oci import sizes
from v010_adapter.oci.patch import in_order, merged
from v010_adapter.oci.resources import resources_from
from v010_adapter.oci.spec import adjustment, read
from v010_adapter.oci.values import Spec, members

_ONLY = "only linux.resources can be changed at UpdateContainer"


class UpdateAnswerBuilder(AnswerBuilder):
    """Builds the answer to UpdateContainer: the requested resources can be changed.

    `spec` has the resources after the update: the container's, changed by the requested ones.
    """

    _CHANGED = (*AnswerBuilder._CHANGED, "_update_of_target")

    def __init__(self, event: str, request: Any, target: Target, updates: PendingUpdates) -> None:
        super().__init__(event, request, target, updates)
        self._update_of_target: api.ContainerUpdate | None = None

    @cached_property
    def _container(self) -> api.Container:
        """The container after the requested update."""
        container = api.Container()
        container.CopyFrom(self._request.container)
        merge(container.linux.resources, self._request.linux_resources)
        return container

    def refuse_oversized(self, *, is_large: bool) -> None:
        """See AnswerBuilder."""
        if is_large:
            requested = api.Container(linux=api.LinuxContainer(resources=self._request.linux_resources))
            sizes.refuse_oversized(self._request.pod, requested, ["lists"])
        super().refuse_oversized(is_large=is_large)

    def _more(self) -> str:
        return f',"resources":{gojson.encode(resources_from(self._request.linux_resources))}'

    def _adjust(self, plugin: str, result: Result) -> None:
        if self.is_answered:
            refuse(result, "it comes too late, the container is being updated without it")
            return
        refuse(result._replace(spec=None), _ONLY)
        patch = plain("spec", result.spec)
        if patch is None:
            return
        patch = in_order(patch)
        read(self._container, patch, self._before, self._edited)
        spec = merged(self._edited, patch)
        _refuse_elsewhere(self._before, spec)
        update = container_update(self._target.id, _resources(self._before), _resources(spec), "spec.linux")
        update.ignore_failure = False
        self._edited, self._update_of_target = spec, update
        self._extension = None

    def _response(self) -> Any:
        update = self._update_of_target
        return api.UpdateContainerResponse(update=[update]) if update and update.linux.resources.ByteSize() else None


def _resources(spec: Spec) -> Any:
    """Returns the resources of a specification, of whatever type; an empty object if there are none."""
    resources = members(spec.get("linux"), "linux").get("resources")
    return {} if resources is None else resources


def _refuse_elsewhere(before: Spec, after: Spec) -> None:
    """Raises NotAdjustable where two specifications differ outside their resources."""
    old, new = _pieces(before), _pieces(after)
    for place in {**old, **new}:
        was, becomes = old.get(place, {}), new.get(place, {})
        try:
            if was != becomes and adjustment(was, becomes).ByteSize():
                raise NotAdjustable(place, _ONLY)
        except NotAdjustable as error:
            raise NotAdjustable(error.place, _ONLY) from None


def _pieces(spec: Spec) -> dict[str, Spec]:
    """Returns the members outside the resources by their place, each as a specification of its own."""
    linux = members(spec.get("linux"), "linux")
    pieces = {key: {key: member} for key, member in spec.items() if key != "linux"}
    return pieces | {f"linux.{key}": {"linux": {key: member}} for key, member in linux.items() if key != "resources"}
