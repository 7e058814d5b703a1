"""The command line: what is asked for, and what exit code that ends with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from adapter import nri, settings
from adapter.errors import AdapterError, ConfigError

if TYPE_CHECKING:
    import argparse

FINDINGS = 1
USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that the arguments name, `run` without one; returns its exit code.

    0 is fine, 1 means that something was found or went wrong, 2 that what was given cannot be used.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["demo"]:
            from adapter.runtime import demo  # noqa: PLC0415 - the daemon does without

            return demo.main(words[1:])
        if words[:1] == ["run"]:
            del words[0]
        return _run(_options(words) if words else None)
    except ConfigError as error:
        print(f"v010-adapter: {error}", file=sys.stderr)
        return USAGE
    except AdapterError as error:
        print(f"v010-adapter: {error}", file=sys.stderr)
        return FINDINGS


def _options(words: Sequence[str]) -> argparse.Namespace:
    import argparse  # 5 ms that a launched plugin, which has no arguments, does not pay  # noqa: PLC0415

    parser = argparse.ArgumentParser(
        prog="v010-adapter",
        description="Runs legacy NRI v0.1.0 plugins under today's container runtimes.",
        epilog="`v010-adapter demo` shows it at work, without a runtime.",
        allow_abbrev=False,
    )
    parser.add_argument("-idx", "--idx", metavar="NN", default="", help="index to register with, two digits")
    parser.add_argument("-name", "--name", default="", help="name to register with")
    parser.add_argument(
        *("-socket", "--socket", "-socket-path", "--socket-path"),
        metavar="PATH",
        default="",
        help=f"the runtime's NRI socket ({nri.DEFAULT_SOCKET})",
    )
    parser.add_argument(
        *("-config", "--config"), metavar="FILE", default="", help=f"configuration ({settings.DEFAULT_PATH})"
    )
    parser.add_argument("-verbose", "--verbose", action="store_true", help="log every request and result")
    return parser.parse_args(words)


def _run(options: argparse.Namespace | None) -> int:
    from adapter import daemon  # noqa: PLC0415 - not for the commands above

    own, errors = settings.read(options.config if options else "")
    if options and options.verbose:
        own = own._replace(log=own.log._replace(level="debug"))
    if errors and not nri.launched():
        for error in errors[:-1]:
            print(f"v010-adapter: {error}", file=sys.stderr)
        raise errors[-1]
    who = nri.identity(options.name, options.idx) if options else nri.identity()
    return daemon.run(own, errors, who, nri.connect(options.socket if options else ""))
