"""The legacy plugins of a node: conf.json, their programs, which of them run when, and what builds their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adapter.errors import ConfigError
from adapter.legacy.answer import AnswerBuilder
from adapter.legacy.config import ConfigFile, Entry
from adapter.legacy.pending_updates import PendingUpdates
from adapter.legacy.plan import Plans
from adapter.legacy.request import Target
from adapter.nri.runtimes import Runtime
from adapter.programs.find import Programs
from adapter.programs.runner import Runner
from adapter.settings import LegacySettings


class Plugins:
    """What the jobs of a node have in common."""

    def __init__(self, runner: Runner, updates: PendingUpdates, settings: LegacySettings) -> None:
        """Takes the runner of programs, the updates that wait for the runtime, and the settings."""
        self.settings = settings
        self.runner = runner
        self.updates = updates
        self.conf_json = ConfigFile(settings.config, trust=settings.trust)
        self.programs = Programs(settings.path, settings.environment, settings.trust)
        self.warned: set[tuple[str, str]] = set()
        """The plugins, each with what the log has a warning of."""
        self.set_runtime(Runtime())

    def set_runtime(self, runtime: Runtime) -> None:
        """Learns which runtime this is."""
        self.runtime = runtime
        self.plans = Plans(self.settings, end_is_told=not runtime.habits.no_ends)

    def entries(self) -> Sequence[Entry] | None:
        """Looks at conf.json, as at every event at which a plugin may run; None if no version of it can be used."""
        try:
            return self.conf_json.current().entries
        except ConfigError:
            return None  # it has been logged, and `conf_json.error` has it

    def answer_builder(self, event: str, message: Any, target: Target) -> AnswerBuilder:
        """Returns what builds the answer to an event; `message` is NRI's request, None if no event asks for the job."""
        if event == "CreateContainer":
            from adapter.legacy.create_answer import CreateAnswerBuilder  # noqa: PLC0415 - only where plugins may change something

            prefix = self.settings.metadata_prefix
            return CreateAnswerBuilder(event, message, target, self.updates, self.runtime, prefix)
        if event == "UpdateContainer":
            from adapter.legacy.update_answer import UpdateAnswerBuilder  # noqa: PLC0415 - only where plugins may change something

            return UpdateAnswerBuilder(event, message, target, self.updates)
        return AnswerBuilder(event, message, target, self.updates)
