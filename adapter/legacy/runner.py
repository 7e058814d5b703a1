"""Where plugins are found, what environment they get, and what becomes of those that do not end in time."""

from __future__ import annotations

import logging
import os
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from adapter.errors import PluginError
from adapter.loop import Loop
from adapter.process import Process

log = logging.getLogger(__name__)

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_LEFT = 32
"""Processes of one plugin that may be left running without a result."""


def find(type_: str, directories: Sequence[str]) -> str:
    """Returns the program of a plugin type, searched in the directories; a type with a slash is a path.

    Raises PluginError.
    """
    if "/" in type_:
        searched, candidates = "", [type_]
    else:
        searched, candidates = f" in {':'.join(directories)}", [f"{directory}/{type_}" for directory in directories]
    for candidate in candidates:
        try:
            mode = os.stat(candidate).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise PluginError(type_, f"{candidate}: {error.strerror}") from None
        if stat.S_ISREG(mode) and mode & 0o111:
            return candidate
        raise PluginError(type_, f"{candidate} is not an executable file")
    raise PluginError(type_, f"not found{searched}")


class Runner:
    """Starts plugins, and keeps account of those that run on with nobody waiting for them."""

    def __init__(self, loop: Loop, directories: Sequence[str], environment: Mapping[str, str]) -> None:
        """Takes the plugins' directories, and what their environment has besides PATH.

        The plugins' own directories are searched first. The original searched PATH first and alone, which turns a
        plugin called `logger` into the program of that name. In the plugins' PATH they come last, where the original
        put them (client.go, New).
        """
        self.loop = loop
        self.counters: Counter[str] = Counter()
        """What has happened so far: `runs`, `failures`, `late`, `killed`."""
        self._environment = {"PATH": ":".join((SYSTEM_PATH, *directories)), **environment}
        path = self._environment["PATH"].split(":")
        self._directories = [*directories, *(directory for directory in path if directory not in directories)]
        self._nobodys: set[Process] = set()
        """Those that run on with nobody waiting for them."""
        self._left: defaultdict[str, list[Process]] = defaultdict(list)
        """Those of them that have neither a result nor been killed, by plugin, the oldest first."""

    def find(self, type_: str) -> str:
        """Returns the program of a plugin type. Raises PluginError."""
        return find(type_, self._directories)

    def start(self, type_: str, on_end: Callable[[Process], None]) -> Process:
        """Starts a plugin, to be fed. `on_end` is called when it has ended, unless it was left before.

        Raises PluginError when it cannot be started.
        """

        def ended(process: Process) -> None:
            if process not in self._nobodys:
                on_end(process)
                return
            self._nobodys.remove(process)
            if process in self._left[type_]:
                self._left[type_].remove(process)
            log.info("%s: pid %d, which was left running, has ended: %s", type_, process.pid, process.ending)

        def said(line: str) -> None:
            log.info("%s: %s", type_, line, extra={"fields": {"plugin": type_, "stream": "stderr"}})

        path = self.find(type_)
        try:
            process = Process(self.loop, path, (type_, "invoke"), self._environment, ended, said)
        except OSError as error:
            raise PluginError(type_, f"{path}: {error.strerror}") from None
        self.counters["runs"] += 1
        return process

    def leave_done(self, process: Process) -> None:
        """Goes on without a process that has printed its result and works on."""
        self._nobodys.add(process)
        log.info("%s: pid %d works on after its result", process.name, process.pid)

    def leave(self, process: Process, *, kill: bool) -> None:
        """Goes on without a process that has no result: it is left to finish, or killed.

        Of too many that are left the oldest is killed.
        """
        self._nobodys.add(process)
        fate = "killed" if kill else "left to finish"
        log.warning("%s: pid %d has no result in time: %s", process.name, process.pid, fate)
        if kill:
            self.kill(process)
            return
        left = self._left[process.name]
        left.append(process)
        if len(left) > MAX_LEFT:
            oldest = left.pop(0)
            log.error("%s: more than %d left: pid %d, the oldest, is killed", process.name, MAX_LEFT, oldest.pid)
            self.kill(oldest)

    def kill(self, process: Process) -> None:
        """Kills a process. Whoever waits for it is told as for any other end."""
        self.counters["killed"] += 1
        process.kill()
