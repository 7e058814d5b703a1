"""The hooks: every file of every directory, and the programs that they run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from adapter import gojson
from adapter.check import faults, program
from adapter.check.faults import Fault
from adapter.check.report import NOTE, OK, PROBLEM, Entry
from adapter.errors import ConfigError
from adapter.hooks import model
from adapter.hooks.directory import Directories
from adapter.hooks.file import printable
from adapter.hooks.match import Facts
from adapter.hooks.model import Hook, HookError, When
from adapter.legacy.config import read as read_bounded
from adapter.settings import HooksSettings


class HookFiles:
    """All files of the hooks directories; `in_force` are the hooks that count, by their files' paths."""

    def __init__(self, own: HooksSettings, host_root: str) -> None:
        """Takes what is configured, and where the file system is in which hooks' programs are run."""
        self._own = own
        self._host_root = host_root
        self.in_force: dict[str, Hook] = {}
        self._reasons: dict[str, str] = {}
        if own.enabled is not False:
            watched = Directories(own.directories, host_root, watch=False, extension_stages=own.extension_stages)
            decisions = watched.current().explain(Facts({}, None, has_bind_mounts=False))
            self.in_force = {decision.named.path: decision.named.hook for decision in decisions}
            self._reasons = {problem.path: problem.reason for problem in watched.problems}

    def entries(self) -> Iterator[Entry]:
        """Yields what there is to say about the directories in their order, and about each file in them."""
        if self._own.enabled is False:
            yield Entry(NOTE, "switched off (hooks.enabled)")
            return
        for directory in self._own.directories:
            paths = _paths(directory)
            yield self._directory(directory, paths)
            for path in paths:
                yield from (entry._replace(file=path) for entry in self._file(path))

    def _directory(self, directory: str, paths: Sequence[str]) -> Entry:
        if directory in self._reasons:
            return Entry(PROBLEM, self._reasons[directory], directory)
        if not os.path.isdir(directory):
            return Entry(OK, "not there: no hooks", directory)
        used = sum(printable(path) in self.in_force for path in paths)
        return Entry(OK, f"{_count(len(paths), 'file')}, {_count(used, 'hook')} in force", directory)

    def _file(self, path: str) -> Iterator[Entry]:
        if os.path.realpath(path) == os.devnull:
            yield Entry(OK, f"a link to {os.devnull}: masks files of its name in the directories before")
            return
        try:
            text, _ = read_bounded(path)
        except (OSError, ConfigError) as error:
            yield Entry(PROBLEM, self._reasons.get(printable(path)) or str(error))
            return
        if not text:
            yield Entry(OK, "empty: masks files of its name in the directories before")
            return
        try:
            hook = model.parse(text, self._own.extension_stages)
        except HookError as error:
            yield from map(_located, _all_faults(text, error))
            instead = self._namesake(path)
            yield Entry(PROBLEM, f"not used; {instead} is in force in its place" if instead else "not used")
            return
        yield from map(_located, faults.find_in_hook(text))
        yield from self._good(path, hook)

    def _good(self, path: str, hook: Hook) -> Iterator[Entry]:
        """Yields whether a file that has no faults is used, and what for."""
        if printable(path) not in self.in_force:
            reason = self._reasons.get(printable(path))
            yield Entry(PROBLEM, f"not used: {reason}") if reason else Entry(NOTE, f"masked by {self._mask(path)}")
            return
        fault = program.fault(hook.path, self._host_root) if hook.path.startswith("/") else ""
        stages = ", ".join(hook.stages)
        yield Entry(PROBLEM, f"its program {hook.path} {fault}") if fault else Entry(OK, f"{stages}: {hook.path}")
        if not stages or never(hook.when):
            yield Entry(NOTE, f"no container gets it: {'its conditions say so' if stages else 'it has no stages'}")
        if {"prestart", "createRuntime"} <= set(hook.stages):
            yield Entry(NOTE, "injected twice: prestart and createRuntime are the same stage")

    def _mask(self, path: str) -> str:
        """Returns the file that masks another."""
        name = os.path.basename(path)
        others = [os.path.join(directory, name) for directory in reversed(self._own.directories)]
        return next((other for other in others if os.path.lexists(other) and other != path), "a file of its name")

    def _namesake(self, path: str) -> str:
        """Returns the file of the same name, in another directory, that is in force."""
        name = printable(os.path.basename(path))
        return next((other for other in self.in_force if os.path.basename(other) == name), "")


def _paths(directory: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [os.path.join(directory, name) for name in sorted(names) if name.endswith(".json")]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _located(fault: Fault) -> Entry:
    return Entry(NOTE if fault.tolerated else PROBLEM, fault.message, line=fault.line, column=fault.column)


def never(when: When) -> bool:
    """Whether the conditions hold for no container at all."""
    conditions = [when.always, when.has_bind_mounts, *when.annotations, *when.commands]
    if when.any_of:
        return not any(conditions)
    return False in (when.always, when.has_bind_mounts) or all(condition is None for condition in conditions)


def _all_faults(text: bytes, error: HookError) -> list[Fault]:
    """Returns every fault of a file that the parser, which ends with the first, refuses."""
    first = Fault(error.line, error.column, error.reason)
    try:
        gojson.document(text)
    except gojson.JSONError:
        return [first]
    found = faults.find_in_hook(text)
    serious = [fault for fault in found if not fault.tolerated]
    # What has no place is something missing, and the schema knows of that too.
    known = bool(serious) and not error.line
    return found if known or first[:2] in [fault[:2] for fault in serious] else sorted([*found, first])
