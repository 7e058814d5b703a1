"""Reads hook files before a container needs them, and between the daemon's other work."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable
from typing import Any

from nri import Deferred
from v010_adapter.base.loop import Loop
from v010_adapter.hooks.directory import Directories
from v010_adapter.hooks.steps import Steps

log = logging.getLogger(__name__)

PAUSE = 0.2
"""Seconds from the first change of a hook file until the files are read, if no container needs them earlier."""
RESERVE = 0.2
"""Seconds before its deadline at which a container stops waiting: precreate hooks and the answer need this time."""


class HookReader:
    """Keeps directories up to date. A container waits while files are read, but not until its deadline."""

    def __init__(self, loop: Loop, directories: Directories) -> None:
        self._loop = loop
        self._directories = directories
        self._inotify: Any = None
        self._steps: Steps[None] | None = None
        """The current reading, None between two readings."""
        self._waiting: list[Deferred[None]] = []
        """Containers that came before the current reading began."""
        self._next: list[Deferred[None]] = []
        """Containers that came during the current reading. They wait for the next one: files may have changed again."""

    def start(self) -> None:
        """Reads the files now, and again soon after each change, so that containers seldom wait."""
        if self._directories.settings.watch and self._inotify is None:
            self._inotify = _inotify(self._directories.settings.directories)
            if self._inotify is not None:
                self._loop.watch(self._inotify.fileno(), self._on_change)
        if self._steps is None:
            self._read()

    def _on_change(self) -> None:
        self._loop.unwatch(self._inotify.fileno())
        self._inotify.close()  # `start` then watches the directories that exist at that time
        self._inotify = None
        self._loop.call_at(self._loop.time() + PAUSE, self.start)

    def update(self, due: float) -> Deferred[None] | None:
        """Reads changed hook files for a container; returns what the container must wait for, None if nothing.

        `due` is when the runtime needs the answer, on the loop's clock. If the files are not read shortly before that,
        the container gets the hooks that were in force before, and the log says so.
        """
        waiting = self._waiting if self._steps is None else self._next
        if self._steps is None:
            self._read()
        if self._steps is None:
            return None
        end_of_wait: Deferred[None] = Deferred()
        waiting.append(end_of_wait)
        self._loop.call_at(due - RESERVE, lambda: self._wait_no_longer(end_of_wait))
        return end_of_wait

    def _wait_no_longer(self, end_of_wait: Deferred[None]) -> None:
        if not end_of_wait.done:
            log.warning("hooks: files are still being read; a container gets the hooks that were in force before")
            end_of_wait.complete()

    def _read(self) -> None:
        """Begins a reading if files have changed. A reading of one step also ends here."""
        if self._directories.has_changed():
            self._steps = self._directories.read()
            self._step(self._steps)

    def _step(self, steps: Steps[None]) -> None:
        try:
            next(steps)
        except StopIteration:
            self._end()
        except Exception:
            log.exception("a bug: hook files cannot be read; the hooks that were in force before stay in force")
            self._end()
        else:
            self._loop.call_soon(lambda: self._step(steps))

    def _end(self) -> None:
        """Ends the wait of this reading's containers. Begins the next reading if containers have come meanwhile."""
        self._steps = None
        served, self._waiting, self._next = self._waiting, self._next, []
        for end_of_wait in served:
            end_of_wait.complete()
        if self._waiting:
            self._read()
            if self._steps is None and self._waiting:  # nothing has changed
                self._end()


def _inotify(directories: Iterable[str]) -> Any:
    """Returns an inotify object that is readable after a change in directories, None if inotify is not available."""
    import inotify_simple  # type: ignore[import-untyped]  # noqa: PLC0415 - 8 ms and a megabyte, after registration

    inotify_simple.find_library = lambda _: None  # it would run ldconfig to find a library that is already loaded
    flags = inotify_simple.flags
    changes = flags.MODIFY | flags.ATTRIB | flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO
    try:
        inotify = inotify_simple.INotify(nonblocking=True)
    except OSError as error:
        log.info("hooks: no inotify (%s): changes are read when the next container is created", error.strerror)
        return None
    for directory in map(_existing, directories):
        for path in (directory, os.path.dirname(directory)):
            with contextlib.suppress(OSError):
                inotify.add_watch(path, changes | flags.DELETE_SELF | flags.MOVE_SELF)
    return inotify


def _existing(path: str) -> str:
    """Returns the directory, or its nearest parent that exists."""
    return path if os.path.isdir(path) else _existing(os.path.dirname(path))
