"""Checks the hooks: every file in every directory, and the programs of the hooks."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterator, Sequence

from nri.text import printable
from v010_adapter.base import gojson
from v010_adapter.cli.arguments import count
from v010_adapter.cli.check import configuration, faults
from v010_adapter.cli.check.report import NOTE, OK, PROBLEM, Item
from v010_adapter.cli.hooks import keys
from v010_adapter.cli.terminal import announce_if_slow
from v010_adapter.errors import reason_of
from v010_adapter.hooks import model, patterns
from v010_adapter.hooks.decode import Document, HookError
from v010_adapter.hooks.directory import SYSTEMD_CAT, Directories, program_of
from v010_adapter.hooks.file import MAX_SIZE
from v010_adapter.hooks.match import NOT_ALWAYS
from v010_adapter.hooks.model import Hook, When
from v010_adapter.host import paths
from v010_adapter.host.trust import interpreters
from v010_adapter.settings import HooksSettings

LONG = 90
"""Seconds. If the limits of all hooks add up to this, they are reported."""
KUBELETS_LIMIT = 120
"""Seconds for which a kubelet waits for a call by default (`runtimeRequestTimeout`)."""
UNCOUNTED = ("poststop", model.PRECREATE)
"""The stages whose limits do not count: no creation waits for poststop hooks; precreate hooks end with the event."""
NAMED = 5
"""Maximum number of files that one result names."""
LARGE = 1000
"""RE2 instructions of a pattern that is reported. In the worst case, an instruction takes 0.3 ms for 256 KiB of
annotations, which a pod may have."""


class HookFiles:
    """All files in the hooks directories. `in_force` has the hooks that are used, by their files' paths."""

    def __init__(self, settings: HooksSettings, host_root: str, runtimes: Collection[str]) -> None:
        directories = () if settings.enabled is False else settings.directories
        self._settings = settings._replace(directories=directories, watch=False)
        self._host_root = host_root
        self._runtimes = runtimes
        hooks = Directories(self._settings, host_root)
        self._hooks = [rule.named for rule in hooks.current().rules]
        self.in_force = {named.path: named.hook for named in self._hooks}
        self._reasons = hooks.problems

    def entries(self) -> Iterator[Item]:
        """Yields the results for the directories in their order, and for each file in them."""
        if self._settings.enabled is False:
            yield Item(NOTE, "switched off (hooks.enabled)")
        for directory in self._settings.directories:
            files = _files(directory)
            yield self._directory(directory, files)
            with announce_if_slow(f"checking {count(len(files), 'hook file')} in {directory}"):
                for file in files:
                    yield from self._file(file)
            for other in sorted({*_files(directory, "*.[jJ][sS][oO][nN]")}.difference(files)):
                yield Item(NOTE, "not a hook file: its name does not end in .json", other)
        yield from self._settings_of_no_file()
        yield from self._journal()
        yield from self._limits()

    def _settings_of_no_file(self) -> Iterator[Item]:
        known = {os.path.basename(file) for directory in self._settings.directories for file in _files(directory)}
        for name in self._settings.files if self._settings.directories else ():
            if name not in known:
                yield Item(NOTE, f"{name}: has settings (hooks.files), but is in none of the directories")

    def _journal(self) -> Iterator[Item]:
        """Yields whether the output of hooks can go to the journal, if it is to."""
        if self._settings.output == "journal" and self._settings.directories:
            reason = self._reasons.get(SYSTEMD_CAT)
            yield Item(PROBLEM, reason, SYSTEMD_CAT) if reason else Item(OK, "what hooks print goes to the journal")

    def _limits(self) -> Iterator[Item]:
        """Yields how long all hooks together can take, or which of them have no limit."""
        waiting = [named for named in self._hooks for stage in named.hook.stages if stage not in UNCOUNTED]
        unlimited = list(dict.fromkeys(named.file for named in waiting if named.timeout is None))
        total = sum(named.timeout or 0 for named in waiting)
        text = f"the limits of all hooks but poststop add up to {total} s"
        if unlimited:
            hangs = "a hook that hangs blocks its container for ever (hooks.timeout)"
            yield Item(NOTE, f"no limit: {_some(unlimited)}: {hangs}")
        if total >= LONG:
            yield Item(NOTE, f"{text}; a kubelet waits {KUBELETS_LIMIT} s for a call")
        elif waiting and not unlimited:
            yield Item(OK, text)

    def paths(self) -> Iterator[tuple[str, str]]:
        """Yields each file, and each program of the hooks in force, with its root directory."""
        yield from ((file, "/") for directory in self._settings.directories for file in _files(directory))
        for hook in self.in_force.values():
            yield hook.path, self._host_root
            _, search, _ = program_of(hook)
            yield from ((file, self._host_root) for file in interpreters(hook.path, search, self._host_root))

    def _directory(self, directory: str, files: Sequence[str]) -> Item:
        if directory in self._reasons:
            return Item(PROBLEM, self._reasons[directory], directory)
        if not os.path.isdir(directory):
            return configuration.missing(directory, self._host_root, "hooks.directories", "no hooks")
        hooks = [self.in_force[name] for file in files if (name := printable(file)) in self.in_force]
        used = sum(map(_has_condition, hooks))
        return Item(OK, f"{count(len(files), 'file')}, {count(used, 'hook')} in force", directory)

    def _file(self, file: str) -> Iterator[Item]:
        masks = "masks files of its name in earlier directories"
        reason = self._settings.trust(file, "/")
        if reason:
            yield Item(PROBLEM, f"not used: {reason}", file)
            return
        if os.path.realpath(file) == os.devnull:
            yield Item(OK, f"a link to {os.devnull}: {masks}", file)
            return
        try:
            text, _ = paths.read(file, MAX_SIZE)
            hook = model.parse(text, precreate=self._settings.precreate) if text else None
        except HookError as error:
            yield from _not_used(_faults(text, file, error))
        except (OSError, ValueError) as error:
            yield Item(PROBLEM, self._reasons.get(printable(file)) or reason_of(error), file)
        else:
            if hook is None:
                yield Item(OK, f"empty: {masks}", file)
            else:
                yield from self._good(file, text, hook)

    def _good(self, file: str, text: bytes, hook: Hook) -> Iterator[Item]:
        found = _faults(text, file)
        for pattern in dict.fromkeys(model.patterns_of(hook.when)):
            size = patterns.compiled(pattern).programsize
            if size > LARGE:
                slow = f"the pattern {pattern!r} has {size} instructions, more than {LARGE}: slow for long annotations"
                error = Document(text).error(slow, pattern)
                found.append(Item(PROBLEM, error.reason, file, error.line, error.column))
        if printable(file) not in self.in_force:
            reason = self._reasons.get(printable(file))
            if reason is None:
                namesakes = (os.path.join(one, os.path.basename(file)) for one in reversed(self._settings.directories))
                mask = next((one for one in namesakes if os.path.lexists(one) and one != file), "a file of its name")
                yield from [*found, Item(NOTE, f"masked by {mask}", file)]
            else:
                yield from _not_used(found if _is_about_path(found) else [Item(PROBLEM, reason, file), *found])
            return
        yield from found
        stages = ", ".join(hook.stages)
        yield from list(self._program(file, hook, found)) or [Item(OK, f"{stages}: {hook.path}", file)]
        yield from self._foreign_keys(file, text, hook)
        never, status, reason = "no container gets this hook", NOTE, "" if stages else "it has no stages"
        if not _has_condition(hook):
            status, reason = PROBLEM, "it has no condition"
        elif hook.when.always is False and not hook.when.any_of:
            reason = NOT_ALWAYS
        if reason:
            yield Item(status, f"{never}: {reason}", file)
        if {"prestart", "createRuntime"} <= set(hook.stages):
            yield Item(NOTE, "injected twice: prestart and createRuntime are the same stage", file)

    def _foreign_keys(self, file: str, text: bytes, hook: Hook) -> Iterator[Item]:
        """Yields each pattern for keys that only a runtime adds that is not on this node."""
        for pattern, _ in hook.when.annotations:
            if hint := keys.foreign(pattern, self._runtimes):
                error = Document(text).error(hint, pattern)
                yield Item(NOTE, error.reason, file, error.line, error.column)

    def _program(self, file: str, hook: Hook, found: Sequence[Item]) -> Iterator[Item]:
        """Yields why the hook's program cannot be started, unless another fault is about its path."""
        fault = not _is_about_path(found) and paths.start_fault(hook.path, self._host_root)
        if fault:
            yield Item(PROBLEM, f"its program {hook.path} {fault}", file)


def _some(names: Sequence[str]) -> str:
    more = [f"and {len(names) - NAMED} more"] if len(names) > NAMED else []
    return ", ".join([*names[:NAMED], *more])


def _has_condition(hook: Hook) -> bool:
    return hook.when != When(any_of=hook.when.any_of)


def _files(directory: str, pattern: str = "*.json") -> list[str]:
    names = glob.glob(pattern, root_dir=directory, include_hidden=True)
    return [os.path.join(directory, name) for name in sorted(names)]


def _is_about_path(found: Sequence[Item]) -> bool:
    """Whether one of the problems is about the path of the hook's program, in either version of the format."""
    return any(entry.status == PROBLEM and entry.message.startswith(("hook.path: ", "hook: ")) for entry in found)


def _not_used(found: Sequence[Item]) -> Iterator[Item]:
    """Yields the results for a file that is not used. The first problem says that."""
    first = next(entry for entry in found if entry.status == PROBLEM)
    for entry in found:
        yield entry._replace(message=f"not used: {entry.message}") if entry is first else entry


def _faults(text: bytes, file: str, error: HookError | None = None) -> list[Item]:
    """Returns the faults of a file that its schema finds, and the parser's `error` unless the schema has found it."""
    own = [Item(PROBLEM, error.reason, file, error.line, error.column)] if error else []
    try:
        gojson.document(text)
    except gojson.JSONError:
        return own
    entries = faults.find(text, file)
    places = {(entry.line, entry.column) for entry in entries if entry.status == PROBLEM}
    # An error without a place is a missing key. The schema finds missing keys, too.
    new = [one for one in own if (one.line, one.column) not in places and (one.line or not places)]
    return sorted([*entries, *new], key=faults.by_place)
