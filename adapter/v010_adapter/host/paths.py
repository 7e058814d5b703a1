"""Files of the node: paths below another root directory, reading regular files only, interpreters of scripts."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import IO

from nri.scripts import first_line
from v010_adapter.errors import ConfigError, reason_of

MAX_LINKS = 40
"""Maximum number of symbolic links in one path, as in the kernel."""
MAX_INPUT = 16 << 20
"""Maximum bytes of a configuration file, and of a file that is named on the command line."""
TIMESTAMP_STEP = 50_000_000
"""Nanoseconds. If a file was written more recently than this, its next change may leave its timestamp as it is."""
MAX_EXECUTED = 20
"""Maximum number of scripts in one start. Linux allows five (fs/exec.c, exec_binprm), and five more for each `env`."""


def absolute(path: str) -> str:
    """Returns a path that does not depend on the working directory. Raises OSError."""
    return path if path.startswith("/") else f"{os.getcwd()}/{path}"


def in_root(root: str, path: str, *, follow: bool = True) -> str:
    """Returns the path at which this process finds an absolute path of the node, whose files are below `root`.

    Symbolic links are resolved below `root`, the last one only with `follow`. Names that do not exist are kept. Raises
    OSError for too many links.
    """
    if root == "/" or not path.startswith("/"):
        return path
    *_, last = _places(path, root, follow=follow)
    return last.removesuffix("/.")


def _places(path: str, root: str, *, follow: bool = True) -> Iterator[str]:
    """Yields each place on an absolute path: a directory as `PATH/.`, or a name in it, links included.

    Raises OSError for too many links.
    """
    top = at = root.rstrip("/")
    names, links = path.split("/")[::-1], 0
    while names:
        name = names.pop()
        if name in {"", ".", ".."}:
            yield f"{at}/."
            if name == ".." and at != top:
                at = at.rpartition("/")[0]
                yield f"{at}/."
            continue
        place = f"{at}/{name}"
        yield place
        if not os.path.islink(place) or not (follow or any(names)):
            at = place
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place)
        target = os.readlink(place)
        names += target.split("/")[::-1]
        at = top if target.startswith("/") else at


version: Callable[[os.stat_result], tuple[int, ...]] = attrgetter(
    "st_dev", "st_ino", "st_mode", "st_uid", "st_gid", "st_size", "st_mtime_ns", "st_ctime_ns"
)
"""Returns the version of a file, given its status: the part that changes with the file. The last part is its ctime.

Before Linux 6.13, the times stand still for up to 10 ms: mode and owner change in any case.
"""


def version_at(path: str) -> tuple[int, ...] | None:
    """Returns the version of the file at a path, None if there is none."""
    with suppress(OSError):
        return version(os.stat(path))
    return None


def read(path: str, limit: int) -> tuple[bytes, os.stat_result]:
    """Returns a regular file's bytes, and its status before they were read.

    Raises OSError, and ValueError for other files and for more than `limit` bytes.
    """
    _check(os.stat(path))  # before opening it: some devices do something when they are opened
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        _check(status)
        return at_most(file, limit, status.st_size), status


def at_most(file: IO[bytes], limit: int, size: int = 0) -> bytes:
    """Returns the rest of a file, whose status says `size`. Raises OSError, ValueError for more than `limit` bytes."""
    text = file.read(limit + 1)
    if text is None:  # a file that waits for data, such as /proc/kmsg
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    if len(text) > limit:
        raise ValueError(f"{max(size, len(text))} bytes, at most {limit}")
    return text


def read_text(path: str, limit: int = MAX_INPUT) -> str | None:
    """Returns the text of a configuration file, None if it does not exist. Raises ConfigError."""
    try:
        return text(read(path, limit)[0], path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(path, reason_of(error)) from None


def text(data: bytes, place: str) -> str:
    """Returns the text of a file; `place` is its name in errors. Raises ConfigError with the wrong byte's line."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{place}:{line}", f"not a text: the byte 0x{data[error.start]:02x} is not UTF-8") from None


def executed_files(path: str, search: str, root: str = "/") -> Iterator[str]:
    """Yields the files that a start of a program executes: the program, its interpreter, the interpreter's interpreter.

    `env` searches for a name without a slash in `search`, the variable PATH: see `find_in_path`. Raises OSError.
    """
    file = absolute(path)
    yield file
    for _ in range(MAX_EXECUTED):
        words = first_line(in_root(root, find_in_path(file, search, root)))
        if not words:
            return
        file = absolute(words[0])
        yield file
        if os.path.basename(words[0]) == "env" and (name := _program_of_env(words[1:])):
            file = name
            yield file
    raise OSError(errno.ELOOP, "too many interpreters of interpreters")


def _program_of_env(words: Sequence[str]) -> str:
    """Returns the program that `env` starts, empty if none. Raises OSError for options that may change the program."""
    for word in words[1:] if words[:1] == ["-S"] else words:
        if word.startswith(("-", "PATH=")):
            text = f"its first line has `{word}` for env; only -S and variables other than PATH are allowed there"
            raise OSError(errno.ENOTSUP, text)
        if "=" not in word:
            return word
    return ""


def find_in_path(file: str, search: str, root: str = "/") -> str:
    """Returns the path of a file. A name without a slash is searched in `search`, the variable PATH. Raises OSError."""
    if "/" in file:
        return file
    for directory in search.split(":"):
        with suppress(OSError):
            its = os.stat(in_root(root, path := f"{directory}/{file}"))
            if is_program(its):
                return path
    raise FileNotFoundError(errno.ENOENT, "not found in PATH", file)


def is_program(status: os.stat_result) -> bool:
    """Whether a file with this status may be executed by anybody."""
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o111)


def is_binary(path: str) -> bool:
    """Whether a file begins as an ELF binary does. Raises OSError."""
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def start_fault(path: str, root: str = "/") -> str:
    """Returns why a file below the directory `root` cannot be started as a program, empty if it can."""
    file = in_root(root, path)
    if not os.path.exists(file):
        return "does not exist"
    try:
        status = os.stat(file)
        if not is_program(status):
            return "is not an executable file"
        words, is_elf = first_line(file), is_binary(file)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if words is not None:
        name = "".join(words[:1])
        return "" if os.path.isfile(in_root(root, name)) else f"needs the interpreter {name!r}, which does not exist"
    return "" if is_elf else "is neither a binary nor a script that begins with #!"


def _check(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("not a regular file")


def walk(path: str, root: str = "/") -> Iterator[tuple[str, os.stat_result]]:
    """Yields all directories and links on an absolute path, as a process with the root directory `root` resolves it.

    The last one is the file. Each comes with its own status; directories may repeat. Raises OSError, and ValueError for
    a text that cannot be a path.
    """
    for place in _places(path, root):
        yield place.removesuffix("/.") or "/", os.lstat(place)
