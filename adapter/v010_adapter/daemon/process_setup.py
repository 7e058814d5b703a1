"""Prepares the process before anything is served: what it has inherited, its log, the programs' mount namespace."""

from __future__ import annotations

import contextlib
import logging
import os
import signal

from v010_adapter import settings
from v010_adapter.daemon import guard
from v010_adapter.errors import ConfigError
from v010_adapter.host.mount_namespace import programs_namespace
from v010_adapter.monitoring import logs
from v010_adapter.programs.children import children
from v010_adapter.settings import Settings

log = logging.getLogger(__name__)


def prepare(own: Settings, errors: list[ConfigError]) -> None:
    """Prepares the process and its log, for settings and the errors of their file, which are logged.

    Raises ConfigError if the programs' mount namespace cannot be used.
    """
    become_daemon()
    programs_namespace.use(own.mount_namespace)
    logs.setup(own.log)
    settings.report(errors)
    _report_missing_pidfd()
    if own.file:
        own.legacy.trust(own.file, "/")  # the warnings: only now there is a log


def become_daemon() -> None:
    """Replaces what the process has inherited: directory, umask, signals, limits.

    Keeps the programs that the adapter runs from inheriting descriptors beyond stderr.
    """
    os.chdir("/")
    os.umask(0o022)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, exit codes are lost
    for number in guard.IGNORED:
        signal.signal(number, signal.SIG_IGN)
    children.take_limits()
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2:  # noqa: PLR2004 - stderr
            with contextlib.suppress(OSError):  # the listing's own
                os.set_inheritable(fd, False)


def _report_missing_pidfd() -> None:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        log.error("no program can be run: pidfd_open (Linux 5.3) is missing or forbidden here: %s", reason)
