"""The command `help`: explains the commands."""

from __future__ import annotations

from argparse import Namespace

from v010_adapter.cli import arguments
from v010_adapter.cli.arguments import COMMANDS, FINE, Parser
from v010_adapter.errors import ConfigError, unknown


def parser() -> Parser:
    made = Parser("help", "Explains the commands, or the one that is named.", words="[COMMAND]")
    made.add_argument("of", nargs="?", default="", metavar="COMMAND", help="what is explained")
    return made


def main(options: Namespace) -> int:
    if options.of and options.of not in COMMANDS:
        raise ConfigError(options.of, unknown("command", options.of, COMMANDS))
    print((arguments.parser(options.of) if options.of else arguments.overview()).format_help(), end="")
    return FINE
