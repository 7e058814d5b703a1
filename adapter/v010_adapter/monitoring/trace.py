"""The runtime's span of an event: what programs that are started for the event get, and its log lines have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nri import Context


class Trace(NamedTuple):
    """The trace context of an event, as the runtime has sent it; empty if the runtime does not trace the event."""

    parent: str = ""
    """As W3C Trace Context writes it."""
    id: str = ""
    """The trace in it."""

    @property
    def extra(self) -> dict[str, str] | None:
        """The `extra` of a log line of the event."""
        return {"trace_id": self.id} if self.id else None


UNTRACED = Trace()


def trace_of(context: Context) -> Trace:
    """Returns the span that the runtime has sent with an event."""
    parent = context.traceparent
    return Trace(parent, context.trace_id) if parent else UNTRACED
