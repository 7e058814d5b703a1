"""The command `hooks`: its subcommands, and their arguments."""

from __future__ import annotations

import logging
import os
from argparse import Namespace

from v010_adapter import container_files, settings
from v010_adapter.cli.arguments import Parser
from v010_adapter.cli.hooks import listing, match
from v010_adapter.errors import ConfigError
from v010_adapter.hooks.directory import Directories
from v010_adapter.settings import Settings

UNUSABLE = 2
"""The exit code if there is no container to look at."""
OF_A_FILE = ("container", "pod", "name", "command")
"""The flags of a container in a file."""


EXAMPLES = """\
v010-adapter hooks list
v010-adapter hooks match 4f1c                      # a container of this node
v010-adapter hooks match -container pod.yaml -name nginx"""


def parser() -> Parser:
    made = Parser(
        "hooks",
        "match: shows which hooks a container gets, and why not the others. list: shows the hooks in force, in the "
        "order of their injection, with the number of containers that running adapters have given them to.",
        f"CONTAINER-ID is a container of this node, or the beginning of its id: crictl shows it. "
        f"{container_files.FORMS} Exit codes: 0 every hook is decided, 1 a hook file cannot be used, 2 unusable "
        f"arguments, {match.UNDECIDED} a hook is undecided.",
        examples=EXAMPLES,
    )
    made.usage = (
        "v010-adapter hooks match [-h] CONTAINER-ID [OPTION ...]\n"
        "       v010-adapter hooks match [-h] -container FILE [OPTION ...]\n"
        "       v010-adapter hooks list [-h] [OPTION ...]"
    )
    made.add_argument("what", choices=["match", "list"], metavar="match | list", help="what is shown")
    made.add_argument("id", nargs="?", default="", metavar="CONTAINER-ID", help="match: the container's id")
    made.flag("container", "match: the file with the container", metavar="FILE")
    made.shared("pod", "name", "command")
    text = "a directory of hook files; may be repeated, later ones override (those of the configuration)"
    made.flag("directory", text, metavar="DIR", action="append", default=[])
    return made.shared("config", "o output", "color")


def main(options: Namespace) -> int:
    _refuse_misfits(options)
    logging.getLogger("v010_adapter").addHandler(logging.NullHandler())  # problems are in the output
    config, errors = settings.read(options.config)
    if errors:
        raise errors[0]
    if options.what == "list":
        return listing.show_hooks(config, _directories(config, options.directory), options)
    described = match.described(options)
    if described is None:
        return UNUSABLE
    return match.show_match(config, _directories(config, options.directory), described, options)


def _refuse_misfits(options: Namespace) -> None:
    """Ends the process if arguments exclude each other."""
    given = [name for name in OF_A_FILE if getattr(options, name)]
    if options.what == "list" and (options.id or given):
        parser().error(f"list takes no {f'-{given[0]}' if given else 'CONTAINER-ID'}")
    if options.what == "match" and bool(options.id) == bool(options.container):
        parser().error("match takes one of CONTAINER-ID and -container")
    if options.id and given:
        parser().error(f"-{given[0]} is for -container")


def _directories(config: Settings, own: list[str]) -> Directories:
    """Returns the directories that are configured, or those of the command line. Raises ConfigError."""
    for directory in own:
        try:
            os.listdir(directory)
        except OSError as error:
            raise ConfigError(directory, error.strerror or str(error)) from None
    places = tuple(own) or config.hooks.directories
    return Directories(config.hooks._replace(directories=places, watch=False), config.host_root)
