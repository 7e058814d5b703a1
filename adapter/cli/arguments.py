"""The flags that several commands have. A flag means the same in every command."""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import NoReturn

from adapter import settings
from adapter.base.sanitize import printable
from adapter.cli import colours
from adapter.cli.commands import PROGRAM

FINE, FINDINGS = 0, 1
"""The exit codes of most commands."""


class Parser(ArgumentParser):
    """Escapes control characters in errors: arguments may be file names of others, for example from a shell's `*`."""

    def error(self, message: str) -> NoReturn:
        """Prints the usage and the message, and ends the process."""
        super().error(printable(message))


def parser(command: str, description: str, epilog: str | None = None) -> ArgumentParser:
    """Returns a parser for a command, with `-h` only. Flags have one dash or two, as in Go."""
    prog = f"{PROGRAM} {command}"
    return Parser(prog=prog, description=description, epilog=epilog, allow_abbrev=False)


def add_config(parser: ArgumentParser) -> None:
    """Adds the flag that names the adapter's configuration file."""
    text = f"the configuration file ({settings.DEFAULT_PATH})"
    parser.add_argument("-config", "--config", metavar="FILE", default="", help=text)


def add_choice_of_container(parser: ArgumentParser) -> None:
    """Adds the flags that choose a container of a file, and add what the file does not contain."""
    option = parser.add_argument
    option("-pod", "--pod", metavar="FILE", default="", help="the container's pod, if the container's file has none")
    option("-name", "--name", default="", help="the container, if the file has several: [[NAMESPACE/]POD/]NAME")
    text = "the image's entrypoint, if the image decides on the command"
    option("-command", "--command", metavar="PATH", default="", help=text)


def add_output(parser: ArgumentParser) -> None:
    """Adds the flag for machine-readable output."""
    text = "format of the output: text (the default) or json"
    names = "-o", "-output", "--output"
    parser.add_argument(*names, metavar="FORMAT", choices=("text", "json"), default="text", help=text)


def add_color(parser: ArgumentParser) -> None:
    """Adds the flag for colours."""
    text = "colours: auto (the default: on a terminal, unless NO_COLOR is set), always or never"
    parser.add_argument("-color", "--color", metavar="WHEN", choices=colours.WHEN, default=colours.AUTO, help=text)


def paint(options: Namespace) -> Callable[[str], str] | None:
    """Returns the function that colours a command's lines on stdout, None without colours."""
    return colours.by_word if colours.are_wanted(sys.stdout, options.color) else None


def add_verbose(parser: ArgumentParser) -> None:
    """Adds the flag for full output."""
    text = "show every request and result in full"
    parser.add_argument("-v", "-verbose", "--verbose", action="store_true", help=text)


def count(number: int, noun: str) -> str:
    """Returns a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def seconds(text: str) -> float:
    """Returns the number of seconds in an argument. Raises ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds")
    return number
