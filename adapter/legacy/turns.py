"""Which plugin has its turn at which event, and which of them is owed a delete. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from adapter.legacy.chain import CREATE, DELETE, UPDATE
from adapter.legacy.config import Entry
from adapter.settings import PluginSettings

ORIGINAL = frozenset(("RunPodSandbox", "StartContainer", "StopContainer", "StopPodSandbox"))
"""The events that the original client had; at these the request is its own, and at the others it has more."""

STATES: Mapping[str, str] = MappingProxyType(
    {
        "RunPodSandbox": CREATE,
        "CreateContainer": CREATE,
        "PostCreateContainer": CREATE,
        "StartContainer": CREATE,
        "PostStartContainer": CREATE,
        "UpdatePodSandbox": UPDATE,
        "PostUpdatePodSandbox": UPDATE,
        "UpdateContainer": UPDATE,
        "PostUpdateContainer": UPDATE,
        "StopContainer": DELETE,
        "RemoveContainer": DELETE,
        "StopPodSandbox": DELETE,
        "RemovePodSandbox": DELETE,
    }
)
"""The events that plugins can be run for, with the state that the request gives."""

_POD_CREATE = frozenset(("RunPodSandbox",))
_CONTAINER_CREATES = frozenset(event for event, state in STATES.items() if state == CREATE) - _POD_CREATE


class Turns:
    """Who is run when: the original's events for every plugin, its own list for one that has been given a list."""

    def __init__(self, plugins: Mapping[str, PluginSettings]) -> None:
        """Takes what is configured for plugins, by type."""
        self._events = {type_: own.events for type_, own in plugins.items() if own.events is not None}

    @property
    def are_given(self) -> bool:
        """Whether some plugin has a list of its own."""
        return bool(self._events)

    def may_be_at(self, event: str) -> bool:
        """Whether there can be plugins that have a turn at an event."""
        return event in ORIGINAL or any(event in events for events in self._events.values())

    def at(self, event: str, entries: Iterable[Entry]) -> list[Entry]:
        """Returns the plugins that have a turn at an event, in order."""
        return [entry for entry in entries if event in self._events.get(entry.type, ORIGINAL)]

    def owes_delete(self, entry: Entry, *, is_sandbox: bool) -> bool:
        """Whether a create of the plugin is to be followed by exactly one delete, and no delete comes without one."""
        events = self._events.get(entry.type, ORIGINAL)
        if is_sandbox:
            return "StopPodSandbox" in events and not events.isdisjoint(_POD_CREATE)
        return "StopContainer" in events and not events.isdisjoint(_CONTAINER_CREATES)
