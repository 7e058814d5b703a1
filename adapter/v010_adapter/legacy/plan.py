"""Which plugins run at an event, in which order and under which policy, and which get a delete for a create. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from v010_adapter.errors import PluginError
from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.request import Target
from v010_adapter.programs.step import Policy
from v010_adapter.settings import LegacySettings

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

_CONTAINER_CREATES = frozenset(event for event, state in STATES.items() if state == CREATE) - {"RunPodSandbox"}


class PluginStep(NamedTuple):
    """One plugin of an event.

    `is_extended` is whether its request has more than the original's. `owes_delete` is whether a delete follows on its
    create. `may_adjust` is whether the plugin has a list of events, and so may ask for adjustments.
    """

    entry: Entry
    policy: Policy = Policy()
    is_extended: bool = False
    owes_delete: bool = True
    may_adjust: bool = False

    @property
    def name(self) -> str:
        """The plugin's type."""
        return self.entry.type

    @property
    def limit(self) -> str:
        """The setting of the plugin's time."""
        return f"legacy.plugins.{self.entry.type}.timeout"

    def error(self, reason: str) -> PluginError:
        """Returns the plugin's failure."""
        return PluginError(self.entry.type, reason)


class Plans:
    """The plugins of events, by the settings and the runtime. The steps for a conf.json are made once.

    Each plugin has its configured list of events, or the original client's events.
    """

    def __init__(self, settings: LegacySettings, *, reports_ends: bool) -> None:
        self.reports_ends = reports_ends
        """Whether the runtime reports the end of what it creates; else no delete would ever be due."""
        self._settings = settings
        self._events = {type_: own.events for type_, own in settings.plugins.items() if own.events is not None}
        self.at = ORIGINAL.union(*self._events.values())
        """The events at which any plugin can run."""
        self.runs_at_removals = not REMOVALS.isdisjoint(self.at)
        """Whether a plugin may run after the delete, and need what the create knew."""
        self._entries: Sequence[Entry] = ()
        self._made: dict[tuple[str, bool], list[PluginStep]] = {}
        """The steps of creates and updates for `_entries`: by event, and whether its target is exempt."""

    def is_at(self, event: str, entry: Entry) -> bool:
        """Whether a plugin runs at an event."""
        return event in self._events.get(entry.type, ORIGINAL)

    def is_exempt(self, target: Target) -> bool:
        """Whether no failure refuses the pod or container."""
        return target.namespace in self._settings.exempt

    def owes_delete(self, entry: Entry, *, is_sandbox: bool) -> bool:
        """Whether each create of the plugin is followed by exactly one delete, and no delete comes without a create."""
        if not self.reports_ends:
            return False
        events = self._events.get(entry.type, ORIGINAL)
        if is_sandbox:
            return "StopPodSandbox" in events and "RunPodSandbox" in events
        return "StopContainer" in events and not events.isdisjoint(_CONTAINER_CREATES)

    def _runs_without_create(self, event: str, entry: Entry, *, is_sandbox: bool) -> bool:
        """Whether a plugin runs at a delete event without an earlier create.

        That is so if its configured list has the event; at the original's events, only if the list has no create event.
        """
        if event not in self._events.get(entry.type, ()):
            return False
        return event not in ORIGINAL or not self.owes_delete(entry, is_sandbox=is_sandbox)

    def is_for_owed_only(self, event: str, entries: Iterable[Entry], *, is_sandbox: bool) -> bool:
        """Whether an event of a delete runs only plugins that are owed a delete."""
        return not any(self._runs_without_create(event, entry, is_sandbox=is_sandbox) for entry in entries)

    def of_create(self, event: str, entries: Sequence[Entry], target: Target) -> list[PluginStep]:
        """Returns the plugins of an event that is no delete, of the entries of conf.json, in their order."""
        if entries is not self._entries:
            self._entries, self._made = entries, {}
        of = event, self.is_exempt(target)
        steps = self._made.get(of)
        if steps is None:
            steps = self._made[of] = [self._step(event, entry, target) for entry in entries if self.is_at(event, entry)]
        return steps

    def of_delete(
        self, event: str, owed: Sequence[Entry], entries: Sequence[Entry], target: Target
    ) -> list[PluginStep]:
        """Returns the plugins of a delete: first those that conf.json no longer names, then the others in its order.

        `owed` are the plugins that are owed a delete: each gets it once, as configured at its create. `entries` are
        those of conf.json.
        """
        by_key = {entry.key: entry for entry in owed}
        named = {entry.key for entry in entries}
        gone = [entry for key, entry in by_key.items() if key not in named]
        there = [
            by_key.get(entry.key, entry)
            for entry in entries
            if entry.key in by_key or self._runs_without_create(event, entry, is_sandbox=target.is_sandbox)
        ]
        return [self._step(event, entry, target, is_owed=entry.key in by_key) for entry in (*gone, *there)]

    def _step(self, event: str, entry: Entry, target: Target, *, is_owed: bool = False) -> PluginStep:
        fail = self._settings.of(entry.type, "fail_delete" if STATES[event] == DELETE else "fail_create")
        timeout, kill = (self._settings.of(entry.type, name) for name in ("timeout", "kill_on_timeout"))
        return PluginStep(
            entry,
            Policy(fail and not self.is_exempt(target), timeout, kill),
            is_extended=event not in ORIGINAL and not is_owed,
            owes_delete=self.owes_delete(entry, is_sandbox=target.is_sandbox),
            may_adjust=entry.type in self._events,
        )
