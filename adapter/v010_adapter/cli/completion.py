"""The command `completion`: prints a shell-completion script."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace

import shtab

from v010_adapter.cli.arguments import FINE, Parser, overview

SHELLS = "bash", "zsh", "fish"
KINDS = {
    "FILE": shtab.FILE,
    "PATH": shtab.FILE,
    "[NN-NAME=]PATH": shtab.FILE,
    "PLUGIN": shtab.FILE,
    "DIR": shtab.DIRECTORY,
}
"""How to complete the value of a flag, by the value's name in the help."""


def parser() -> Parser:
    parser = Parser(
        "completion",
        "Prints a shell-completion script for commands, flags and files.",
        "In the shell's start-up file: `source <(v010-adapter completion bash)`, the same with zsh; "
        "in fish: `v010-adapter completion fish | source`.",
        words="SHELL",
        examples="source <(v010-adapter completion bash)",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    return parser


def main(options: Namespace) -> int:
    print(script(options.shell))
    return FINE


def script(shell: str) -> str:
    whole = overview(in_full=True)
    _mark(whole)
    text: str = shtab.complete(whole, shell)
    # In fish, a flag with one dash and several letters is `-o`; shtab writes `-s`, which is for one letter.
    return re.sub(r" -s (\w{2,})", r" -o \1", text) if shell == "fish" else text


def _mark(parser: ArgumentParser) -> None:
    """Marks the flags, also those of subcommands, whose values are files or directories."""
    for action in parser._actions:  # argparse has no public list
        if action.metavar in KINDS:
            action.complete = KINDS[action.metavar]  # type: ignore[attr-defined]
        for choice in action.choices.values() if isinstance(action.choices, dict) else ():
            if isinstance(choice, ArgumentParser):
                _mark(choice)
