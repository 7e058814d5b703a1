"""The command line: commands, flags and exit codes."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from adapter.errors import AdapterError, ConfigError, RegistrationError

if TYPE_CHECKING:
    from adapter.guard import Launch
    from adapter.settings import Settings

FINDINGS = 1
USAGE = 2
SYNOPSIS = """v010-adapter [run] [OPTION ...]
       v010-adapter check | status | install | uninstall | hooks match | simulate | demo [-h]"""
WITHOUT_A_RUNTIME = """\
v010-adapter check        whether what is configured would work
v010-adapter hooks match  which hooks a container gets, and why not the others
v010-adapter simulate     plays the life of a pod to NRI plugins, without a runtime
v010-adapter demo         the same with the sample plugins and hooks"""
COMMANDS = f"""\
commands:
v010-adapter run          joins the runtime; the default
v010-adapter status       how the running adapters are
v010-adapter install      makes the runtime, or systemd, start the adapter
v010-adapter uninstall    undoes that
{WITHOUT_A_RUNTIME}"""

MODULES = {
    "check": "adapter.check.command",
    "demo": "adapter.demo",
    "hooks": "adapter.hooks.cli",
    "install": "adapter.install.command",
    "simulate": "adapter.runtime.simulate.command",
    "status": "adapter.status",
    "uninstall": "adapter.install.uninstall",
}
"""The commands besides `run`."""


def main(arguments: Sequence[str] | None = None, launch: Launch | None = None) -> int:
    """Runs the command that the arguments name, `run` without one; returns its exit code.

    0: success; 1: findings or a failure; 2: unusable arguments or configuration. Each command imports its own modules,
    so that the daemon starts quickly: a runtime waits for it. A guard gives `launch` to its servers.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words and words[0] in MODULES:
            return int(import_module(MODULES[words[0]]).main(words[1:]))
        if words[:1] == ["run"]:
            del words[0]
        return _run(_options(words) if words else Options(), launch)
    except AdapterError as error:
        _complain(error)
        return USAGE if isinstance(error, ConfigError) else FINDINGS
    except BrokenPipeError:  # stdout was closed, as by `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FINDINGS
    except Exception as bug:
        if _to_syslog(bug):
            return FINDINGS
        raise


def _complain(error: AdapterError) -> None:
    """Prints an error to stderr, or logs it to syslog."""
    from adapter import sanitize  # noqa: PLC0415

    if not _to_syslog(error):
        text = sanitize.printable(str(error))
        print(f"v010-adapter: {text}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)


def _to_syslog(error: Exception) -> bool:
    """Logs an error to syslog when stderr is /dev/null, as in a launched plugin; returns whether it is."""
    from adapter import logs, settings  # noqa: PLC0415

    if not logs.stderr_is_null():
        return False
    logs.setup(settings.LogSettings())
    bug = None if isinstance(error, AdapterError) else error
    logs.log.error("%s%s", "a bug: " if bug else "", error, exc_info=bug)
    for _ in range(50 if bug else 0):  # a syslog socket may queue only ten lines, and the process ends
        time.sleep(0.01)
        logs.flush()
    return True


class Options(NamedTuple):
    """The flags of `run`."""

    idx: str = ""
    name: str = ""
    socket: str = ""
    config: str = ""
    once: bool = False
    verbose: bool = False
    disableWatch: bool = False  # noqa: N815 - the flag's name


def _options(words: Sequence[str]) -> Options:
    import argparse  # noqa: PLC0415 - not for a launched plugin

    parser = argparse.ArgumentParser(
        prog="v010-adapter",
        usage=SYNOPSIS,
        description="Runs legacy NRI v0.1.0 plugins under today's container runtimes.",
        epilog=COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    option = parser.add_argument
    option("-idx", "--idx", metavar="NN", help="index to register with, two digits")
    option("-name", "--name", help="name to register with")
    sockets = ("-socket", "--socket", "-socket-path", "--socket-path")
    option(*sockets, metavar="PATH", help="the runtime's NRI socket (/var/run/nri/nri.sock)")
    option("-config", "--config", metavar="FILE", help="configuration (/etc/nri/v010-adapter.yaml)")
    option("-once", "--once", action="store_true", help="end when the connection is lost")
    option("-verbose", "--verbose", action="store_true", help="log every request and result")
    option("-disableWatch", "--disableWatch", action="store_true", help="read hook files once, at the start")
    return Options(**vars(parser.parse_args(words)))


def _configuration(options: Options) -> tuple[Settings, list[ConfigError]]:
    """Returns the settings in the configuration file and in the flags, and the errors of the file."""
    from adapter import settings  # noqa: PLC0415

    configured, errors = settings.read(options.config)
    if options.disableWatch:
        configured = configured._replace(hooks=configured.hooks._replace(watch=False))
    if options.verbose:
        configured = configured._replace(log=configured.log._replace(level="debug"))
    return configured, errors


def _run(options: Options, launch: Launch | None) -> int:
    gc.disable()  # no garbage yet, and a runtime waits; the plugin enables it
    from adapter import daemon, nri  # noqa: PLC0415

    configured, errors = _configuration(options)
    if options.config:
        options = options._replace(config=os.path.abspath(options.config))  # the daemon goes to `/`
    reread = partial(_configuration, options)
    if errors and not nri.launched():
        for error in errors[:-1]:
            _complain(error)
        raise errors[-1]
    try:
        identity = nri.identity(options.name, options.idx)
    except RegistrationError as error:
        raise ConfigError("-idx" if options.idx else "NRI_PLUGIN_IDX", str(error)) from None
    if nri.launched() and not options.socket:
        trunk = nri.connect() if launch is None or not launch.killed_by else None
        connect = launch.connect if launch else None
        return daemon.run(configured, errors, identity, trunk, connect, reread=reread, launch=launch)
    path = options.socket or configured.socket
    # A service waits for its runtime. At a terminal, the user gets an error.
    try:
        trunk = nri.connect(path) if options.once or sys.stderr.isatty() else None
    except RegistrationError as error:
        if sys.stderr.isatty():
            error.add_note(f"These commands need no runtime (-h explains each):\n{WITHOUT_A_RUNTIME}")
        raise
    connect = None if options.once else lambda: nri.connect(path)
    return daemon.run(configured, errors, identity, trunk, connect, reread=reread, when_lost=FINDINGS)
