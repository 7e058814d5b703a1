"""Decides which plugins run at which event, under which policy, and which get a delete after their create."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from adapter.legacy.config import Entry
from adapter.programs.chain import Policy
from adapter.settings import LegacySettings, PluginSettings

CREATE, UPDATE, DELETE = "create", "update", "delete"
"""The values of `state` in requests."""

ORIGINAL = frozenset(("RunPodSandbox", "StartContainer", "StopContainer", "StopPodSandbox"))
"""The events of the original client. Requests of other events have more keys."""

REMOVALS = frozenset(("RemoveContainer", "RemovePodSandbox"))

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
"""The events that plugins can run at, with the `state` of their requests."""

_POD_CREATE = frozenset(("RunPodSandbox",))
_CONTAINER_CREATES = frozenset(event for event, state in STATES.items() if state == CREATE) - _POD_CREATE


class Subscriptions:
    """The events of each plugin: its configured list, or the original client's events."""

    def __init__(self, plugins: Mapping[str, PluginSettings], *, end_is_told: bool = True) -> None:
        self._events = {type_: plugin.events for type_, plugin in plugins.items() if plugin.events is not None}
        self.end_is_told = end_is_told
        """Whether the runtime tells the end of what it creates; else no delete would ever be due."""

    def has_list(self, type_: str) -> bool:
        """Whether a plugin has a configured list of events."""
        return type_ in self._events

    def may_be_at(self, event: str) -> bool:
        """Whether any plugin can run at an event."""
        return event in ORIGINAL or any(event in events for events in self._events.values())

    def at(self, event: str, entries: Iterable[Entry]) -> list[Entry]:
        """Returns the plugins that run at an event, in order."""
        return [entry for entry in entries if event in self._events.get(entry.type, ORIGINAL)]

    def runs_without_create(self, event: str, entry: Entry, *, is_sandbox: bool) -> bool:
        """Whether a plugin runs at a delete event without an earlier create: its configured list has the event.

        At the original's events this is so only if the list has no create event.
        """
        if event not in self._events.get(entry.type, ()):
            return False
        return event not in ORIGINAL or not self.owes_delete(entry, is_sandbox=is_sandbox)

    def owes_delete(self, entry: Entry, *, is_sandbox: bool) -> bool:
        """Whether each create of the plugin is followed by exactly one delete, and no delete comes without a create."""
        if not self.end_is_told:
            return False
        events = self._events.get(entry.type, ORIGINAL)
        if is_sandbox:
            return "StopPodSandbox" in events and not events.isdisjoint(_POD_CREATE)
        return "StopContainer" in events and not events.isdisjoint(_CONTAINER_CREATES)


def policy_of(settings: LegacySettings, type_: str, *, is_delete: bool) -> Policy:
    """Returns the policy for a plugin's creates or deletes."""
    names = "fail_delete" if is_delete else "fail_create", "timeout", "kill_on_timeout"
    return Policy(*(settings.of(type_, name) for name in names))
