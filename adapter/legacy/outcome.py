"""What plugins' results come to at one event: what the runtime is answered, and what goes out besides.

Of one result all is taken, or nothing: a plugin that wishes for what cannot be has failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adapter import gojson
from adapter.errors import NotAdjustable
from adapter.legacy.request import Full, Subject
from adapter.legacy.result import Result
from adapter.legacy.turns import ORIGINAL
from adapter.legacy.updates import Updates
from adapter.proto import nri_pb2 as api

RESPONSES: Mapping[str, type[Any]] = {
    "CreateContainer": api.CreateContainerResponse,
    "UpdateContainer": api.UpdateContainerResponse,
    "StopContainer": api.StopContainerResponse,
}
"""The answers that can carry updates of containers."""


class Outcome:
    """Of an event at which nothing can be adjusted; updates of containers may be asked for at every event."""

    def __init__(self, event: str, request: Any, subject: Subject, updates: Updates) -> None:
        """Takes the event with NRI's request, what it is about, and where updates wait."""
        self._event = event
        self._request = request
        self._subject = subject
        self._updates = updates
        self._answered = False
        self._asked: list[api.ContainerUpdate] = []
        """Updates that go out if the event does not fail."""
        self._members = b""

    def full(self) -> Full:
        """Returns what a request has here that the original's had not."""
        if not self._members:
            self._members = self._encode()
        return Full(self._spec(), self._members)

    def take(self, plugin: str, result: Result) -> None:
        """Takes a plugin's result. Raises NotAdjustable, and has taken nothing then."""
        updates = [] if result.updates is None else list(self._wanted(plain("updates", result.updates)))
        self._adjust(plugin, result)
        self._asked += updates
        if self._answered:
            self._release()

    def reply(self) -> Any:
        """Returns the answer to the runtime, None for an empty one. What is taken from now on comes too late for it."""
        self._answered = True
        response = self._response()
        self._release()
        carrier = RESPONSES.get(self._event)
        if carrier is None:
            return None
        updates = self._updates.take(besides=self._subject.id)
        if updates:
            response = response or carrier()
            response.update.extend(updates)
        return response

    def _release(self) -> None:
        """Lets the updates go out: with this answer if it can carry them, by themselves, or with a later one."""
        self._updates.add(self._asked)
        self._asked = []
        self._updates.flush_soon()

    def _response(self) -> Any:
        """Returns the answer, without the updates of other containers."""
        return None

    def _adjust(self, plugin: str, result: Result) -> None:
        """Takes what a plugin wants of the container itself."""
        refuse(result, "the container exists already" if self._event in ORIGINAL else f"not at {self._event}")

    def _spec(self) -> bytes:
        if self._subject.is_sandbox:
            return self._subject.spec
        from adapter import oci  # noqa: PLC0415 - only for plugins that get more than the original gave

        return gojson.dumps(oci.spec_from(self._request.pod, self._request.container))

    def _encode(self) -> bytes:
        """Returns the members of a request that the original had not, as JSON, with a comma before each."""
        from adapter.nri import protojson  # noqa: PLC0415 - likewise

        members: dict[str, Any] = {"event": self._event}
        for field, message in self._request.ListFields():
            if field.name in ("pod", "container"):
                members[field.name] = protojson.to_dict(message)
        return b"," + gojson.dumps(members | self._more())[1:-1]

    def _more(self) -> dict[str, Any]:
        return {}

    def _wanted(self, updates: Any) -> Iterator[api.ContainerUpdate]:
        """Yields updates that a plugin asks for. Raises NotAdjustable."""
        if not isinstance(updates, list):
            raise NotAdjustable("updates", f"must be an array, not {_kind(updates)}")
        for index, update in enumerate(updates):
            yield self._update(f"updates[{index}]", update)

    def _update(self, place: str, update: Any) -> api.ContainerUpdate:
        if not isinstance(update, dict) or not isinstance(update.get("id"), str):
            raise NotAdjustable(place, "must be an object with the `id` of a container, and `resources`")
        unknown = update.keys() - {"id", "resources"}
        if unknown:
            raise NotAdjustable(f"{place}.{min(unknown)}", "unknown; an update has `id` and `resources`")
        id_ = update["id"]
        if self._event in ("CreateContainer", "UpdateContainer") and id_ == self._subject.id:
            raise NotAdjustable(f"{place}.id", f"{id_} is what the event is about: what it is to be goes into `spec`")
        if id_ not in self._updates.known:
            raise NotAdjustable(f"{place}.id", f"there is no container {id_!r}")
        return container_update(id_, {}, update.get("resources"), place)


def container_update(id_: str, before: Any, after: Any, place: str) -> api.ContainerUpdate:
    """Returns what changes a container's resources, from what they are, to what they shall be. Raises NotAdjustable.

    Nobody fails over an update that fails: the container may be gone by then.
    """
    from adapter import oci  # noqa: PLC0415 - only where plugins want something

    if not isinstance(after, dict):
        raise NotAdjustable(f"{place}.resources", f"must be an object, not {_kind(after)}")
    try:
        resources = oci.resources_to(before, after)
    except NotAdjustable as error:
        raise NotAdjustable(f"{place}.{error.place.removeprefix('linux.')}", error.reason) from None
    return api.ContainerUpdate(
        container_id=id_, linux=api.LinuxContainerUpdate(resources=resources), ignore_failure=True
    )


def plain(place: str, value: Any) -> Any:
    """Returns a wish as Python's own types. Raises NotAdjustable, at `place`, for one that is too deep."""
    try:
        return gojson.plain(value)
    except ValueError as error:
        raise NotAdjustable(place, str(error)) from None


def refuse(result: Result, reason: str) -> None:
    """Refuses wishes for the container itself, if there are any."""
    for name, wish in (("spec", result.spec), ("adjust", result.adjust)):
        if wish:
            raise NotAdjustable(name, reason)


def _kind(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "a number"
    return "an object" if isinstance(value, dict) else gojson.kind(value)
