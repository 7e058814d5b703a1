"""The entry point of the program. It imports no large module, because a launched adapter forks first."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from importlib import import_module

from v010_adapter.daemon.guard import guard_container, guarded

INTERRUPTED = 130
"""The exit code after SIGINT, as shells have it."""
OF_SERVER = (
    *(
        "yaml",
        "v010_adapter.cli.arguments",
        "v010_adapter.cli.command_line",
        "v010_adapter.daemon.daemon",
        "v010_adapter.events.serving",
    ),
    *(
        "v010_adapter.daemon.process_setup",
        "v010_adapter.events.hooks",
        "v010_adapter.cli.systems",
    ),
    *("v010_adapter.monitoring.metrics", "v010_adapter.monitoring.status"),
)
"""The modules that a server imports before it serves."""


def main(*, in_container: bool = False) -> int:
    """Runs the command, below a guard if a runtime launched it, or if it has a container; returns the exit code."""
    words = sys.argv[1:]
    is_daemon = not words or words[0] == "run" or words[0].startswith("-")
    if is_daemon:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # it waits until the daemon acts on it
    _write_paths_in_utf8()
    _know_that_stderr_is_closed()
    launch = None
    if is_daemon:
        if "NRI_PLUGIN_SOCKET" in os.environ:
            launch = guarded()
        elif in_container:  # no runtime waits: the guard imports, so that each later server joins soon
            for name in OF_SERVER:
                import_module(name)
            guard_container()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise the caller wants SIGINT ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from v010_adapter.cli.command_line import main as command  # noqa: PLC0415 - not before the forks

        return command(launch=launch)
    except KeyboardInterrupt:
        print("v010-adapter: interrupted", file=sys.stderr)
        return INTERRUPTED


def _write_paths_in_utf8() -> None:
    """Restarts Python if it does not encode paths in UTF-8, which is the encoding of configuration files."""
    if sys.getfilesystemencoding() != "utf-8":
        if sys.stdout is not None:  # stdout keeps its encoding
            os.environ.setdefault("PYTHONIOENCODING", sys.stdout.encoding)
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606


def _know_that_stderr_is_closed() -> None:
    """A shell began this file. If stderr was closed, bash reads the file at its number, and leaves it open there."""
    if sys.stderr is not None and fcntl.fcntl(sys.stderr, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        sys.stderr = None


def _interrupt(*_: object) -> None:
    """Ends the command. A second SIGINT does not interrupt the clean-up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt
