"""Who can write to what the adapter believes or executes: a file, and everything that a look-up of its path passes.

Links are followed as the kernel follows them. Each directory that is passed counts: its writers can replace the file.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from adapter import paths
from adapter.sanitize import printable

log = logging.getLogger(__name__)

Trust: TypeAlias = Callable[[str, str], str]
"""Takes a file's path and the root directory of its node; returns why the file must not be used, empty if it may be."""


class Verdict(NamedTuple):
    """Why a file must not be used, empty if it may be; and what the administrator should know."""

    error: str
    warnings: tuple[str, ...]


def judge(path: str, root: str = "/") -> Verdict:
    """Returns the decision about a file of the node whose files are below `root`.

    World-writable is an error. Group-writable is a warning. So is another owner than root and our user, but below a
    directory that many can write to it is an error: any of them may be that owner.
    """
    warnings: list[str] = []
    shared: list[str] = []
    """The sticky directories that have been passed."""
    try:
        for place, status in paths.walk(paths.absolute(path), root):
            mode = status.st_mode
            if owner := foreign(status):
                if place.startswith(tuple(shared)):
                    return Verdict(f"{printable(place)} {owner}", tuple(warnings))
                warnings.append(f"{printable(place)} {owner}")
            if stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & 0o022:
                shared.append(place.rstrip("/") + "/")
            if not mode & 0o022 or not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) or _is_protected(place, status):
                continue
            if mode & stat.S_IWOTH:
                return Verdict(f"{printable(place)} is world-writable", tuple(warnings))
            warnings.append(f"{printable(place)} is writable for group {status.st_gid}")
    except (OSError, ValueError) as error:  # it has vanished meanwhile
        return Verdict(getattr(error, "strerror", None) or str(error), tuple(warnings))
    return Verdict("", tuple(dict.fromkeys(warnings)))


def foreign(status: os.stat_result) -> str:
    """Returns to whom a file belongs, if that is neither root nor our user."""
    return "" if status.st_uid in (0, os.geteuid()) else f"belongs to user {status.st_uid}"


def strict(path: str, root: str = "/") -> str:
    """Returns the error about a file; logs each warning once. See Trust."""
    error, warnings = judge(path, root)
    for warning in warnings:
        _warn(warning)
    return error


def off(path: str, root: str = "/") -> str:
    """Trusts every file. See Trust."""
    return ""


class Trusted:
    """The files that were found good; decides again only when the status of a file has changed."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._good: dict[str, tuple[int, ...]] = {}

    def fault(self, path: str, status: os.stat_result, root: str = "/") -> str:
        """Returns why the file with this status must not be used, empty if it may be."""
        identity = status.st_ino, status.st_ctime_ns, status.st_dev  # each change of a file changes its ctime
        if self._good.get(path) == identity:
            return ""
        reason = self._trust(path, root)
        if not reason:
            self._good[path] = identity
        return reason


@lru_cache(1000)
def _warn(warning: str) -> None:
    log.warning("trust: %s", warning)


def _is_protected(place: str, status: os.stat_result) -> bool:
    """Whether a directory is one in which nobody can replace the files of others, although many can write to it.

    These are sticky directories, and the roots of Kubernetes' ConfigMap volumes, of which containers see a mount of
    its own: mode 0777, with the link `..data`.
    """
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, os.geteuid()):
        return False
    return bool(status.st_mode & stat.S_ISVTX) or (os.path.islink(f"{place}/..data") and _is_mount_point(place))


def _is_mount_point(place: str) -> bool:
    """Whether something is mounted on a directory, perhaps from the same file system."""
    with open("/proc/self/mountinfo", "rb") as file:
        return any(_ESCAPED.sub(_character, line.split()[4]) == os.fsencode(place) for line in file)


_ESCAPED = re.compile(rb"\\([0-7]{3})")


def _character(escaped: re.Match[bytes]) -> bytes:
    """Returns the blank or backslash that mountinfo has as an octal number."""
    return bytes([int(escaped[1], 8)])
