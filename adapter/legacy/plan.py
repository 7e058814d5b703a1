"""Which plugins run at an event, in which order, and under which policy. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

from adapter.errors import PluginError
from adapter.legacy.config import Config, Entry
from adapter.legacy.request import Target
from adapter.legacy.subscriptions import DELETE, ORIGINAL, REMOVALS, STATES, Subscriptions, policy_of
from adapter.programs.chain import Policy
from adapter.settings import LegacySettings


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
    """The plugins of events, as the settings and the runtime have them. The steps of a conf.json are made once."""

    def __init__(self, settings: LegacySettings, *, end_is_told: bool = True) -> None:
        """Takes the settings, and whether the runtime tells the end of what it creates."""
        self.subscriptions = Subscriptions(settings.plugins, end_is_told=end_is_told)
        self.runs_at_removals = any(map(self.subscriptions.may_be_at, REMOVALS))
        """Whether what a create knew may be wanted after the delete."""
        self._policy = cache(partial(policy_of, settings))
        self._exempt = settings.exempt
        self._config: Config | None = None
        self._made: dict[tuple[str, bool, bool], list[PluginStep]] = {}
        """The steps of creates and updates for `_config`: by event, whether it is of a pod, whether it is exempt."""

    def is_exempt(self, target: Target) -> bool:
        """Whether no failure refuses the pod or container."""
        return target.namespace in self._exempt

    def of_create(self, event: str, config: Config, target: Target) -> list[PluginStep]:
        """Returns the plugins of an event that is no delete, in the order of conf.json."""
        if config is not self._config:
            self._config, self._made = config, {}
        of = event, target.is_sandbox, self.is_exempt(target)
        steps = self._made.get(of)
        if steps is None:
            entries = self.subscriptions.at(event, config.entries)
            steps = self._made[of] = [self._step(event, entry, target) for entry in entries]
        return steps

    def of_delete(
        self, event: str, owed: Sequence[Entry], entries: Sequence[Entry], target: Target
    ) -> list[PluginStep]:
        """Returns the plugins of a delete in the order of conf.json, before them those that it names no longer.

        `owed` are the plugins that are owed a delete: each gets it once, as configured at its create. `entries` are
        those of conf.json.
        """
        by_key = {entry.key: entry for entry in owed}
        named = {entry.key for entry in entries}
        gone = [entry for key, entry in by_key.items() if key not in named]
        there = [
            by_key.get(entry.key, entry)
            for entry in entries
            if entry.key in by_key or self.subscriptions.runs_without_create(event, entry, is_sandbox=target.is_sandbox)
        ]
        return [self._step(event, entry, target, is_owed=entry.key in by_key) for entry in (*gone, *there)]

    def is_for_owed_only(self, event: str, entries: Sequence[Entry], *, is_sandbox: bool) -> bool:
        """Whether an event of a delete runs only plugins that are owed a delete."""
        return not any(self.subscriptions.runs_without_create(event, entry, is_sandbox=is_sandbox) for entry in entries)

    def _step(self, event: str, entry: Entry, target: Target, *, is_owed: bool = False) -> PluginStep:
        policy = self._policy(entry.type, is_delete=STATES[event] == DELETE)
        return PluginStep(
            entry,
            policy._replace(fail=policy.fail and not self.is_exempt(target)),
            is_extended=event not in ORIGINAL and not is_owed,
            owes_delete=self.subscriptions.owes_delete(entry, is_sandbox=target.is_sandbox),
            may_adjust=self.subscriptions.has_list(entry.type),
        )
