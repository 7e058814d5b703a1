"""The command `check`: checks each part of the configuration, and reports the results."""

from __future__ import annotations

import errno
import logging
import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress

from v010_adapter.cli import arguments, systems
from v010_adapter.cli.arguments import Parser
from v010_adapter.cli.check import configuration, plugins, probe, report, runtimes
from v010_adapter.cli.check.hook_files import HookFiles
from v010_adapter.cli.check.report import NOTE, PROBLEM, Item, Report
from v010_adapter.errors import ConfigError, PluginError
from v010_adapter.host import private_directory
from v010_adapter.host.mount_namespace import programs_namespace
from v010_adapter.host.paths import in_root
from v010_adapter.host.trust import interpreters, judge, off
from v010_adapter.legacy.config import Config
from v010_adapter.legacy.find import Programs
from v010_adapter.monitoring import status
from v010_adapter.settings import Settings, state_directory


def parser() -> Parser:
    examples = "v010-adapter check\nv010-adapter check -root /mnt/node    # the node whose files are there"
    text = "Checks the configuration, the legacy plugins, the hook files and the runtimes."
    made = Parser("check", text, examples=examples)
    text = "run this legacy plugin twice without a request, to test whether it may stand by"
    made.flag("probe", text, metavar="NAME")
    made.flag("yes", "do not ask before a plugin is run")
    text = "check the node whose files are below this directory, instead of the configuration's hostRoot"
    made.flag("root", text, metavar="DIR", default=None, type=os.path.abspath)
    return made.shared("config", "o output", "color")


def main(options: Namespace) -> int:
    logging.getLogger("v010_adapter").addHandler(logging.NullHandler())  # problems are in the report
    if options.probe and not options.yes:
        probe.confirm(options.probe)
    found = _check(options.config, options.probe, options.root)
    if options.output == "json":
        report.write_json(found)
    else:
        report.write_text(found, arguments.paint(options))
    return arguments.FINDINGS if report.problems(found) else arguments.FINE


def _check(file: str, probed: str, root: str | None) -> Report:
    """Returns the results for all that a configuration file names. `probed` is the plugin to run, empty for none.

    With `root`, this is the directory of another node's files.
    """
    config, entries = configuration.read(file, root or "/")
    config = _below(config, root) if root else config
    programs_namespace.use(config.mount_namespace)
    conf_json, of_plugins = plugins.read(config.legacy, config.host_root)
    hooks = HookFiles(config.hooks, config.host_root, {one.runtime for one in systems.present(config.host_root)})
    report = {
        "configuration": [
            *entries,
            *configuration.launch(config.host_root),
            *([] if root else [*_state(config), *_running(config)]),
        ],
        "legacy plugins": [
            *of_plugins,
            *plugins.other_list(config.legacy, config.host_root),
            *plugins.programs(config.legacy, conf_json, probed),
        ],
        "hooks": list(hooks.entries()),
        "trust": list(_writers(config, conf_json, hooks)),
        "runtime": list(runtimes.check(config, conf_json, hooks=bool(hooks.in_force))),
    }
    if probed:
        report["stand-by"] = list(probe.check(config.legacy, probed))
    return report


def _state(config: Settings) -> Iterator[Item]:
    """Yields why the state directory of this node, if it is there, cannot be used."""
    directory = state_directory(config, arguments.PROGRAM)
    if not os.path.isdir(directory):
        return
    try:
        with private_directory.open_directory(directory, config.legacy.trust) as fd:
            if os.fstatvfs(fd).f_flag & os.ST_RDONLY:
                yield Item(PROBLEM, os.strerror(errno.EROFS), directory)
    except ConfigError as error:
        yield Item(PROBLEM, error.reason, directory)


def _running(config: Settings) -> Iterator[Item]:
    """Yields that nobody runs the adapter, which is installed; nothing if that cannot be known here."""
    if not (configuration.launched("/") or os.path.exists(configuration.UNIT)):
        return
    with suppress(OSError, ConfigError):
        if not any(status.ask(state_directory(config, arguments.PROGRAM), config.legacy.trust)):
            units = dict.fromkeys(filter(None, (systems.unit(one, "/") for one in systems.present("/"))))
            service = arguments.PROGRAM if os.path.exists(configuration.UNIT) else " or ".join(units)
            text = "the adapter is installed, and does not run"
            yield Item(NOTE, f"{text}: systemctl restart {service}" if service else text)


def _below(config: Settings, root: str) -> Settings:
    """Returns the settings of a node for a process that finds the node's files below `root`."""
    directories = tuple(in_root(root, directory) for directory in config.hooks.directories)
    return config._replace(
        host_root=root,
        socket=in_root(root, config.socket),
        legacy=config.legacy._replace(config=in_root(root, config.legacy.config)),
        hooks=config.hooks._replace(directories=directories),
    )


def _writers(config: Settings, conf_json: Config, hooks: HookFiles) -> Iterator[Item]:
    """Yields who can write to each file and the directories above it. Other parts report world-writable files."""
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
    yield state_directory(config, arguments.PROGRAM), "/"
    finder = Programs(config.legacy.path, config.legacy.environment, off)
    for entry in conf_json.entries:
        try:
            path, root = finder.program(entry.type).path, config.host_root if programs_namespace.is_foreign else "/"
        except PluginError:
            continue
        yield path, root
        yield from ((file, root) for file in interpreters(path, finder.path, root))
    yield from hooks.paths()
