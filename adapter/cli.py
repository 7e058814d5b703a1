"""The command line: what is asked for, and what exit code that ends with."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from adapter.errors import AdapterError, ConfigError, RegistrationError

if TYPE_CHECKING:
    import argparse

FINDINGS = 1
USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that the arguments name, `run` without one; returns its exit code.

    0 is fine, 1 means that something was found or went wrong, 2 that what was given cannot be used. Each command
    imports what it needs itself: the daemon, which a runtime waits for, does without the others.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["demo"]:
            from adapter.runtime import demo  # noqa: PLC0415

            return demo.main(words[1:])
        if words[:1] == ["simulate"]:
            from adapter.runtime import simulate  # noqa: PLC0415

            return simulate.main(words[1:])
        if words[:1] == ["check"]:
            from adapter import check  # noqa: PLC0415

            return check.main(words[1:])
        if words[:1] == ["hooks"]:
            from adapter.hooks import cli as hooks  # noqa: PLC0415

            return hooks.main(words[1:])
        if words[:1] == ["run"]:
            del words[0]
        return _run(_options(words) if words else None)
    except AdapterError as error:
        _complain(error)
        return USAGE if isinstance(error, ConfigError) else FINDINGS
    except BrokenPipeError:  # `| head`: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FINDINGS


def _complain(error: AdapterError) -> None:
    """Says why a command has failed: to syslog when a runtime has taken stderr away."""
    from adapter import logs, settings  # noqa: PLC0415

    if not logs.stderr_is_null():
        print(f"v010-adapter: {error}", file=sys.stderr)
        return
    logs.setup(settings.LogSettings())
    logs.log.error("%s", error)


def _options(words: Sequence[str]) -> argparse.Namespace:
    import argparse  # noqa: PLC0415

    parser = argparse.ArgumentParser(
        prog="v010-adapter",
        description="Runs legacy NRI v0.1.0 plugins under today's container runtimes.",
        epilog="`v010-adapter demo` shows it at work, without a runtime.",
        allow_abbrev=False,
    )
    parser.add_argument("-idx", "--idx", metavar="NN", default="", help="index to register with, two digits")
    parser.add_argument("-name", "--name", default="", help="name to register with")
    sockets = ("-socket", "--socket", "-socket-path", "--socket-path")
    parser.add_argument(*sockets, metavar="PATH", default="", help="the runtime's NRI socket (/var/run/nri/nri.sock)")
    parser.add_argument(
        *("-config", "--config"), metavar="FILE", default="", help="configuration (/etc/nri/v010-adapter.yaml)"
    )
    parser.add_argument("-verbose", "--verbose", action="store_true", help="log every request and result")
    parser.add_argument(
        *("-disableWatch", "--disableWatch"), action="store_true", help="read hook files once, at the start"
    )
    return parser.parse_args(words)


def _run(options: argparse.Namespace | None) -> int:
    gc.disable()  # nothing is garbage yet, and a runtime waits; the plugin turns it on
    from adapter import daemon, nri, settings  # noqa: PLC0415

    own, errors = settings.read(options.config if options else "")
    if options and options.disableWatch:
        own = own._replace(hooks=own.hooks._replace(watch=False))
    if options and options.verbose:
        own = own._replace(log=own.log._replace(level="debug"))
    if errors and not nri.launched():
        for error in errors[:-1]:
            _complain(error)
        raise errors[-1]
    try:
        who = nri.identity(options.name, options.idx) if options else nri.identity()
    except RegistrationError as error:
        raise ConfigError("-idx" if options and options.idx else "NRI_PLUGIN_IDX", str(error)) from None
    return daemon.run(own, errors, who, nri.connect(options.socket if options else ""))
