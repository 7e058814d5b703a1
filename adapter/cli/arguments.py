"""What the command lines of the commands have in common: the same flag means the same everywhere."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import NoReturn

from adapter import settings
from adapter.base.sanitize import printable
from adapter.cli import colours
from adapter.cli.commands import PROGRAM

FINE, FINDINGS = 0, 1
"""The exit codes of most commands."""


class Parser(ArgumentParser):
    """Names what a shell has made of `*` in a directory of others, in errors, as text on one line."""

    def error(self, message: str) -> NoReturn:
        """Prints the message with how the command is used, and ends the process."""
        super().error(printable(message))


def parser(command: str, description: str, epilog: str | None = None) -> ArgumentParser:
    """Returns the parser of a command, which has `-h` only. Flags have one dash or two, as Go's have."""
    prog = f"{PROGRAM} {command}"
    return Parser(prog=prog, description=description, epilog=epilog, allow_abbrev=False)


def add_config(parser: ArgumentParser) -> None:
    """Adds the flag that names the adapter's configuration file."""
    text = f"configuration ({settings.DEFAULT_PATH})"
    parser.add_argument("-config", "--config", metavar="FILE", default="", help=text)


def add_choice_of_container(parser: ArgumentParser) -> None:
    """Adds the flags that say which container of a file is meant, and what the file does not tell of it."""
    option = parser.add_argument
    option("-pod", "--pod", metavar="FILE", default="", help="its pod, if the file of the container has none")
    option("-name", "--name", default="", help="which container, if the file has several: [[NAMESPACE/]POD/]NAME")
    option("-command", "--command", metavar="PATH", default="", help="the image's entrypoint, if the image decides")


def add_output(parser: ArgumentParser) -> None:
    """Adds the flag for machine-readable output."""
    text = "format of the output: text (the default) or json"
    names = "-o", "-output", "--output"
    parser.add_argument(*names, metavar="FORMAT", choices=("text", "json"), default="text", help=text)


def add_color(parser: ArgumentParser) -> None:
    """Adds the flag that decides on colours."""
    text = "colours: auto (the default: on a terminal, unless NO_COLOR is set), always or never"
    parser.add_argument("-color", "--color", metavar="WHEN", choices=colours.WHEN, default=colours.AUTO, help=text)


def paint(options: Namespace) -> Callable[[str], str] | None:
    """Returns what colours the lines of a command on stdout, None without colours."""
    return colours.by_word if colours.are_wanted(sys.stdout, options.color) else None


def add_verbose(parser: ArgumentParser) -> None:
    """Adds the flag that shows everything in full."""
    text = "give every request and result in full"
    parser.add_argument("-v", "-verbose", "--verbose", action="store_true", help=text)


def count(number: int, noun: str) -> str:
    """Returns a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
