"""Whether an adapter can run the plugins of conf.json at all: one that cannot leaves the work to another adapter."""

from __future__ import annotations

from v010_adapter.errors import ConfigError, PluginError
from v010_adapter.legacy.config import ConfigFile
from v010_adapter.programs.find import Programs
from v010_adapter.settings import LegacySettings


def unfit(settings: LegacySettings) -> str:
    """Returns why creates would fail here whatever their pods are; empty if they would not."""
    programs = Programs(settings.path, settings.environment, settings.trust)
    try:
        entries = ConfigFile(settings.config, trust=settings.trust).current().entries
    except ConfigError as error:
        return str(error) if settings.fail_create else ""
    for entry in entries:
        if settings.of(entry.type, "fail_create"):
            try:
                programs.program(entry.type)
            except PluginError as error:
                return str(error)
    return ""
