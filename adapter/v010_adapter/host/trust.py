"""Checks who can write to a file that the adapter reads or executes, and to the directories and links on its path.

Links are followed as the kernel follows them. Each directory on the path counts: its writers can replace the file.
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

from nri.text import printable
from v010_adapter.errors import reason_of
from v010_adapter.host import paths

log = logging.getLogger(__name__)

Trust: TypeAlias = Callable[[str, str], str]
"""Takes a file's path and the root directory of its node. Returns why the file must not be used, empty if it may be."""


class FileVerdict(NamedTuple):
    """Why a file must not be used, empty if it may be used; and warnings for the administrator."""

    error: str
    warnings: tuple[str, ...]


def judge(path: str, root: str = "/", *, owned: bool = False) -> FileVerdict:
    """Returns the verdict on a file of the node, whose files are below `root`.

    World-writable is an error. Group-writable is a warning. An owner other than root and this process's user is a
    warning, too. Below a sticky directory that others can write to, such an owner is an error: any user may own a file
    there. With `owned`, such an owner is always an error.
    """
    warnings: list[str] = []
    shared = ["/"] if owned else []
    """The directories on the path so far below which another owner is an error."""
    try:
        for place, status in paths.walk(paths.absolute(path), root):
            mode = status.st_mode
            is_open = mode & 0o022 and (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) and not _is_protected(place, status)
            others = [f"{printable(place)} {reason}" for reason in foreign(place, status, with_acl=bool(is_open))]
            if others and place.startswith(tuple(shared)):
                return FileVerdict(others[0], tuple(warnings))
            warnings += others
            if stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & 0o022:
                shared.append(place.rstrip("/") + "/")
            if is_open and mode & stat.S_IWOTH:
                return FileVerdict(f"{printable(place)} is world-writable", tuple(warnings))
            if is_open:
                groups = _writers(place, status)[1]
                warnings += [f"{printable(place)} is writable for group {group}" for group in groups]
    except (OSError, ValueError) as error:  # such as a file that has vanished meanwhile
        return FileVerdict(reason_of(error), tuple(warnings))
    return FileVerdict("", tuple(dict.fromkeys(warnings)))


def foreign(place: str, status: os.stat_result, *, with_acl: bool = True) -> Iterator[str]:
    """Yields a reason for each owner or ACL user of a file or directory who is neither root nor this process's user."""
    ours = (0, os.geteuid())
    if status.st_uid not in ours:
        yield f"belongs to user {status.st_uid}"
    users = _writers(place, status)[0] if with_acl else []
    yield from (f"is writable for user {user}" for user in users if user not in ours)


def _writers(place: str, status: os.stat_result) -> tuple[list[int], list[int]]:
    """Returns the users and the groups that can write to a file by its mode or its ACL, besides its owner."""
    if not status.st_mode & stat.S_IWGRP:
        return [], []  # with an ACL, these bits are its mask: nobody has more rights than the mask
    try:
        text = os.getxattr(place, "system.posix_acl_access", follow_symlinks=False)
    except OSError:  # the file has no ACL
        return [], [status.st_gid]
    entries = [entry for entry in _ACL_ENTRY.iter_unpack(text[_ACL_HEADER:]) if entry[1] & _ACL_WRITE]
    users, groups = ([number for tag, _, number in entries if tag == kind] for kind in (_ACL_USER, _ACL_GROUP))
    return users, [status.st_gid for tag, *_ in entries if tag == _ACL_GROUP_OBJ] + groups


_ACL_HEADER = 4
_ACL_ENTRY = struct.Struct("<HHI")
"""An entry of linux/posix_acl_xattr.h: tag, permissions, user or group."""
_ACL_WRITE, _ACL_USER, _ACL_GROUP_OBJ, _ACL_GROUP = 2, 2, 4, 8


def strict(path: str, root: str = "/", *, owned: bool = False) -> str:
    """Returns the error about a file; logs each warning once. See Trust, and `judge`."""
    error, warnings = judge(path, root, owned=owned)
    for warning in warnings:
        warn(warning)
    return error


def off(path: str, root: str = "/") -> str:
    """Trusts every file. See Trust."""
    return ""


class TrustedPrograms:
    """Remembers which programs may be used, until a program or its interpreter changes."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._good: dict[str, tuple[tuple[int, ...], dict[str, tuple[int, ...]]]] = {}

    def fault(self, path: str, status: os.stat_result, root: str = "/", search: str = os.defpath) -> str:
        """Returns why the program with this status must not be used, empty if it may be. `search` is its PATH."""
        version, others = self._good.get(path, ((), {}))
        if version == paths.version(status):
            for file, version in others.items():
                if _version_of(file, search, root) != version:
                    break
            else:
                return ""
        others = {file: _version_of(file, search, root) for file in _interpreters(path, search, root)}
        for file in (path, *interpreters(path, search, root)):
            if reason := self._trust(file, root):
                return reason if file == path else f"its interpreter {printable(file)}: {reason}"
        self._good[path] = paths.version(status), others
        return ""


def interpreters(path: str, search: str, root: str = "/") -> Iterator[str]:
    """Yields the interpreters of a script that exist."""
    for file in _interpreters(path, search, root):
        if _version_of(file, search, root):  # without it, the program cannot be started
            yield paths.find_in_path(file, search, root)


def _interpreters(path: str, search: str, root: str) -> Iterator[str]:
    with suppress(OSError, ValueError):  # the interpreters that are known so far
        executed = paths.executed_files(path, search, root)
        next(executed)
        yield from executed


def _version_of(file: str, search: str, root: str) -> tuple[int, ...]:
    """Returns the version of an interpreter, empty if it does not exist."""
    try:
        is_whole = root == "/" and "/" in file
        return paths.version(os.stat(file if is_whole else paths.in_root(root, paths.find_in_path(file, search, root))))
    except (OSError, ValueError):
        return ()


@lru_cache(1000)
def warn(warning: str) -> None:
    """Logs a warning once."""
    log.warning("trust: %s", warning)


def _is_protected(place: str, status: os.stat_result) -> bool:
    """Whether others can write to a directory, but cannot replace files in it that are not theirs.

    That is so in sticky directories, and in the root directories of Kubernetes' ConfigMap volumes: these have the mode
    0777 and the link `..data`, but containers see them through a read-only mount.
    """
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, os.geteuid()):
        return False
    return bool(status.st_mode & stat.S_ISVTX) or (os.path.islink(f"{place}/..data") and _is_read_only_mount(place))


def _is_read_only_mount(place: str) -> bool:
    with open("/proc/self/mountinfo", "rb") as file:
        mounts = [line.split() for line in file]
    path = os.fsencode(place)
    found = [one for one in mounts if _ESCAPED.sub(lambda escaped: bytes([int(escaped[1], 8)]), one[4]) == path]
    return bool(found) and b"ro" in found[-1][5].split(b",")  # the last mount hides the mounts before


_ESCAPED = re.compile(rb"\\([0-7]{3})")
"""A blank or backslash, which mountinfo writes as an octal number."""
