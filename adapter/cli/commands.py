"""The commands of `v010-adapter`, and the command line as a whole."""

from __future__ import annotations

import platform
from argparse import ArgumentParser
from importlib import import_module
from typing import NamedTuple

from adapter import __version__

PROGRAM = "v010-adapter"


class Command(NamedTuple):
    """A command: the module that has its `parser` and its `main`, and a line that says what it does."""

    module: str
    line: str


COMMANDS = {
    "run": Command("adapter.cli.command_line", "joins the runtime; the default"),
    "check": Command("adapter.cli.check.command", "checks the configuration, the plugins and the hook files"),
    "status": Command("adapter.cli.status", "shows the state of running adapters"),
    "install": Command("adapter.cli.install.command", "makes the runtime, or systemd, start the adapter"),
    "uninstall": Command("adapter.cli.install.uninstall", "removes what install has made"),
    "hooks": Command("adapter.cli.hooks_match", "hooks match: shows which hooks a container gets, and why"),
    "invoke": Command("adapter.cli.invoke", "runs one legacy plugin by hand as the daemon would"),
    "simulate": Command("adapter.cli.simulate.command", "plays the life of a pod to NRI plugins, without a runtime"),
    "demo": Command("adapter.cli.demo", "plays the life of a pod with the sample plugins and hooks"),
    "completion": Command("adapter.cli.completion", "prints a shell-completion script"),
}


def overview(*, in_full: bool = False) -> ArgumentParser:
    """Returns the parser of the whole command line, for help and for completion.

    Only with `in_full`, it has the arguments of the commands: this imports each command's modules.
    """
    from adapter.nri.stub import NRI_VERSION  # noqa: PLC0415 - not for an error message

    whole = _parser("run")
    whole.prog = PROGRAM
    whole.usage = "v010-adapter [run] [OPTION ...]\n       v010-adapter COMMAND [-h] [OPTION ...]"
    version = f"{PROGRAM} {__version__}, Python {platform.python_version()}, NRI {NRI_VERSION}"
    whole.add_argument("-version", "--version", action="version", version=version)
    text = f"`{PROGRAM} COMMAND -h` explains it"
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", prog=PROGRAM, help=text)
    for name, command in COMMANDS.items():
        parents = [_parser(name)] if in_full else []
        commands.add_parser(name, help=command.line, parents=parents, add_help=False)
    return whole


def _parser(name: str) -> ArgumentParser:
    parser: ArgumentParser = import_module(COMMANDS[name].module).parser()
    return parser
