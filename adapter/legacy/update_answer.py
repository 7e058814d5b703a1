"""The answer to UpdateContainer: what the legacy plugins, one after the other, make of the requested resources."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from adapter.base import gojson
from adapter.errors import NotAdjustable
from adapter.legacy.answer import AnswerBuilder, container_update, plain, refuse
from adapter.legacy.pending_updates import PendingUpdates, merge
from adapter.legacy.request import Target
from adapter.legacy.result import Result
from adapter.oci import sizes
from adapter.oci.patch import merged
from adapter.oci.resources import resources_from
from adapter.oci.spec import adjustment, spec_from
from adapter.oci.values import Spec, members
from adapter.proto import nri_pb2 as api

_ONLY = "only linux.resources can be changed at UpdateContainer"


class UpdateAnswerBuilder(AnswerBuilder):
    """Builds the answer to UpdateContainer: the requested resources can be changed.

    `spec` has the resources after the update: the container's, changed by the requested ones.
    """

    def __init__(self, event: str, request: Any, target: Target, updates: PendingUpdates) -> None:
        super().__init__(event, request, target, updates)
        self._edited: Spec | None = None
        self._update_of_target: api.ContainerUpdate | None = None

    @cached_property
    def _before(self) -> Spec:
        """The spec after the requested update."""
        container = api.Container()
        container.CopyFrom(self._request.container)
        merge(container.linux.resources, self._request.linux_resources)
        return spec_from(self._request.pod, container)

    @property
    def _current(self) -> Spec:
        """The spec with the changes of the plugins so far."""
        return self._before if self._edited is None else self._edited

    def refuse_oversized(self) -> None:
        """See AnswerBuilder."""
        requested = api.Container(linux=api.LinuxContainer(resources=self._request.linux_resources))
        sizes.refuse_oversized(self._request.pod, requested, ["lists"])
        super().refuse_oversized()

    def changes(self) -> dict[str, Any]:
        """See AnswerBuilder."""
        return {**super().changes(), "_edited": self._edited, "_update_of_target": self._update_of_target}

    def _spec(self) -> bytes:
        return gojson.dumps(self._current)

    def _more(self) -> dict[str, Any]:
        return {"resources": resources_from(self._request.linux_resources)}

    def _adjust(self, plugin: str, result: Result) -> None:
        if self._answered:
            refuse(result, "it comes too late, the container is being updated without it")
            return
        refuse(result._replace(spec=None), _ONLY)
        patch = plain("spec", result.spec)
        if patch is None:
            return
        spec = merged(self._current, patch)
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
