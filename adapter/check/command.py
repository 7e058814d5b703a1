"""The command: looks at one part of the configuration after the other, and reports."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Sequence

from adapter import settings
from adapter.check import configuration, hook_files, plugins, report, runtimes
from adapter.check.report import Entry, Findings
from adapter.errors import ConfigError

FINE, FINDINGS, USAGE = 0, 1, 2


def main(words: Sequence[str]) -> int:
    """Runs `check` with these arguments; returns the exit code."""
    options = _options(words)
    logging.getLogger("adapter").addHandler(logging.NullHandler())  # what is found is shown, not logged
    try:
        findings = check(options.config)
    except ConfigError as error:
        print(f"v010-adapter: {error}", file=sys.stderr)
        return USAGE
    write = report.write_json if options.output == "json" else report.write_text
    write(findings, sys.stdout)
    return FINDINGS if report.problems(findings) else FINE


def check(config: str = "") -> Findings:
    """Returns what there is to say about everything that is configured, in a file or where the adapter looks."""
    own, entries = configuration.read(config)
    findings = _of("configuration", [*entries, *configuration.launch(own.host_root)])
    conf, entries = plugins.read(own.legacy)
    findings += _of("legacy plugins", [*entries, *plugins.programs(own.legacy, conf)])
    hooks = hook_files.HookFiles(own.hooks, own.host_root)
    findings += _of("hooks", hooks.entries())
    return findings + _of("runtime", runtimes.check(own, conf, hooks=bool(hooks.in_force)))


def _of(part: str, entries: Iterable[Entry]) -> Findings:
    return [(part, entry) for entry in entries]


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="v010-adapter check",
        description="Shows everything that is configured, and whether it would work.",
        allow_abbrev=False,
    )
    option = parser.add_argument
    option("-config", "--config", metavar="FILE", default="", help=f"configuration ({settings.DEFAULT_PATH})")
    option("-o", dest="output", choices=("text", "json"), default="text", help="how to show it (text)")
    return parser.parse_args(words)
