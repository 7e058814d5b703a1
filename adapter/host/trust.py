"""Who can write to what the adapter believes or executes: a file, and everything that a look-up of its path passes.

Links are followed as the kernel follows them. Each directory that is passed counts: its writers can replace the file.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from adapter.base.sanitize import printable
from adapter.host import paths

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
            is_open = mode & 0o022 and (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) and not _is_protected(place, status)
            others = [f"{printable(place)} {reason}" for reason in foreign(place, status, with_acl=bool(is_open))]
            if others and place.startswith(tuple(shared)):
                return Verdict(others[0], tuple(warnings))
            warnings += others
            if stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & 0o022:
                shared.append(place.rstrip("/") + "/")
            if is_open and mode & stat.S_IWOTH:
                return Verdict(f"{printable(place)} is world-writable", tuple(warnings))
            if is_open:
                groups = _writers(place, status)[1]
                warnings += [f"{printable(place)} is writable for group {group}" for group in groups]
    except (OSError, ValueError) as error:  # it has vanished meanwhile
        return Verdict(getattr(error, "strerror", None) or str(error), tuple(warnings))
    return Verdict("", tuple(dict.fromkeys(warnings)))


def foreign(place: str, status: os.stat_result, *, with_acl: bool = True) -> Iterator[str]:
    """Yields why a file or a directory is in the hands of users other than root and ours: its owner, its ACL."""
    ours = (0, os.geteuid())
    if status.st_uid not in ours:
        yield f"belongs to user {status.st_uid}"
    users = _writers(place, status)[0] if with_acl else []
    yield from (f"is writable for user {user}" for user in users if user not in ours)


def _writers(place: str, status: os.stat_result) -> tuple[list[int], list[int]]:
    """Returns the users and the groups that can write to a file by its mode or its ACL, besides its owner."""
    if not status.st_mode & stat.S_IWGRP:
        return [], []  # with an ACL, these bits are its mask: more than them nobody has
    try:
        text = os.getxattr(place, "system.posix_acl_access", follow_symlinks=False)
    except OSError:  # it has none
        return [], [status.st_gid]
    entries = [entry for entry in _ACL_ENTRY.iter_unpack(text[_ACL_HEADER:]) if entry[1] & _ACL_WRITE]
    users, groups = ([number for tag, _, number in entries if tag == kind] for kind in (_ACL_USER, _ACL_GROUP))
    return users, [status.st_gid for tag, *_ in entries if tag == _ACL_GROUP_OBJ] + groups


_ACL_HEADER = 4
_ACL_ENTRY = struct.Struct("<HHI")
"""An entry of linux/posix_acl_xattr.h: tag, permissions, user or group."""
_ACL_WRITE, _ACL_USER, _ACL_GROUP_OBJ, _ACL_GROUP = 2, 2, 4, 8


def strict(path: str, root: str = "/") -> str:
    """Returns the error about a file; logs each warning once. See Trust."""
    error, warnings = judge(path, root)
    for warning in warnings:
        _warn(warning)
    return error


def off(path: str, root: str = "/") -> str:
    """Trusts every file. See Trust."""
    return ""


class TrustedPrograms:
    """The programs that were judged good. A program is judged again when one of its files has changed.

    The interpreters of a script are executed, too.
    """

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._good: dict[str, tuple[_Version, dict[str, _Version]]] = {}

    def fault(self, path: str, status: os.stat_result, root: str = "/", search: str = os.defpath) -> str:
        """Returns why the program with this status must not be used, empty if it may be. `search` is its PATH."""
        version, others = self._good.get(path, ((), {}))
        if version == _version(status) and all(
            _version_of(file, search, root) == version for file, version in others.items()
        ):
            return ""
        others = {file: _version_of(file, search, root) for file in _interpreters(path, search, root)}
        if reason := self._trust(path, root):
            return reason
        for file in interpreters(path, search, root):
            if reason := self._trust(file, root):
                return f"its interpreter {printable(file)}: {reason}"
        self._good[path] = _version(status), others
        return ""


def interpreters(path: str, search: str, root: str = "/") -> Iterator[str]:
    """Yields the interpreters of a script that are there."""
    for file in _interpreters(path, search, root):
        if _version_of(file, search, root):  # else the program cannot be started
            yield paths.find_in_path(file, search, root)


def _interpreters(path: str, search: str, root: str) -> Iterator[str]:
    with suppress(OSError, ValueError):  # as far as they are known
        executed = paths.executed_files(path, search, root)
        next(executed)
        yield from executed


_Version: TypeAlias = tuple[int, ...]


def _version(status: os.stat_result) -> _Version:
    return status.st_ino, status.st_ctime_ns, status.st_dev  # each change of a file changes its ctime


def _version_of(file: str, search: str, root: str) -> _Version:
    """Returns the version of an interpreter, empty if it is not there."""
    try:
        return _version(paths.status(paths.find_in_path(file, search, root), root))
    except (OSError, ValueError):
        return ()


@lru_cache(1000)
def _warn(warning: str) -> None:
    log.warning("trust: %s", warning)


def _is_protected(place: str, status: os.stat_result) -> bool:
    """Whether a directory is one in which nobody can replace the files of others, although many can write to it.

    These are sticky directories, and the roots of Kubernetes' ConfigMap volumes, of which containers see a mount of
    its own, which is read-only: mode 0777, with the link `..data`.
    """
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, os.geteuid()):
        return False
    return bool(status.st_mode & stat.S_ISVTX) or (os.path.islink(f"{place}/..data") and _is_read_only_mount(place))


def _is_read_only_mount(place: str) -> bool:
    """Whether something is mounted read-only on a directory, perhaps from the same file system."""
    with open("/proc/self/mountinfo", "rb") as file:
        mounts = [line.split() for line in file]
    found = [mount for mount in mounts if _ESCAPED.sub(_character, mount[4]) == os.fsencode(place)]
    return bool(found) and b"ro" in found[-1][5].split(b",")  # the last one covers those before


_ESCAPED = re.compile(rb"\\([0-7]{3})")


def _character(escaped: re.Match[bytes]) -> bytes:
    """Returns the blank or backslash that mountinfo has as an octal number."""
    return bytes([int(escaped[1], 8)])
