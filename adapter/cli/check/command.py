"""The command `check`: checks each part of the configuration, and reports the results."""

from __future__ import annotations

import logging
from argparse import ArgumentParser
from collections.abc import Sequence

from adapter.cli import arguments
from adapter.cli.check import configuration, hook_files, plugins, probe, report, runtimes, writers
from adapter.cli.check.report import Report
from adapter.host.mount_namespace import programs_namespace


def parser() -> ArgumentParser:
    """Returns the parser of the command's arguments."""
    parser = arguments.parser("check", "Checks the configuration, the legacy plugins, the hook files and the runtimes.")
    option = parser.add_argument
    text = "run this legacy plugin twice without a request, to test whether it may stand by"
    option("-probe", "--probe", metavar="NAME", default="", help=text)
    option("-yes", "--yes", action="store_true", help="do not ask before a plugin is run")
    arguments.add_config(parser)
    arguments.add_output(parser)
    arguments.add_color(parser)
    return parser


def main(words: Sequence[str]) -> int:
    """Runs `check` with these arguments; returns the exit code. Raises ConfigError."""
    options = parser().parse_args(words)
    logging.getLogger("adapter").addHandler(logging.NullHandler())  # problems are in the report
    if options.probe and not options.yes:
        probe.confirm(options.probe)
    found = _check(options.config, options.probe)
    if options.output == "json":
        report.write_json(found)
    else:
        report.write_text(found, arguments.paint(options))
    return arguments.FINDINGS if report.problems(found) else arguments.FINE


def _check(file: str, probed: str) -> Report:
    """Returns the results for everything that a configuration file names, by default the adapter's usual file.

    `probed` is the plugin to run, empty for none.
    """
    config, entries = configuration.read(file)
    programs_namespace.use(config.mount_namespace)
    conf_json, of_plugins = plugins.read(config.legacy)
    hooks = hook_files.HookFiles(config.hooks, config.host_root, runtimes.present(config.host_root))
    report = {
        "configuration": [*entries, *configuration.launch(config.host_root)],
        "legacy plugins": [*of_plugins, *plugins.programs(config.legacy, conf_json)],
        "hooks": list(hooks.entries()),
        "trust": list(writers.check(config, conf_json, hooks)),
        "runtime": list(runtimes.check(config, conf_json, hooks=bool(hooks.in_force))),
    }
    if probed:
        report["stand-by"] = list(probe.check(config.legacy, probed))
    return report
