"""One file of a hooks.d directory: its last good version, and its error."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable

from nri.text import printable
from v010_adapter.errors import reason_of
from v010_adapter.hooks import model
from v010_adapter.hooks.decode import HookError
from v010_adapter.hooks.match import NamedHook
from v010_adapter.host import paths
from v010_adapter.settings import HooksSettings

log = logging.getLogger(__name__)

MAX_SIZE = 1 << 20
TRUNCATION_GRACE = 1_000_000_000
"""Nanoseconds. A file that became empty more recently than this is probably about to be written."""
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class HookFile:
    """A hook file. It is read only if its status has changed since the last reading."""

    __slots__ = ("_text", "error", "hook", "masks", "name", "path", "seen")

    def __init__(self, directory: str, name: str) -> None:
        self.name = name
        self.path = os.path.join(directory, name)
        self.hook: NamedHook | None = None
        self.masks = False
        """Whether the last good version is empty, and so masks files of this name in earlier directories."""
        self.error = ""
        self.seen: object = None
        """The file's version or the error number at the last reading; None if the file must be read again."""
        self._text: bytes | None = None

    def has_changed(self) -> bool:
        """Whether the file must be read. Follows links."""
        try:
            return paths.version(os.stat(self.path)) != self.seen
        except OSError as error:
            return error.errno != self.seen

    def read(self, now: Callable[[], int], settings: HooksSettings) -> None:
        """Reads the file if it may be trusted. `now` is a clock in nanoseconds.

        A file that became empty a moment ago keeps its last version if it will be read again, that is with `watch`.
        """
        self.seen = None
        read_at = now()
        try:
            text, status = _contents(self.path)
            reason = settings.trust(self.path, "/")
            if reason:  # `seen` stays None: the reason may be a directory's mode, which the file's status does not show
                raise ValueError(reason)
        except (OSError, ValueError) as error:
            self._cannot_be_read(error)
            return
        age, grace = now() - status.st_ctime_ns, TRUNCATION_GRACE if settings.watch else 0
        if not text and stat.S_ISREG(status.st_mode) and (status.st_size or 0 <= age < grace):
            return
        if text != self._text:
            self._parse(text, settings)
        self.seen = paths.version(status) if read_at - status.st_ctime_ns > paths.TIMESTAMP_STEP else None

    def _cannot_be_read(self, error: OSError | ValueError) -> None:
        self._text = None
        reason = reason_of(error)
        if isinstance(error, OSError) and error.errno in GONE:
            self.seen = error.errno
            self.hook, self.masks, self.error = None, False, f"leads nowhere: {reason}"
        else:
            self._reject(reason)

    def _parse(self, text: bytes, settings: HooksSettings) -> None:
        try:
            hook = model.parse(text, precreate=settings.precreate) if text else None
        except HookError as error:
            self._reject(str(error))
        except Exception as error:  # a bug that one file triggers must not affect other files
            log.exception("%s", printable(self.path))
            self._reject(f"a bug: {error!r}")
        else:
            own = settings.timeout, settings.not_in_of(self.name)
            self.hook = NamedHook(self.name, printable(self.path), hook, *own) if hook else None
            self.masks, self.error = not text, ""
        self._text = text

    def _reject(self, reason: str) -> None:
        self.error = reason + ("; the last good version stays in force" if self.hook or self.masks else "")


def _contents(path: str) -> tuple[bytes, os.stat_result]:
    """Returns a file's bytes (none for /dev/null) and its status before the reading. Raises OSError, ValueError."""
    status = os.stat(path)
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev:
        return b"", status
    return paths.read(path, MAX_SIZE)
