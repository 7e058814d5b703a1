"""The files that a start of a program executes, and whether they have changed."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from adapter import paths
from adapter.mount_namespace import programs
from adapter.process import Program

MAX_FILES = 20
"""Maximum files that a start may execute. Linux takes six (fs/exec.c, exec_binprm); each `env` starts anew."""


class Executed:
    """The program, its interpreter and so on, as they are when this is made."""

    def __init__(self, program: Program) -> None:
        """Looks at the program's files. Raises OSError."""
        self._program = program
        self._files = _files(program)
        self._identities = self._look()
        now = time.time_ns()
        self.is_settled = not any(0 <= now - identity[-1] <= paths.SETTLED for identity in self._identities)
        """Whether a change of the files from now on shows in their status. It does if the clock has gone back since."""

    def holds(self) -> bool:
        """Whether a start would surely execute the same files now."""
        try:
            return self.is_settled and self._look() == self._identities
        except OSError:
            return False

    def _look(self) -> list[tuple[int, ...]]:
        with programs:
            return [paths.identity(os.stat(_found(file, self._program.environ))) for file in self._files]


def _files(program: Program) -> list[str]:
    """Returns the files that a start of a program executes: the program, its interpreter, the interpreter's own.

    A name without a slash is what `env` searches in PATH. Raises OSError.
    """
    files = [paths.absolute(program.path)]
    with programs:
        while words := paths.first_line(_found(files[-1], program.environ)):
            files.append(paths.absolute(words[0]))
            if os.path.basename(words[0]) == "env":
                files += _interpreter(words[1:])
            if len(files) > MAX_FILES:
                raise OSError(errno.ELOOP, "too many interpreters of interpreters")
    return files


def _interpreter(words: Sequence[str]) -> list[str]:
    """Returns what `env` starts, if it starts anything. Raises OSError for words that may change what that is."""
    for word in words[1:] if words[:1] == ["-S"] else words:
        if word.startswith(("-", "PATH=")):
            text = f"its first line has `{word}` for env; only -S and variables other than PATH may stand there"
            raise OSError(errno.ENOTSUP, text)
        if "=" not in word:
            return [word]
    return []


def _found(file: str, environ: Mapping[str, str]) -> str:
    """Returns the path of a file, which is searched in PATH if its name has no slash. Raises OSError."""
    if "/" in file:
        return file
    for directory in environ.get("PATH", os.defpath).split(":"):
        with suppress(OSError):
            status = os.stat(path := f"{directory}/{file}")
            if stat.S_ISREG(status.st_mode) and status.st_mode & 0o111:
                return path
    raise FileNotFoundError(errno.ENOENT, "not found in PATH", file)
