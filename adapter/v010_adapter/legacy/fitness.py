"""Whether an adapter can run the plugins of conf.json at all: one that cannot leaves the work to another adapter."""

from __future__ import annotations

from collections.abc import Sequence

from v010_adapter.errors import ConfigError, PluginError, reason_of
from v010_adapter.host import paths
from v010_adapter.legacy.config import MAX_SIZE, Entry, parse
from v010_adapter.legacy.find import Programs
from v010_adapter.settings import LegacySettings


def unfit(settings: LegacySettings) -> str:
    """Returns why creates would fail here whatever their pods are; empty if they would not."""
    programs = Programs(settings.path, settings.environment, settings.trust)
    try:
        entries = _entries(settings)
    except ConfigError as error:
        return str(error) if settings.fail_create else ""
    for entry in entries:
        if settings.of(entry.type, "fail_create"):
            try:
                programs.program(entry.type)
            except PluginError as error:
                return str(error)
    return ""


def _entries(settings: LegacySettings) -> Sequence[Entry]:
    """Returns the list as it is now. Logs nothing, unlike a `ConfigFile`: an adapter that waits asks twice a second."""
    path = settings.config
    if not path:
        raise ConfigError("legacy.config", "has an error: the list of legacy plugins is unknown")
    try:
        text, _ = paths.read(path, MAX_SIZE)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise ConfigError(path, reason_of(error)) from None
    if reason := settings.trust(path, "/"):
        raise ConfigError(path, reason)
    return parse(text, path).entries
