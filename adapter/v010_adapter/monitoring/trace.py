"""What the log lines of an event have in common: the runtime's trace, and the names of the pod and the container.

This is the only place that names these fields. Programs that are started for the event get the span, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nri.text import subject

if TYPE_CHECKING:
    from nri import Context, api


class Named(NamedTuple):
    """A pod, which NRI calls a sandbox, or a container of one. Names that the runtime has not told are empty."""

    kind: str
    id: str
    namespace: str = ""
    pod: str = ""
    container: str = ""

    def __str__(self) -> str:
        """Returns the subject of a log line: `container NAMESPACE/POD/NAME (ID)`."""
        return subject(self.kind, self.id, self.namespace, self.pod, self.container)

    @property
    def fields(self) -> dict[str, str]:
        """The members of a log line in JSON: what is known of `namespace`, `pod`, `container` and `id`."""
        known = {"namespace": self.namespace, "pod": self.pod, "container": self.container, "id": self.id}
        return {name: value for name, value in known.items() if value}

    @property
    def extra(self) -> dict[str, Any]:
        """The `extra` of a log line that belongs to no event."""
        return {"fields": self.fields}


class Trace(NamedTuple):
    """The trace context of an event, as the runtime has sent it; empty if the runtime does not trace the event."""

    parent: str = ""
    """As W3C Trace Context writes it."""
    id: str = ""
    """The trace in it."""
    about: Named | None = None
    """The pod or container of the event, None if it is not known."""

    @property
    def extra(self) -> dict[str, Any] | None:
        """The `extra` of a log line of the event."""
        return self.extra_with() or None

    def extra_with(self, **fields: Any) -> dict[str, Any]:
        """Returns the `extra` of a log line of the event with more members in JSON."""
        members = {**(self.about.fields if self.about is not None else {}), **fields}
        traced: dict[str, Any] = {"trace_id": self.id} if self.id else {}
        return {**traced, "fields": members} if members else traced

    def title(self, program: str) -> str:
        """Returns the beginning of a log line about a run of a program."""
        return program if self.about is None else f"{program}: {self.about}"


UNTRACED = Trace()


def trace_of(context: Context, about: Named | None = None) -> Trace:
    """Returns the span that the runtime has sent with an event, and whose event it is."""
    parent = context.traceparent
    return Trace(parent, context.trace_id, about) if parent else Trace(about=about)


def created(request: api.CreateContainerRequest) -> Named:
    """Returns the names of a container that is being created."""
    container, pod = request.container, request.pod
    return Named("container", container.id, pod.namespace, pod.name, container.name)
