"""The hooks.d directories: which hooks are in force now.

The files are checked for each container, so a change counts for the next container. The rules are those of
go.podman.io/common/pkg/hooks, hooks.go and read.go, except that a bad file affects no other file.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from nri.text import printable
from v010_adapter.errors import reason_of
from v010_adapter.hooks.file import GONE, HookFile
from v010_adapter.hooks.match import Matcher, NamedHook
from v010_adapter.hooks.model import Hook
from v010_adapter.host import paths
from v010_adapter.host.trust import TrustedPrograms
from v010_adapter.settings import HooksSettings

log = logging.getLogger(__name__)

SYSTEMD_CAT = "/usr/bin/systemd-cat"
"""The program that connects the output of another one to the journal, and becomes that program."""
JOURNAL = "/run/systemd/journal/stdout"
"""The socket of the journal."""

HookProgram: TypeAlias = tuple[str, str, bool]
"""The path of a hook's program, its variable PATH, and whether the program runs on the node.

startContainer hooks run in the container. Upstream requires that the path exists on the node, too.
"""


def program_of(hook: Hook) -> HookProgram:
    """Returns the program of a hook."""
    search = [variable.removeprefix("PATH=") for variable in hook.env if variable.startswith("PATH=")]
    return hook.path, (search or [os.defpath])[-1], set(hook.stages) != {"startContainer"}


class _Directory:
    """One of the directories, and its hook files by name."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.files: dict[str, HookFile] = {}
        self._seen: list[str] | int = []
        """The names in it, or the number of the error, at the last look."""

    @property
    def error(self) -> str:
        """Why it could not be listed, empty if it could. A missing directory is no error."""
        return os.strerror(self._seen) if isinstance(self._seen, int) and self._seen != errno.ENOENT else ""

    def has_changed(self) -> bool:
        return _listing(self.path) != self._seen or any(map(HookFile.has_changed, self.files.values()))

    def list(self) -> None:
        """Finds the files."""
        self._seen = names = _listing(self.path)
        if isinstance(names, int):
            names = [] if names in GONE else list(self.files)
        hook_files = sorted(name for name in names if name.endswith(".json"))
        self.files = {name: self.files.get(name) or HookFile(self.path, name) for name in hook_files}


def _listing(path: str) -> list[str] | int:
    """Returns the names in a directory, or the number of the error."""
    try:
        return os.listdir(path)
    except OSError as error:
        return error.errno or 0


class Directories:
    """Directories of hook files. The last good version of a bad file is in force until the file is good or gone."""

    def __init__(self, settings: HooksSettings, host_root: str = "/", *, now: Callable[[], int] = time.time_ns) -> None:
        """Takes the settings, with paths in order of increasing preference; and the root of the hooks' programs.

        Nothing is read yet. Without `watch`, the files are read once; with `watch`, the paths must be absolute. `now`
        is the clock of the files' times, in nanoseconds.
        """
        self.settings = settings
        self._directories = list(map(_Directory, settings.directories))
        self.matcher = Matcher(())
        """The hooks in force, as of the last reading."""
        self.in_force: list[NamedHook] = []
        """The same hooks, by the file's name."""
        self.problems: dict[str, str] = {}
        """Why files and directories cannot be used, by path, as of the last reading: in the directories' order."""
        self._host_root = host_root
        self._now = now
        self._trusted = TrustedPrograms(settings.trust)
        self._faults: dict[HookProgram, str] = {}
        """Why each program cannot be run, as of the last reading; empty if it can."""
        self._journal_fault = ""
        """Why the output of hooks cannot go to the journal, as of the last reading; empty if it can, or is not to."""
        self._is_read = False

    @property
    def journal(self) -> str:
        """The path of systemd-cat, if it is to run the hooks: then their output is in the journal. Else empty."""
        return SYSTEMD_CAT if self.settings.output == "journal" and not self._journal_fault else ""

    def current(self) -> Matcher:
        """Returns the hooks in force, after reading all changes that were made before the call."""
        if self.has_changed():
            self._read()
        return self.matcher

    def has_changed(self) -> bool:
        """Whether files, directories or programs have changed since the last reading."""
        if not self._is_read:
            return True
        return self.settings.watch and (
            any(map(_Directory.has_changed, self._directories))
            or {program: self._fault(program) for program in self._faults} != self._faults
            or self._find_journal_fault() != self._journal_fault
        )

    def _read(self) -> None:
        """Reads changed files and puts the hooks in force."""
        self._is_read = False
        for directory in self._directories:
            directory.list()
            for file in directory.files.values():
                if file.has_changed():
                    file.read(self._now, self.settings)
        hooks = (file.hook.hook for directory in self._directories for file in directory.files.values() if file.hook)
        self._faults = {program: self._fault(program) for program in set(map(program_of, hooks))}
        self._journal_fault = self._find_journal_fault()
        self._report()
        self._put_in_force()
        self._is_read = True

    def _find_journal_fault(self) -> str:
        """Returns why systemd-cat would fail, and every container with it."""
        if self.settings.output != "journal":
            return ""
        if fault := self._program_fault((SYSTEMD_CAT, os.defpath, True)):
            return fault
        root = self._host_root
        sees_run = root == "/" or os.path.isdir(
            os.path.join(root, "run")
        )  # a pod may not see it: then only the program is looked for
        return f"{JOURNAL} does not exist" if sees_run and not os.path.exists(paths.in_root(root, JOURNAL)) else ""

    def _fault(self, program: HookProgram) -> str:
        reason = self._program_fault(program)
        return reason and f"its program {printable(program[0])}: {reason}"

    def _program_fault(self, program: HookProgram) -> str:
        path, search, runs_on_node = program
        try:
            status = os.stat(paths.in_root(self._host_root, path))
        except (OSError, ValueError) as error:
            return reason_of(error)
        if not runs_on_node:
            return ""
        if not paths.is_program(status):
            return "not an executable file"
        return self._trusted.fault(path, status, self._host_root, search)

    def _fault_of(self, file: HookFile) -> str:
        return self._faults[program_of(file.hook.hook)] if file.hook else ""

    def _put_in_force(self) -> None:
        by_name: dict[str, NamedHook | None] = {}
        for directory in reversed(self._directories):
            for name, file in directory.files.items():
                if file.masks or (file.hook and not self._fault_of(file)):
                    by_name.setdefault(name, file.hook)
        in_force = [hook for _, hook in sorted(by_name.items()) if hook]
        if in_force == self.in_force:
            return
        try:
            matcher = Matcher(in_force)
        except Exception:
            log.exception("a bug: the hooks cannot be matched; the hooks that were in force before stay in force")
            return
        before = {named.path: named for named in self.in_force}
        self.matcher, self.in_force = matcher, in_force
        log.info("hooks: %d in force", len(in_force))
        for named in in_force:
            if before.get(named.path) != named:
                program, stages = printable(named.hook.path), ", ".join(named.hook.stages)
                log.info("hooks: %s is in force: it runs %s at %s", named.path, program, stages)

    def _report(self) -> None:
        """Stores all problems, and logs the new ones and those that are gone."""
        before, self.problems = self.problems, dict(self._find_problems())
        for path, reason in self.problems.items():
            if before.pop(path, "") != reason:
                log.error("%s: %s", path, reason)
        for path in before:
            log.info("%s: no error any more", path)

    def _find_problems(self) -> Iterator[tuple[str, str]]:
        for directory in self._directories:
            if directory.error:
                yield printable(directory.path), directory.error
            for file in directory.files.values():
                reason = file.error or self._fault_of(file)
                if reason:
                    yield printable(file.path), reason
        if self._journal_fault:
            yield SYSTEMD_CAT, f"{self._journal_fault} (hooks.output: journal); the runtime gets what hooks print"
