"""The hooks.d directories: which hook files are in force now.

A change is in force for the very next container: the kernel queues its events before whoever made it can go on, and
they are taken in before each match. Semantics are those of go.podman.io/common/pkg/hooks, hooks.go and read.go, but for
bad files: they stop nothing and hide nothing.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from adapter.hooks.file import GONE, PASSING, HookFile, printable
from adapter.hooks.match import Matcher, Named
from adapter.hooks.model import parse
from adapter.hooks.watch import (
    CLOSE_WRITE,
    CONTENTS,
    CREATE,
    DELETE,
    MODIFY,
    MOVED_FROM,
    MOVED_TO,
    Q_OVERFLOW,
    Event,
    Trail,
    open_watcher,
    tell,
)

log = logging.getLogger(__name__)


class Problem(NamedTuple):
    """A hook file or directory that cannot be used as it is now."""

    path: str
    reason: str


class _Source:
    """One of the directories, and the hook files found in it by their names."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.place = (0, 0)
        """Device and inode of the directory."""
        self.error = ""
        self.reported = ""
        self.files: dict[str, HookFile] = {}
        self.unclosed: dict[str, int] = {}
        """Files that somebody created or changed, whichever it was, and did not close since."""


_Key: TypeAlias = tuple[_Source, str]
"""A file: the directory in which it has its name."""


class Directories:
    """Watched directories of hook files. What a file said last stays in force until it makes sense again or is gone."""

    def __init__(
        self,
        directories: Sequence[str],
        host_root: str = "/",
        watch: bool = True,
        extension_stages: Sequence[str] = (),
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        """Takes directories in order of increasing preference, and what is `/` for the hooks' programs.

        All is read at once, and without `watch` never again. `now` is the clock of the files' times in nanoseconds.
        """
        self._sources = [_Source(_absolute(path)) for path in directories]
        self._host_root = host_root
        self._parse = functools.partial(parse, extension_stages=tuple(extension_stages))
        self._now = now
        self.files_read = 0
        self.reloads = 0
        """How often the hooks in force were replaced by others."""
        self.bad = 0
        """How often a file or directory was found bad, or bad in another way than before."""
        self._in_force: list[Named] = []
        self._matcher = Matcher(())
        self._contents: dict[int, list[_Source]] = {}
        """By watch, whose directory it is."""
        self._elsewhere: dict[int, set[_Key]] = {}
        """By watch, under which names the file of another directory is known."""
        self._missing: dict[str, str] = {}
        """Why a hook's program is not there, empty where it is."""
        self._unsettled: set[_Key] = set()
        """Files to be looked at again, event or not."""
        self._later: list[Event] = []
        """Events that are to be taken in next time."""
        self._events_are_not_all = False
        """Whether everything is to be looked at again, event or not."""
        self._watching = watch
        self._watcher = open_watcher() if watch else None
        self._scan()
        self._put_in_force()

    def fileno(self) -> int | None:
        """Returns the descriptor that is readable when `current` has something to do; None without one."""
        return self._watcher.fileno() if self._watcher else None

    def close(self) -> None:
        """Ends the watch; what is in force stays so."""
        if self._watcher:
            self._watcher.close()
        self._watching, self._watcher = False, None

    def current(self) -> Matcher:
        """Returns the hooks in force, after every change that was made before the call."""
        if self._watching:
            events = self._watcher.events() if self._watcher else ()
            if events or self._later or self._unsettled or self._events_are_not_all:
                self._take_in([*self._later, *events])
        return self._matcher

    @property
    def problems(self) -> list[Problem]:
        """What cannot be used, as of the last `current`: directories in their order, files by name."""
        return [Problem(printable(each.path), reason) for each in self._all() if (reason := self._complaint(each))]

    def _take_in(self, events: Iterable[Event]) -> None:
        """Looks again at what events tell of."""
        rescan, look_for_programs = self._events_are_not_all, False
        changed, self._unsettled, self._later = self._unsettled, set(), []
        for event in events:
            rescan = rescan or bool(event.mask & Q_OVERFLOW) or self._trail.is_crossed_by(event)
            look_for_programs = look_for_programs or self._programs_trail.is_crossed_by(event)
            for source, name in self._files_of(event):
                _note(source, name, event.mask)
                changed.add((source, name))
        for source, name in changed:
            if name in source.files:
                source.files[name].changed()
        if rescan:
            self._scan()
        elif changed or look_for_programs:
            for source, name in changed:
                self._load(source, name)
            self._look_for_programs(anew=look_for_programs)
        else:
            return
        self._put_in_force()

    def _files_of(self, event: Event) -> Iterable[_Key]:
        """Returns the files whose contents an event tells of."""
        if event.name.endswith(".json"):
            return [(source, event.name) for source in self._contents.get(event.wd, ())]
        return () if event.name else self._elsewhere.get(event.wd, ())

    def _scan(self) -> None:
        """Looks at everything, and reads what does not look the same as before."""
        self._trail = Trail(self._watcher)
        self._contents, self._elsewhere, self._unsettled = {}, {}, set()
        self._events_are_not_all = self._watcher is None
        failure = self._watcher.try_again() if self._watcher else ""
        for source in self._sources:
            self._list(source)
        self._look_for_programs(anew=True)
        if self._watcher:
            self._watcher.keep(self._trail.watches | self._programs_trail.watches)
            self._events_are_not_all |= bool(self._watcher.failure)
            tell(failure, self._watcher.failure)

    def _list(self, source: _Source) -> None:
        """Looks at every file of a directory."""
        self._trail.follow(source.path)
        watch = self._trail.watch(source.path, CONTENTS)
        if watch is not None:
            self._contents.setdefault(watch, []).append(source)
        try:
            status = os.stat(source.path)
            if source.place != (status.st_dev, status.st_ino):
                source.place = status.st_dev, status.st_ino
                source.unclosed.clear()  # those were others
            names = {name for name in os.listdir(source.path) if name.endswith(".json")}
            source.error = ""
        except OSError as error:
            names = set() if error.errno in GONE else set(source.files)
            self._events_are_not_all |= error.errno in PASSING
            source.error = "" if error.errno == errno.ENOENT else error.strerror or str(error)
        source.files = {name: file for name, file in source.files.items() if name in names}
        for name in names:
            self._load(source, name)

    def _load(self, source: _Source, name: str) -> None:
        """Looks at one file, and reads it if it does not look the same as before."""
        file = source.files.get(name) or HookFile(source.path, name)
        source.files[name] = file
        try:
            status = file.look(self._trail, source.place[0])
            if file.watch is not None:
                self._elsewhere.setdefault(file.watch, set()).add((source, name))
            if status is not None:
                self.files_read += 1
                if not file.read(status, self._parse, self._now(), lambda: self._is_unclosed(source, file)):
                    self._unsettled.add((source, name))
        except OSError as error:
            if not file.fail(error):
                del source.files[name]
            if error.errno in PASSING:
                self._unsettled.add((source, name))
        except Exception as error:  # one file shall not cost the others
            log.exception("%s", printable(file.path))
            file.reject(f"a bug: {error!r}")

    def _is_unclosed(self, source: _Source, file: HookFile) -> bool:
        """Whether somebody made or changed a file, maybe at this moment, and did not close it since."""
        if self._watcher:
            self._later += self._watcher.events()
        # A link is made without being opened, and the file it leads to is not a new one.
        doubtful = MODIFY if file.watch is not None else MODIFY | CREATE
        return bool(source.unclosed.get(file.name, 0) & doubtful) or any(
            (source, file.name) in self._files_of(event) for event in self._later
        )

    def _look_for_programs(self, anew: bool) -> None:
        """Finds out which programs of hooks are there: all `anew`, or those not looked for yet."""
        if anew:
            self._programs_trail = Trail(self._watcher, self._host_root)
            self._missing = {}
        for source in self._sources:
            for file in source.files.values():
                if file.hook and file.hook.hook.path not in self._missing:
                    program = file.hook.hook.path
                    self._missing[program] = self._programs_trail.follow(program)

    def _put_in_force(self) -> None:
        self._report()
        chosen: dict[str, Named | None] = {}
        for source in reversed(self._sources):
            for name, file in source.files.items():
                if file.masks or (file.hook and not self._missing[file.hook.hook.path]):
                    chosen.setdefault(name, file.hook)
        in_force = [hook for _, hook in sorted(chosen.items()) if hook]
        if in_force == self._in_force:
            return
        try:
            matcher = Matcher(in_force)
            matcher.prepare()  # while the one before is there, with which it may have much in common
            self._matcher, self._in_force = matcher, in_force
        except Exception:
            log.exception("a bug: hooks of which every one is good; those in force before stay so")
            return
        self.reloads += 1
        log.info("hooks: %d in force", len(in_force))

    def _report(self) -> None:
        """Logs what has become bad, or bad in another way, and what is good again."""
        for each in self._all():
            complaint = self._complaint(each)
            if complaint and complaint != each.reported:
                self.bad += 1
                log.error("%s: %s", printable(each.path), complaint)
            elif each.reported and not complaint:
                log.info("%s is in order again", printable(each.path))
            each.reported = complaint

    def _all(self) -> Iterator[_Source | HookFile]:
        for source in self._sources:
            yield source
            yield from (file for _, file in sorted(source.files.items()))

    def _complaint(self, each: _Source | HookFile) -> str:
        hook = each.hook.hook if isinstance(each, HookFile) and each.hook else None
        if each.error or hook is None or not self._missing[hook.path]:
            return each.error
        return f"its program {printable(hook.path)}: {self._missing[hook.path]}"


def _note(source: _Source, name: str, mask: int) -> None:
    """Notes what an event of a file says beyond that the file has changed."""
    if mask & (DELETE | MOVED_FROM):
        source.files.pop(name, None)
    if mask & (CREATE | MODIFY):
        source.unclosed[name] = mask
    elif mask & (CLOSE_WRITE | MOVED_TO | DELETE | MOVED_FROM):
        source.unclosed.pop(name, None)


def _absolute(path: str) -> str:
    """Returns a path that the daemon's way to `/` does not change; not os.path.abspath, to which `..` is not a name."""
    return (path if path.startswith("/") else f"{os.getcwd()}/{path}").rstrip("/") or "/"
