"""The files that a start of a program executes, and whether they have changed."""

from __future__ import annotations

import os
import time

from adapter.host import paths
from adapter.host.mount_namespace import programs_namespace
from adapter.programs.process import Program


class Executed:
    """The program, its interpreter and so on, as they are when this is made."""

    def __init__(self, program: Program) -> None:
        """Looks at the program's files. Raises OSError."""
        self._search = program.environ.get("PATH", os.defpath)
        with programs_namespace:
            self._files = list(paths.executed_files(program.path, self._search))
        self._identities = self._look()
        now = time.time_ns()
        self.is_stable = not any(0 <= now - identity[-1] <= paths.TIMESTAMP_STEP for identity in self._identities)
        """Whether a change of the files from now on shows in their status. It does if the clock has gone back since."""

    def holds(self) -> bool:
        """Whether a start would surely execute the same files now."""
        try:
            return self.is_stable and self._look() == self._identities
        except OSError:
            return False

    def _look(self) -> list[tuple[int, ...]]:
        with programs_namespace:
            return [paths.version(os.stat(paths.find_in_path(file, self._search))) for file in self._files]
