"""Warns of users who can write to the configured files. The other parts report world-writable files, as unused."""

from __future__ import annotations

from collections.abc import Iterator

from adapter.cli.check.hook_files import HookFiles
from adapter.cli.check.report import NOTE, Item
from adapter.errors import PluginError
from adapter.host.mount_namespace import programs_namespace
from adapter.host.trust import interpreters, judge, off
from adapter.legacy.config import Config
from adapter.programs.find import Programs
from adapter.settings import Settings


def check(config: Settings, conf_json: Config, hooks: HookFiles) -> Iterator[Item]:
    """Yields the warnings about each file and the directories above it, without duplicates."""
    if config.legacy.trust is off:
        yield Item(NOTE, "off: files and programs are used even if others can write to them")
        return
    warnings = dict.fromkeys(
        warning for path, root in _paths(config, conf_json, hooks) for warning in judge(path, root).warnings
    )
    yield from (Item(NOTE, warning) for warning in warnings)


def _paths(config: Settings, conf_json: Config, hooks: HookFiles) -> Iterator[tuple[str, str]]:
    """Yields the configured files and programs, each with its root directory."""
    if config.file:
        yield config.file, "/"
    if config.legacy.config:
        yield config.legacy.config, "/"
    finder = Programs(config.legacy.path, config.legacy.environment, off)
    for entry in conf_json.entries:
        try:
            path, root = finder.find(entry.type), config.host_root if programs_namespace.is_foreign else "/"
        except PluginError:
            continue
        yield path, root
        yield from ((file, root) for file in interpreters(path, finder.path, root))
    yield from hooks.paths()
