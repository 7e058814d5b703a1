"""The commands of `v010-adapter`, and the parser of their arguments. A shared flag means the same everywhere."""

from __future__ import annotations

import math
import platform
import sys
from argparse import SUPPRESS, Action, ArgumentParser, ArgumentTypeError, HelpFormatter, Namespace
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from nri.text import printable
from v010_adapter import __version__, settings
from v010_adapter.cli import terminal

PROGRAM = "v010-adapter"


class Command(NamedTuple):
    """A command: its module, and what it does.

    The module has `parser`, and `main`, which runs the command with the parsed arguments and returns its exit code.
    `main` may raise NRIError, and OSError for a file that it names.
    """

    module: str
    line: str


COMMANDS = {
    "run": Command("v010_adapter.cli.command_line", "joins the runtime; the default"),
    "check": Command("v010_adapter.cli.check.command", "checks the configuration, the plugins and the hook files"),
    "status": Command("v010_adapter.cli.status", "shows the state of running adapters"),
    "install": Command("v010_adapter.cli.install.command", "makes the runtime, or systemd, start the adapter"),
    "uninstall": Command("v010_adapter.cli.install.uninstall", "removes what install has made"),
    "hooks": Command("v010_adapter.cli.hooks.command", "hooks match, hooks list: shows hooks, and who gets them"),
    "invoke": Command("v010_adapter.cli.invoke", "runs one legacy plugin by hand as the daemon would"),
    "simulate": Command(
        "v010_adapter.cli.simulate.command", "plays the life of a pod to NRI plugins, without a runtime"
    ),
    "demo": Command("v010_adapter.cli.demo", "plays the life of a pod with the sample plugins and hooks"),
    "completion": Command("v010_adapter.cli.completion", "prints a shell-completion script"),
    "help": Command("v010_adapter.cli.help", "explains the commands, or the one that is named"),
    "version": Command("v010_adapter.cli.version", "prints the versions of the adapter, Python and NRI"),
}

FINE, FINDINGS, USAGE = 0, 1, 2
_SWITCHED = {"store_true": "1 t T TRUE true True", "store_false": "0 f F FALSE false False"}
"""The values that Go takes for a flag without a value, as in `-disableWatch=false` (strconv.ParseBool)."""

SHARED: dict[str, tuple[str, dict[str, Any]]] = {
    "config": (f"the configuration file ({settings.DEFAULT_PATH})", {"metavar": "FILE"}),
    "pod": ("the container's pod, if the container's file has none", {"metavar": "FILE"}),
    "name": ("the container, if the file has several: [[NAMESPACE/]POD/]NAME", {"metavar": "NAME"}),
    "command": ("the image's entrypoint, if the image decides on the command", {"metavar": "PATH"}),
    "o output": (
        "format of the output: text (the default) or json",
        {"metavar": "FORMAT", "choices": ("text", "json"), "default": "text"},
    ),
    "color": (
        "colours: auto (the default: on a terminal, unless NO_COLOR is set), always or never",
        {"metavar": "WHEN", "choices": terminal.WHEN, "default": terminal.AUTO},
    ),
    "v verbose": ("show every request and result in full", {}),
}


class _Help(HelpFormatter):
    """Shows each flag once, with one dash, and `-h, --help`, which people know."""

    def _format_action_invocation(self, action: Action) -> str:
        spellings = action.option_strings
        if not spellings or "--help" in spellings:
            return super()._format_action_invocation(action)
        once = [one for one in spellings if not one.startswith("--")]
        value = f" {action.metavar}" if action.metavar else ""
        return ", ".join(once) + value


class Parser(ArgumentParser):
    """Parses the arguments of a command. Flags have one dash or two, as in Go."""

    def __init__(
        self, command: str, description: str, epilog: str | None = None, *, words: str = "", examples: str = ""
    ) -> None:
        """`words` are the arguments of the usage that are no flags; `examples` are lines of a shell."""
        prog = f"{PROGRAM} {command}"
        usage = " ".join(filter(None, [prog, words, "[OPTION ...]"]))
        super().__init__(
            prog=prog, usage=usage, description=description, epilog=epilog, allow_abbrev=False, formatter_class=_Help
        )
        self._examples = examples

    def format_help(self) -> str:
        """Returns the help, with the examples at its end: they are not wrapped."""
        lines = "".join(f"  {line}\n" for line in self._examples.splitlines())
        return super().format_help() + (f"\nexamples:\n{lines}" if lines else "")

    def flag(self, names: str, text: str, **keywords: Any) -> None:
        """Adds a flag with its help text and with keywords of `add_argument`. Without `metavar`, it is a switch."""
        spellings = [f"{dash}{name}" for name in names.split() for dash in ("-", "--")[: len(name)]]
        usual = {"default": ""} if "metavar" in keywords else {"action": "store_true"}
        made = self.add_argument(*spellings, help=text, **usual | keywords)
        for action, words in _SWITCHED.items() if made.nargs == 0 else ():
            valued = [f"{spelling}={word}" for spelling in spellings for word in words.split()]
            self.add_argument(*valued, dest=made.dest, action=action, help=SUPPRESS)

    def shared(self, *flags: str) -> Parser:
        """Adds flags of SHARED; returns this parser."""
        for names in flags:
            text, keywords = SHARED[names]
            self.flag(names, text, **keywords)
        return self

    def error(self, message: str) -> NoReturn:
        """Ends the process with one line: the escaped message, for arguments may be files of others, and a hint."""
        self.exit(USAGE, f"{self.prog}: {printable(message)}; `{self.prog} -h` explains the arguments\n")


class _Version(Action):
    """Prints the versions in one line, however narrow the terminal is: scripts read it."""

    def __call__(self, parser: ArgumentParser, *_: object) -> NoReturn:
        print(self.const)
        parser.exit()


def overview(*, in_full: bool = False) -> ArgumentParser:
    """Returns the parser of the whole command line. Only with `in_full`, it has the commands' own arguments."""
    whole = parser("run")
    whole.prog = PROGRAM
    whole.usage = "v010-adapter [run] [OPTION ...]\n       v010-adapter COMMAND [-h] [OPTION ...]"
    told = "show program's version number and exit"
    whole.add_argument("-version", "--version", action=_Version, nargs=0, const=versions(), help=told)
    text = f"`{PROGRAM} COMMAND -h` explains it"
    commands = whole.add_subparsers(
        title="commands", metavar="COMMAND", prog=PROGRAM, help=text, parser_class=ArgumentParser
    )
    for name, command in COMMANDS.items():
        parents = [parser(name)] if in_full else []
        commands.add_parser(name, help=command.line, parents=parents, add_help=False)
    whole._action_groups.reverse()  # argparse has no public order; the commands come first
    return whole


def versions() -> str:
    from nri.stub import NRI_VERSION  # noqa: PLC0415 - not for an error message

    return f"{PROGRAM} {__version__}, Python {platform.python_version()}, NRI {NRI_VERSION}"


def parser(name: str) -> ArgumentParser:
    made: ArgumentParser = import_module(COMMANDS[name].module).parser()
    return made


def paint(options: Namespace) -> Callable[[str], str] | None:
    return terminal.by_word if terminal.are_wanted(sys.stdout, options.color) else None


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds")
    return number
