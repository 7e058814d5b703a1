"""Where paths lead, and inotify to hear of it when they come to lead elsewhere.

What a path leads to depends on every name that is looked up on the way, those in symbolic links included. So each
directory on the way is watched, for the names that matter in it: whatever appears, is replaced, renamed or linked
anew, wherever on the way, is an event.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

log = logging.getLogger(__name__)

# The kernel's flags. inotify_simple has them too; it is imported only where something is watched.
MODIFY = 0x2
ATTRIB = 0x4
CLOSE_WRITE = 0x8
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
Q_OVERFLOW = 0x4000
ONLYDIR = 0x1000000
EXCL_UNLINK = 0x4000000
MASK_ADD = 0x20000000

# A watch that the kernel ends, for what was watched is gone, is an event without being asked for.
NAMES = CREATE | DELETE | MOVED_FROM | MOVED_TO | ATTRIB | ONLYDIR
"""What is to be known of a directory in which names are looked up."""
CONTENTS = NAMES | MODIFY | CLOSE_WRITE | EXCL_UNLINK
"""What is to be known of a directory whose files are read."""
FILE = MODIFY | CLOSE_WRITE | ATTRIB
"""What is to be known of a file that may be changed by another name than that under which it was found."""

MAX_LINKS = 40
"""Symbolic links on the way to one file: the kernel's limit."""
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


class Event(Protocol):
    """An event of inotify's: what happened to a name in a watched directory, to the directory itself without one."""

    @property
    def wd(self) -> int:
        """The watch that it comes from, -1 where events were lost."""

    @property
    def mask(self) -> int:
        """What happened."""

    @property
    def name(self) -> str:
        """The name, empty for what happened to the watched thing itself."""


class Watcher:
    """An inotify descriptor."""

    def __init__(self) -> None:
        """Opens the descriptor. Raises OSError."""
        import inotify_simple  # type: ignore[import-untyped]  # noqa: PLC0415 - 8 ms and a megabyte, for those who watch

        # It would run ldconfig to find the C library, which is in this process already.
        inotify_simple.find_library = lambda _: None
        self._inotify = inotify_simple.INotify(nonblocking=True)
        self._watched: set[int] = set()
        self.failure = ""
        """What could not be watched, and why; empty while events tell everything."""

    def fileno(self) -> int:
        """Returns the descriptor, readable when there are events."""
        return int(self._inotify.fileno())

    def close(self) -> None:
        """Closes the descriptor."""
        self._inotify.close()

    def events(self) -> Sequence[Event]:
        """Returns all events up to now without waiting: the kernel queues them before a change's system call ends."""
        events: Sequence[Event] = self._inotify.read(timeout=0)
        return events

    def add(self, path: str, mask: int) -> int | None:
        """Watches what a path leads to, for that too; returns the watch, None where there is nothing or it failed."""
        try:
            watch = int(self._inotify.add_watch(path, mask | MASK_ADD))
        except OSError as error:
            if error.errno not in _ABSENT and not self.failure:
                self.failure = f"{path!r}: {error.strerror}"
            return None
        self._watched.add(watch)
        return watch

    def try_again(self) -> str:
        """Forgets what could not be watched, and returns it."""
        failure, self.failure = self.failure, ""
        return failure

    def keep(self, wanted: AbstractSet[int]) -> None:
        """Ends all other watches."""
        for watch in self._watched - wanted:
            with contextlib.suppress(OSError):  # the kernel ends a watch itself when what it watches is gone
                self._inotify.rm_watch(watch)
        self._watched &= wanted


def open_watcher() -> Watcher | None:
    """Returns a watcher, None where the kernel has none to give."""
    try:
        return Watcher()
    except OSError as error:
        tell("", f"anything: {error.strerror}")
        return None


def tell(old: str, new: str) -> None:
    """Logs what cannot be watched, if that is new."""
    if new and not old:
        log.warning("hooks: cannot watch %s; all files are looked at for each container instead", new)
    elif old and not new:
        log.info("hooks: everything is watched again")


class Trail:
    """The names that decide what some paths lead to, watched if there is a watcher.

    What was looked up once is taken as known, so a trail is good until an event crosses it.
    """

    def __init__(self, watcher: Watcher | None, root: str = "/") -> None:
        """Takes the directory that is `/` for the paths, and for the links on their way."""
        self._watcher = watcher
        self._root = root.rstrip("/")
        self._names: dict[int, set[str]] = {}
        self._files: set[int] = set()
        self._watches: dict[str, int | None] = {}
        self._known: dict[str, tuple[str, str]] = {}

    @property
    def watches(self) -> AbstractSet[int]:
        """The watches that the trail needs."""
        return self._names.keys() | self._files

    def follow(self, path: str) -> str:
        """Returns why a path leads nowhere, empty where it leads to something, whatever that is."""
        at, names, links = self._root, path.split("/")[::-1], 0
        while names:
            name = names.pop()
            target, fault = self._look_up(at, name or ".")
            if fault:
                return fault
            if target:
                links += 1
                if links > MAX_LINKS:
                    return os.strerror(errno.ELOOP)
                names += target.split("/")[::-1]
                at = self._root if target.startswith("/") else at
            elif name == "..":
                at = at if at == self._root else at[: at.rindex("/")]
            elif name not in {"", "."}:
                at = f"{at}/{name}"
        return ""

    def watch(self, directory: str, mask: int) -> int | None:
        """Watches a directory, for events of its own too; returns the watch, None without one."""
        watch = self._watcher.add(directory, mask) if self._watcher else None
        if watch is not None:
            self._names.setdefault(watch, set())
        return watch

    def watch_file(self, path: str) -> int | None:
        """Watches the file that a path leads to, by whichever name it is changed; no event of it crosses the trail."""
        watch = self._watcher.add(path, FILE) if self._watcher else None
        if watch is not None:
            self._files.add(watch)
        return watch

    def is_crossed_by(self, event: Event) -> bool:
        """Whether paths may lead elsewhere since an event."""
        names = self._names.get(event.wd)
        return names is not None and (not event.name or event.name in names)

    def _look_up(self, directory: str, name: str) -> tuple[str, str]:
        """Returns the target of a symbolic link, empty if it is none, and why there is nothing of that name."""
        path = f"{directory}/{name}"
        if path not in self._known:
            self._expect(directory, name)  # first, so that no change goes unheard
            self._known[path] = _read_link(path)
        return self._known[path]

    def _expect(self, directory: str, name: str) -> None:
        if directory not in self._watches:
            self._watches[directory] = self.watch(directory or "/", NAMES)
        watch = self._watches[directory]
        if watch is not None:
            self._names[watch].add(name)


def _read_link(path: str) -> tuple[str, str]:
    try:
        return os.readlink(path), ""
    except OSError as error:
        return "", "" if error.errno == errno.EINVAL else error.strerror or str(error)
    except ValueError as error:  # no name at all: a NUL character, or nothing that could be encoded
        return "", str(error)
