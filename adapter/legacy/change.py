"""What plugins, one after the other, make of an update of a container's resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapter import gojson, oci
from adapter.errors import NotAdjustable
from adapter.legacy.outcome import Outcome, container_update, plain, refuse
from adapter.legacy.request import Subject
from adapter.legacy.result import Result
from adapter.legacy.updates import Updates, merge
from adapter.proto import nri_pb2 as api


class Change(Outcome):
    """Of UpdateContainer: the resources that are asked for can be changed.

    `spec` has them as they will be: the container's, changed by those that are asked for.
    """

    def __init__(self, event: str, request: Any, subject: Subject, updates: Updates) -> None:
        """Takes what every outcome takes."""
        super().__init__(event, request, subject, updates)
        container = api.Container()
        container.CopyFrom(request.container)
        merge(container.linux.resources, request.linux_resources)
        self._before = self._now = oci.spec_from(request.pod, container)
        self._change: api.ContainerUpdate | None = None

    def _spec(self) -> bytes:
        return gojson.dumps(self._now)

    def _more(self) -> dict[str, Any]:
        return {"resources": oci.resources_from(self._request.linux_resources)}

    def _adjust(self, plugin: str, result: Result) -> None:
        if self._answered:
            refuse(result, "it comes too late, the container is being updated without it")
            return
        refuse(result._replace(spec=None), "only linux.resources can be changed at UpdateContainer")
        patch = plain("spec", result.spec)
        if patch is None:
            return
        now = oci.merged(self._now, patch)
        place = _first_difference(self._before, now)
        if place:
            raise NotAdjustable(place, "only linux.resources can be changed at UpdateContainer")
        before, after = (spec.get("linux", {}).get("resources", {}) for spec in (self._before, now))
        self._change = container_update(self._subject.id, before, after, "spec.linux")
        self._change.ignore_failure = False
        self._now = now

    def _response(self) -> Any:
        if self._change is None or not self._change.linux.resources.ByteSize():
            return None
        return api.UpdateContainerResponse(update=[self._change])


def _first_difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Returns where two specs differ besides their resources, empty if nowhere."""
    for key in sorted(before.keys() | after.keys()):
        if key != "linux" and before.get(key) != after.get(key):
            return key
    old, new = before.get("linux", {}), after.get("linux", {})
    if not isinstance(new, dict):
        return "linux"
    for key in sorted(old.keys() | new.keys()):
        if key != "resources" and old.get(key) != new.get(key):
            return f"linux.{key}"
    return ""
