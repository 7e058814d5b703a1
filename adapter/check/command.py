"""The command `check`: goes through the parts of the configuration and reports."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence

from adapter import settings
from adapter.check import configuration, hook_files, plugins, report, runtimes, writers
from adapter.check.report import Report

FINE, FINDINGS = 0, 1


def main(words: Sequence[str]) -> int:
    """Runs `check` with these arguments; returns the exit code. Raises ConfigError."""
    options = _options(words)
    logging.getLogger("adapter").addHandler(logging.NullHandler())  # problems are in the report
    found = _check(options.config)
    write = report.write_json if options.output == "json" else report.write_text
    write(found)
    return FINDINGS if report.problems(found) else FINE


def _check(file: str) -> Report:
    """Returns the entries on everything that is configured in a file, or where the adapter looks by default."""
    config, entries = configuration.read(file)
    conf_json, of_plugins = plugins.read(config.legacy)
    hooks = hook_files.HookFiles(config.hooks, config.host_root)
    report = {
        "configuration": [*entries, *configuration.launch(config.host_root)],
        "legacy plugins": [*of_plugins, *plugins.programs(config.legacy, conf_json)],
        "hooks": list(hooks.entries()),
        "trust": list(writers.check(config, conf_json, hooks)),
        "runtime": list(runtimes.check(config, conf_json, hooks=bool(hooks.in_force))),
    }
    return {part: entries for part, entries in report.items() if entries}


def _options(words: Sequence[str]) -> argparse.Namespace:
    text = "Shows everything that is configured, and whether it would work."
    parser = argparse.ArgumentParser(prog="v010-adapter check", description=text, allow_abbrev=False)
    option = parser.add_argument
    option("-config", "--config", metavar="FILE", default="", help=f"configuration ({settings.DEFAULT_PATH})")
    option("-o", dest="output", choices=("text", "json"), default="text", help="format of the output (text)")
    return parser.parse_args(words)
