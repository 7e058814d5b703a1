"""The command line: commands, flags and exit codes."""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from nri.errors import NRIError, RegistrationError
from v010_adapter.base import collector
from v010_adapter.errors import ConfigError, unknown

if TYPE_CHECKING:
    from v010_adapter.cli.arguments import Parser
    from v010_adapter.daemon.guard import Launch
    from v010_adapter.settings import Settings

FINDINGS = 1
USAGE = 2
NEXT_STEPS = "These commands need no runtime: demo, simulate, check (`v010-adapter COMMAND -h` explains each)."
ABOUT_ALL = "-h", "--help", "-version", "--version"
UNWRITABLE = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Errors of writing to stdout that are no fault of the command."""
FLUSHES, PAUSE = 50, 0.01
"""How often lines about a bug are offered to syslog again, and the seconds before each time."""


def main(arguments: Sequence[str] | None = None, launch: Launch | None = None) -> int:
    """Runs the command that the arguments name, `run` without one; returns its exit code.

    0: success; 1: problems or a failure; 2: unusable arguments or configuration. Each command imports its own modules,
    so that the daemon starts quickly, for a runtime waits for it. A guard passes `launch` to its servers.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdin", "stdout", "stderr"):  # in the order of their descriptors
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: SIM115
    try:
        return _command(words, launch) if words else _run(Options(), launch)
    except NRIError as error:
        _complain(error)
        return USAGE if isinstance(error, ConfigError) else FINDINGS
    except BrokenPipeError:  # stdout was closed, as by `| head`
        return FINDINGS
    except Exception as bug:
        _to_syslog(bug)
        raise


def _command(words: list[str], launch: Launch | None) -> int:
    """Runs the command that the first word names. If that is a flag, it belongs to `run` or to the whole program."""
    from v010_adapter.cli import arguments  # noqa: PLC0415 - not for a launched plugin

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a locale may lack letters
    name = words[0]
    if name in ABOUT_ALL:
        with _flushed_stdout():
            arguments.overview().parse_args([name])
    if name == "run" or name.startswith("-"):
        return _run(Options(**vars(parser().parse_args(words[name == "run" :]))), launch)
    if name not in arguments.COMMANDS:
        raise ConfigError(name, unknown("command", name, arguments.COMMANDS))
    with _flushed_stdout():
        return int(import_module(arguments.COMMANDS[name].module).main(arguments.parser(name).parse_args(words[1:])))


@contextmanager
def _flushed_stdout() -> Iterator[None]:
    """Flushes stdout at the end. Raises NRIError if stdout cannot be written, BrokenPipeError if nobody reads it.

    An OSError of another file, such as a loop of links, becomes an NRIError, too.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:  # the error is about a file of the command
            raise NRIError(f"{error.filename}: {error.strerror}") from None
        if error.errno not in UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes stdout again at its end
        if error.errno == errno.EPIPE:
            raise
        raise NRIError(f"stdout: {error.strerror}") from None


def _complain(error: NRIError) -> None:
    from v010_adapter.cli import terminal  # noqa: PLC0415

    _to_syslog(error)
    terminal.show(f"v010-adapter: {error}", out=sys.stderr)
    if isinstance(error, RegistrationError) and sys.stderr.isatty():
        terminal.show(NEXT_STEPS, out=sys.stderr)


def _to_syslog(error: Exception) -> None:
    """Logs an error to syslog if stderr is /dev/null, as in a launched plugin."""
    from nri.syslog import stderr_is_null  # noqa: PLC0415
    from v010_adapter import settings  # noqa: PLC0415
    from v010_adapter.monitoring import logs  # noqa: PLC0415

    if not stderr_is_null():
        return
    logs.setup(settings.LogSettings())
    bug = None if isinstance(error, NRIError) else error
    logs.log.error("%s%s", "a bug: " if bug else "", error, exc_info=bug)
    for _ in range(FLUSHES) if bug else ():  # syslog's socket may queue only ten lines, and the process is about to end
        time.sleep(PAUSE)
        logs.flush()


class Options(NamedTuple):
    """The flags of `run`."""

    idx: str = ""
    name: str = ""
    socket: str = ""
    config: str = ""
    once: bool = False
    linger: float = 0
    verbose: bool = False
    disableWatch: bool = False  # noqa: N815 - the flag's name


def parser() -> Parser:
    from v010_adapter.cli import arguments  # noqa: PLC0415 - not for a launched plugin

    text = "Runs legacy NRI v0.1.0 plugins, and injects OCI hooks, under today's container runtimes."
    examples = "v010-adapter run -once -socket /run/nri/nri.sock -v    # at a terminal"
    made = arguments.Parser("run", text, examples=examples)
    made.flag("idx", "index to register with, two digits", metavar="NN")
    made.flag("name", "name to register with", metavar="NAME")
    made.flag("socket socket-path", "the runtime's NRI socket (/var/run/nri/nri.sock)", metavar="PATH")
    made.shared("config")
    made.flag("once", "end when the connection is lost, instead of joining again")
    text = "on SIGTERM, serve until another adapter takes over, for so long at most (0)"
    made.flag("linger", text, metavar="SECONDS", type=arguments.seconds, default=0)
    made.shared("v verbose")
    made.flag("disableWatch", "read hook files once, at the start")
    return made


def _configuration(options: Options) -> tuple[Settings, list[ConfigError]]:
    from v010_adapter import settings  # noqa: PLC0415

    configured, errors = settings.read(options.config)
    if options.disableWatch:
        configured = configured._replace(hooks=configured.hooks._replace(watch=False))
    if options.verbose:
        configured = configured._replace(log=configured.log._replace(level="debug"))
    return configured, errors


def _run(options: Options, launch: Launch | None) -> int:
    collector.pause()  # until the adapter has joined
    import nri  # noqa: PLC0415
    from v010_adapter.daemon import daemon, process_setup  # noqa: PLC0415
    from v010_adapter.daemon.daemon import Origin  # noqa: PLC0415

    configured, errors = _configuration(options)
    if options.config:
        options = options._replace(config=os.path.abspath(options.config))  # the daemon changes to `/`
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
        origin = Origin(launch.connect if launch else None, 0, launch, options.linger)
        process_setup.prepare(configured, errors)
    else:
        path = os.path.abspath(options.socket or configured.socket)
        # A service waits for its runtime. At a terminal, the user gets an error.
        is_impatient = options.once or sys.stderr.isatty()
        if sys.stderr.isatty():
            _tell_of_others(configured, identity.name)
        process_setup.prepare(configured, errors)
        trunk = connect(path) if is_impatient else None
        # With -socket, this is not the runtime that has launched the process.
        origin = Origin(None if options.once else partial(connect, path), FINDINGS, linger=options.linger)
    return daemon.Daemon(configured, errors, identity, reread, origin).run(trunk)


def _tell_of_others(configured: Settings, name: str) -> None:
    """Tells somebody at a terminal that another adapter serves this node, beside which this process joins."""
    from v010_adapter import settings  # noqa: PLC0415
    from v010_adapter.cli import terminal  # noqa: PLC0415 - only at a terminal
    from v010_adapter.monitoring import status  # noqa: PLC0415 - likewise

    directory = settings.state_directory(configured, name)
    with suppress(OSError, ConfigError):  # if this process cannot use the directory, it says so itself
        for adapter in status.ask(directory, configured.legacy.trust):
            if adapter.get("serves"):
                runtime = adapter.get("runtime", {}).get("name") or "the runtime"
                text = f"another adapter, pid {adapter.get('pid')}, serves {runtime} already; this one joins beside it"
                terminal.show(f"{text} (`v010-adapter status` shows both, Ctrl-C ends this one)", out=sys.stderr)


def connect(path: str) -> int:
    """Returns a descriptor connected to the runtime's socket, and logs its path. Raises RegistrationError.

    Where the default socket does not exist, the other usual one is tried: a root directory may lack the link /var/run.
    """
    import nri  # noqa: PLC0415
    from v010_adapter.cli import systems  # noqa: PLC0415

    usual = systems.NRI_SOCKETS if path == nri.DEFAULT_SOCKET else ()
    path = next(filter(os.path.exists, usual), path)
    trunk = nri.connect(path)
    logging.getLogger(__name__).info("joins the runtime at %s", path)
    return trunk
