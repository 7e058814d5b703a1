"""Finds the programs of legacy plugins, and what they are started with."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from v010_adapter.errors import PluginError
from v010_adapter.host.mount_namespace import programs_namespace
from v010_adapter.host.trust import Trust, TrustedPrograms, strict
from v010_adapter.programs.process import Program

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def find(
    type_: str, directories: Sequence[str], fault: Callable[[str, os.stat_result], str] = lambda path, status: ""
) -> str:
    """Returns the path of a plugin's program in the directories; a type with a slash is a path.

    `fault` returns why a program must not be run, empty if it may be. Raises PluginError.
    """
    is_path = "/" in type_
    for directory in ("",) if is_path else directories:
        candidate = type_ if is_path else f"{directory}/{type_}"
        try:
            status = os.stat(candidate)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise PluginError(type_, f"{candidate}: {error.strerror}") from None
        if not stat.S_ISREG(status.st_mode):
            raise PluginError(type_, f"{candidate} is not an executable file")
        if not status.st_mode & 0o111:
            raise PluginError(type_, f"{candidate} is not an executable file: chmod +x {candidate}")
        reason = fault(candidate, status)
        if reason:
            raise PluginError(type_, f"{candidate}: {reason}")
        return candidate
    raise PluginError(type_, "not found" if is_path else f"not found in {':'.join(directories)}")


class Programs:
    """The programs of legacy plugins, by type."""

    def __init__(self, directories: Sequence[str], environment: Mapping[str, str], trust: Trust = strict) -> None:
        """Takes the plugins' directories, the variables that plugins get besides PATH, and what decides on programs.

        The directories are searched first, then PATH. The original searched PATH first: a plugin called `logger` became
        the program of that name. In the plugins' PATH the directories come last, as in the original (client.go, New).
        """
        self._environment = {"PATH": ":".join((SYSTEM_PATH, *directories)), **environment}
        self.path = self._environment["PATH"]
        """Where plugins, and so `env` in their first lines, search for programs."""
        self._directories = [
            *directories,
            *(directory for directory in self.path.split(":") if directory not in directories),
        ]
        self._fault = partial(TrustedPrograms(trust).fault, search=self.path)

    def program(self, type_: str) -> Program:
        """Returns what is executed for a plugin. Raises PluginError."""
        path = programs_namespace.call(find, type_, self._directories, self._fault)
        return Program(type_, path, (type_, "invoke"), self._environment, takes_trace=True)
