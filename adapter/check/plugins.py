"""The legacy plugins: conf.json, and the programs that it names."""

from __future__ import annotations

from collections.abc import Iterator

from adapter import gojson
from adapter.check import faults, program
from adapter.check.faults import Fault
from adapter.check.report import NOTE, OK, PROBLEM, Entry
from adapter.errors import ConfigError, PluginError
from adapter.legacy import config
from adapter.legacy.config import Config
from adapter.legacy.runner import Runner
from adapter.loop import Loop
from adapter.settings import LegacySettings


def read(own: LegacySettings) -> tuple[Config, list[Entry]]:
    """Returns the legacy plugins that are configured, and what there is to say about the file."""
    file = own.config
    try:
        text, _ = config.read(file)
    except FileNotFoundError:
        return Config(), [Entry(OK, "not there: no legacy plugins", file)]
    except OSError as error:
        return Config(), [Entry(PROBLEM, error.strerror or str(error), file)]
    except ConfigError as error:
        return Config(), [Entry(PROBLEM, error.reason, file)]
    try:
        _, end = gojson.value(text)
    except gojson.JSONError as error:
        reason = error.reason if text.strip() else "the file is empty"
        return Config(), [Entry(PROBLEM, reason, file, error.line, error.column)]
    found = faults.find(text[:end], faults.CONF)
    entries = [_located(fault, file) for fault in found]
    if text[end:].strip(b" \t\r\n"):
        entries.append(Entry(NOTE, "what stands behind the first JSON value is ignored", file))
    try:
        conf = config.parse(text, file)
    except ConfigError as error:
        if not found:
            entries.append(Entry(PROBLEM, error.reason, error.place))
        return Config(), [*entries, Entry(PROBLEM, "no plugin of it is run", file)]
    count = len(conf.entries)
    return conf, [*entries, Entry(OK, f"{count} plugin{'' if count == 1 else 's'}", file)]


def _when(own: LegacySettings, type_: str) -> str:
    """Returns the events of a plugin that has not the usual ones."""
    events = own.plugins[type_].events if type_ in own.plugins else None
    return "" if events is None else f" at {', '.join(sorted(events)) or 'no event'}"


def _located(fault: Fault, file: str) -> Entry:
    return Entry(NOTE if fault.tolerated else PROBLEM, fault.message, file, fault.line, fault.column)


def programs(own: LegacySettings, conf: Config) -> Iterator[Entry]:
    """Yields, for each plugin, whether its program can be started, and settings for plugins that there are not."""
    runner = Runner(Loop(), own.path, own.environment)
    for type_ in dict.fromkeys(entry.type for entry in conf.entries):
        try:
            path = runner.find(type_)
        except PluginError as error:
            yield Entry(PROBLEM, f"{type_}: {error.reason}")
            continue
        fault = program.fault(path)
        if fault:
            yield Entry(PROBLEM, f"{type_}: {path} {fault}")
        else:
            yield Entry(OK, f"{type_}: runs {path}{_when(own, type_)}")
    for type_ in own.plugins:
        if type_ not in {entry.type for entry in conf.entries}:
            yield Entry(NOTE, f"{type_}: has settings, but does not stand in {own.config}")
