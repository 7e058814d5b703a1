"""Checks the legacy plugins: conf.json, and the programs that it names."""

from __future__ import annotations

import os
from collections.abc import Iterator

from v010_adapter.base import gojson
from v010_adapter.cli.arguments import PROGRAM, count
from v010_adapter.cli.check import configuration, faults, report
from v010_adapter.cli.check.report import NOTE, OK, PROBLEM, Item
from v010_adapter.errors import PluginError
from v010_adapter.host import paths
from v010_adapter.host.mount_namespace import programs_namespace
from v010_adapter.host.paths import in_root
from v010_adapter.legacy import config
from v010_adapter.legacy.config import Config
from v010_adapter.legacy.find import Programs
from v010_adapter.legacy.sandboxes import is_runtimes_own
from v010_adapter.settings import DEFAULT_CONF_JSON, LegacySettings


def read(settings: LegacySettings, host_root: str) -> tuple[Config, list[Item]]:
    """Returns the configured legacy plugins, and the results for conf.json, whose path may be unknown."""
    file = settings.config
    if not file:
        return Config(), [Item(NOTE, "not checked: legacy.config has an error")]
    found = config.read(file, settings.trust)
    unused = [report.problem(found.error), Item(NOTE, "none of its plugins runs", file)] if found.error else []
    if found.status is None:
        return Config(), unused or [configuration.missing(file, host_root, "legacy.config", "no legacy plugins")]
    try:
        _, end = gojson.value(found.text)
    except gojson.JSONError:
        return Config(), unused
    entries = faults.find(found.text[:end], file, faults.CONF)
    if found.text[end:].strip(b" \t\r\n"):
        entries.append(Item(NOTE, "the text after the first JSON value is ignored", file))
    if unused:
        is_found = any(entry.status == PROBLEM for entry in entries)
        return Config(), [*entries, *unused[is_found:]]
    return found.config, [*entries, Item(OK, count(len(found.config.entries), "plugin"), file)]


def other_list(settings: LegacySettings, host_root: str) -> Iterator[Item]:
    """Yields that there is another list than the configured one, where installers of plugins look for it."""
    file = in_root(host_root, DEFAULT_CONF_JSON)
    if settings.config and os.path.exists(file) and not is_runtimes_own(settings.config, host_root):
        text = "another list, whose plugins the adapter does not run; containerd 2.0 to 2.4 run them for pods"
        yield Item(NOTE, f"{text} (legacy.config is {settings.config})", file)


def programs(settings: LegacySettings, conf: Config, probed: str = "") -> Iterator[Item]:
    """Yields for each plugin whether its program can be started; and the settings for plugins that are not in the file.

    `probed` is the plugin that is probed in this run.
    """
    finder = Programs(settings.path, settings.environment, settings.trust)
    types = dict.fromkeys(entry.type for entry in conf.entries)
    for type_ in types:
        try:
            path = finder.program(type_).path
        except PluginError as error:
            yield Item(PROBLEM, f"{type_}: {error.reason}")
            continue
        fault = programs_namespace.call(paths.start_fault, path)
        if fault:
            yield Item(PROBLEM, f"{path} {fault}" if path == type_ else f"{type_}: {path} {fault}")
            continue
        yield from _running(settings, conf, type_, path)
        if settings.of(type_, "standby") and type_ != probed:
            yield Item(
                NOTE, f"{type_}: it stands by; not probed: `{PROGRAM} check -probe {type_}` tests whether it may"
            )
    for type_ in settings.plugins:
        if settings.config and type_ not in types:
            yield Item(NOTE, f"{type_}: has settings, but is not in {settings.config}")


def _running(settings: LegacySettings, conf: Config, type_: str, path: str) -> Iterator[Item]:
    """Yields which program is started for a plugin, and what may be a mistake."""
    bare = [place for place, entry in enumerate(conf.entries) if entry.type == type_ and entry.conf is None]
    has_conf = any(entry.type == type_ and entry.conf is not None for entry in conf.entries)
    events = getattr(settings.plugins.get(type_), "events", None)  # None: the usual four
    at = "" if events is None else f" at {', '.join(sorted(events)) or 'no event'}"
    running = f"{type_}: runs {path}{'' if has_conf else ' without conf'}{at}"
    if path in (type_, *(f"{directory}/{type_}" for directory in settings.path)):
        yield Item(OK, running)
    else:
        yield Item(NOTE, f"{running}, perhaps another program: there is no {type_} in {':'.join(settings.path)}")
    for place in bare if has_conf else ():
        yield Item(NOTE, f"{type_}: plugins[{place}] has no conf, another entry has one: it fails if it needs one")
