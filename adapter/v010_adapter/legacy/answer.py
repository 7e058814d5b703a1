"""The answer to the runtime at one event, built from the results of the legacy plugins.

A result is taken as a whole or not at all: a plugin that asks for something impossible has failed.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nri.proto import nri_pb2 as api
from v010_adapter.base import gojson
from v010_adapter.errors import NotAdjustable
from v010_adapter.legacy.pending_updates import PendingUpdates
from v010_adapter.legacy.plan import ORIGINAL
from v010_adapter.legacy.request import Extension, Target
from v010_adapter.legacy.result import Result

if TYPE_CHECKING:
    from v010_adapter.oci.parts import Fields
    from v010_adapter.oci.values import Spec

RESPONSES: Mapping[str, type[Any]] = {
    "CreateContainer": api.CreateContainerResponse,
    "UpdateContainer": api.UpdateContainerResponse,
    "StopContainer": api.StopContainerResponse,
}
"""The answers that can carry updates of other containers."""
SAME = "annotations", "args", "env", "mounts"
"""The fields of NRI's container whose JSON is the same in the specification."""

TOO_LATE = "the container exists already; to change it, add CreateContainer to the plugin's `events`"
"""The reason why nothing can be adjusted at the events of the original client."""


class AnswerBuilder:
    """Builds the answer to an event, from updates of other containers: plugins may ask for these at every event.

    Subclasses also change the container of the event.
    """

    _CHANGED: tuple[str, ...] = "_requested", "_members", "_extension"
    """The attributes that a child process may change, besides the parts of the specification."""

    def __init__(self, event: str, request: Any, target: Target, updates: PendingUpdates) -> None:
        self._event = event
        self._is_of_pod = event.endswith("PodSandbox")
        """Whether the event is a pod's. The target does not tell: a container of Docker is its own pod."""
        self._request = request
        self._target = target
        self._updates = updates
        self.is_answered = False
        """Whether the answer has gone out."""
        self._requested: list[api.ContainerUpdate] = []
        """The updates of other containers. They go out if the event does not fail."""
        self._members = b""
        self._texts: dict[str, str] = {}
        """The JSON of the container's fields in the specification."""
        self._before: Spec = {}
        """The parts of the specification that plugins have named, as the runtime has them."""
        self._edited: Spec = {}
        """The same parts with the changes of the plugins so far."""
        self._pickled = b""
        """These three attributes as bytes, if another process has changed them last; else empty. See `_unpickle`."""
        self._extension: Extension | None = None

    def refuse_oversized(self, *, is_large: bool) -> None:
        """Raises Oversized for a container that cannot be created because of its size."""
        from v010_adapter.oci import sizes  # noqa: PLC0415 - only for plugins with `events`

        if not self._is_of_pod:
            fields = sizes.EDITED if is_large else sizes.EDITED_OF_SMALL
            sizes.refuse_oversized(self._request.pod, self._request.container, fields)

    def extension(self) -> Extension:
        """Returns the part of a request that the original client did not send."""
        if self._extension is None:
            self._unpickle()
            spec = self._spec()
            self._members = self._members or self._encode()
            self._extension = Extension(spec, self._members)
        return self._extension

    def accept(self, plugin: str, result: Result) -> None:
        """Adds a plugin's result to the answer. Raises NotAdjustable; then nothing of the result is added.

        `settle` must follow.
        """
        self._unpickle()
        updates = [] if result.updates is None else list(self._parsed(plain("updates", result.updates)))
        self._adjust(plugin, result)
        self._requested += updates

    def settle(self) -> None:
        """Sends the updates of a late result on: the answer, which has gone out, could not carry them."""
        if self.is_answered:
            self._queue_updates()
            self._updates.flush_soon()

    def changes(self) -> dict[str, Any]:
        """Returns what `extension` and `accept` have changed, to be passed to another process."""
        parts = self._pickled or pickle.dumps((self._texts, self._before, self._edited))
        return {**{name: getattr(self, name) for name in self._CHANGED}, "_pickled": parts}

    def restore(self, changes: dict[str, Any]) -> None:
        """Takes the changes of another process."""
        vars(self).update(changes)

    def _unpickle(self) -> None:
        """Decodes the parts of the specification that another process has changed. Not earlier: they may be large."""
        if self._pickled:
            self._texts, self._before, self._edited = pickle.loads(self._pickled)  # noqa: S301 - `changes` has made it
            self._pickled = b""

    def reply(self) -> Any:
        """Returns the answer to the runtime, None for an empty one. Later results are too late for this answer."""
        self.is_answered = True
        response = self._response()
        self._queue_updates()
        return with_updates(self._event, response, self._updates, self._target)

    def _queue_updates(self) -> None:
        """Hands the updates on. An answer that can carry them takes them to the runtime, or a call of their own."""
        self._updates.add(self._requested)
        self._requested = []

    def _response(self) -> Any:
        """Returns the answer, without the updates of other containers."""
        return None

    def _adjust(self, plugin: str, result: Result) -> None:
        """Takes the changes of the event's container. Raises NotAdjustable."""
        refuse(result, TOO_LATE if self._event in ORIGINAL else f"not at {self._event}")

    def _spec(self) -> bytes:
        if self._is_of_pod:
            return self._target.spec
        from v010_adapter.oci.spec import to_json  # noqa: PLC0415 - only for plugins with `events`

        return gojson.marshalled(to_json(self._fields, self._texts, self._before, self._edited))

    @cached_property
    def _container(self) -> api.Container:
        """The container of the specification."""
        container: api.Container = self._request.container
        return container

    @cached_property
    def _fields(self) -> Fields:
        """The fields of that container that are set, with their values. They are listed once, because that is slow."""
        return self._container.ListFields()

    def _encode(self) -> bytes:
        """Returns the members of a request that the original client did not send, as JSON, with a comma before each."""
        from v010_adapter.oci import protojson  # noqa: PLC0415 - only for plugins with `events`

        members = f',"event":"{self._event}"'
        same = {name: self._texts.get(name, "") for name in SAME}
        for field, message in self._request.ListFields():
            if field.name == "pod":
                members += f',"pod":{protojson.cached_json(message)}'
            elif field.name == "container":
                fields = self._fields if message is self._container else message.ListFields()
                members += f',"container":{protojson.fields_to_json(fields, same)}'
        return gojson.marshalled(members + self._more())

    def _more(self) -> str:
        return ""

    def _parsed(self, updates: Any) -> Iterator[api.ContainerUpdate]:
        """Yields the updates of other containers. Raises NotAdjustable."""
        if not isinstance(updates, list):
            raise NotAdjustable("updates", f"must be an array, not {gojson.kind(updates)}")
        for index, update in enumerate(updates):
            yield self._update(f"updates[{index}]", update)

    def _update(self, place: str, update: Any) -> api.ContainerUpdate:
        if not isinstance(update, dict) or not isinstance(update.get("id"), str):
            raise NotAdjustable(place, "must be an object with the `id` of a container, and `resources`")
        unknown = update.keys() - {"id", "resources"}
        if unknown:
            raise NotAdjustable(f"{place}.{min(unknown)}", "unknown; an update has `id` and `resources`")
        if self._updates.refusal:
            raise NotAdjustable(place, self._updates.refusal)
        id_ = update["id"]
        if self._event in ("CreateContainer", "UpdateContainer") and id_ == self._target.id:
            raise NotAdjustable(f"{place}.id", f"{id_} is the container of the event: change it with `spec`")
        if id_ not in self._updates.existing:
            raise NotAdjustable(f"{place}.id", f"there is no container {id_!r}")
        return container_update(id_, {}, update.get("resources"), place)


def with_updates(event: str, response: Any, updates: PendingUpdates, target: Target) -> Any:
    """Returns the answer to an event with the updates that it can carry; None for an empty one."""
    updates.flush_soon()
    waiting = updates.pop(besides=target.id) if event in RESPONSES else ()
    if waiting:
        response = response or RESPONSES[event]()
        response.update.extend(waiting)
    return response


def container_update(id_: str, before: Any, after: Any, place: str) -> api.ContainerUpdate:
    """Returns the update that changes a container's resources from `before` to `after`. Raises NotAdjustable.

    A failed update fails nothing: the container may be gone by then.
    """
    from v010_adapter.oci.spec import resources_to  # noqa: PLC0415 - only where plugins adjust containers

    if not isinstance(after, dict):
        raise NotAdjustable(f"{place}.resources", f"must be an object, not {gojson.kind(after)}")
    try:
        resources = resources_to(before, after)
    except NotAdjustable as error:
        raise NotAdjustable(f"{place}.{error.place.removeprefix('linux.')}", error.reason) from None
    return api.ContainerUpdate(
        container_id=id_, linux=api.LinuxContainerUpdate(resources=resources), ignore_failure=True
    )


def plain(place: str, value: Any) -> Any:
    """Returns a decoded value as Python's own types. Raises NotAdjustable, at `place`, for a value that is too deep."""
    try:
        return gojson.plain(value)
    except ValueError as error:
        raise NotAdjustable(place, str(error)) from None


def refuse(result: Result, reason: str) -> None:
    """Raises NotAdjustable if a plugin asks for changes of the event's container."""
    for name, value in (("spec", result.spec), ("adjust", result.adjust)):
        if value is not None and (value or not isinstance(value, gojson.Object)):
            raise NotAdjustable(name, reason)
