"""Makes the jobs of events: with the plugins of conf.json as it is now, and with what builds each answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adapter.errors import ConfigError
from adapter.legacy.answer import AnswerBuilder
from adapter.legacy.config import Config, ConfigFile, Entry
from adapter.legacy.job import Observer, PluginJob, Services
from adapter.legacy.pending_updates import PendingUpdates
from adapter.legacy.plan import Plans, PluginStep
from adapter.legacy.request import Target
from adapter.nri.runtimes import Runtime
from adapter.programs.find import Programs
from adapter.programs.runner import Runner
from adapter.settings import LegacySettings


class Jobs:
    """What the jobs of a node have in common."""

    def __init__(self, runner: Runner, updates: PendingUpdates, settings: LegacySettings) -> None:
        """Takes the runner of programs, the updates that wait for the runtime, and the settings."""
        self.conf_json = ConfigFile(settings.config, trust=settings.trust)
        self.programs = Programs(settings.path, settings.environment, settings.trust)
        self.runtime = Runtime()
        self.plans = Plans(settings)
        self._settings = settings
        self._updates = updates
        self._services = Services(runner, self.programs, settings.late_limit, set())

    def set_runtime(self, runtime: Runtime) -> None:
        """Learns which runtime this is."""
        self.runtime = runtime
        self.plans = Plans(self._settings, end_is_told=not runtime.habits.no_ends)

    def config(self) -> Config | None:
        """Looks at conf.json, as at every event at which a plugin may run; None if no version of it can be used."""
        try:
            return self.conf_json.current()
        except ConfigError:
            return None  # it has been logged, and `conf_json.error` has it

    def make(
        self,
        observer: Observer,
        event: str,
        target: Target,
        steps: Sequence[PluginStep] | None,
        *,
        message: Any = None,
        entries: Sequence[Entry] = (),
        is_awaited: bool = True,
    ) -> PluginJob:
        """Returns the job of an event. `message` is NRI's request, None if no event asks for the job.

        For the other parameters see PluginJob.
        """
        builder = self._builder(event, message, target)
        return PluginJob(
            self._services, observer, event, target, builder, steps, entries=entries, is_awaited=is_awaited
        )

    def _builder(self, event: str, message: Any, target: Target) -> AnswerBuilder:
        if event == "CreateContainer":
            from adapter.legacy.create_answer import CreateAnswerBuilder  # noqa: PLC0415 - only where plugins may change something

            prefix = self._settings.metadata_prefix
            return CreateAnswerBuilder(event, message, target, self._updates, self.runtime, prefix)
        if event == "UpdateContainer":
            from adapter.legacy.update_answer import UpdateAnswerBuilder  # noqa: PLC0415 - only where plugins may change something

            return UpdateAnswerBuilder(event, message, target, self._updates)
        return AnswerBuilder(event, message, target, self._updates)
