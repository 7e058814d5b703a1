"""Stand-by: programs that are started before their event, and wait for its request on stdin.

A process that stands by serves one event. It is used only if a fresh start would execute the same files, and if it has
neither ended nor written anything. Programs are started behind the answer to an event, never before it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

from adapter import paths
from adapter.loop import Loop, Timer
from adapter.mount_namespace import programs
from adapter.process import Process, Program

log = logging.getLogger(__name__)

STRIKES = 3
"""Processes in a row that spoil before their request, after which a program is not started ahead until it changes."""
MAX_SCRIPTS = 5
"""Scripts that Linux takes as each other's interpreters (fs/exec.c, exec_binprm)."""

Wanted: TypeAlias = Callable[[], Iterable[tuple[Program, int]]]
"""Returns the programs that should stand by now, each with the number of its processes."""


class _Crew:
    """The processes of one version of a program that stand by, the oldest first."""

    def __init__(self, program: Program) -> None:
        """Looks at the program's files. Raises OSError."""
        self.program = program
        self.waiting: list[Process] = []
        self.spoilt: list[str] = []
        """How the last processes have spoilt, until one serves its event."""
        self.told: set[str] = set()
        """What the log has a line of."""
        self._files = _files(program)
        self._identities = self._look()
        self.is_settled = time.time_ns() - max(identity[-1] for identity in self._identities) > paths.SETTLED
        """Whether a change of the files from now on shows in their status."""

    @property
    def off(self) -> str:
        """Why the program is not started ahead any more; empty if it is."""
        return self.spoilt[-1] if len(self.spoilt) >= STRIKES else ""

    def has_changed(self) -> bool:
        """Whether a start would execute other files now than those that this version has."""
        try:
            return self._look() != self._identities
        except OSError:
            return True

    def _look(self) -> list[tuple[int, ...]]:
        with programs:
            return [paths.identity(_status(file, self.program.environ)) for file in self._files]

    def discard(self, before: float = float("inf")) -> None:
        """Kills the processes that were started before a moment."""
        for process in [process for process in self.waiting if process.started < before]:
            self.waiting.remove(process)
            process.discard()


class Standby:
    """The programs that stand by, as long as this process serves the events."""

    def __init__(self, loop: Loop, max_age: float, wanted: Wanted) -> None:
        """Takes the loop, the seconds after which a process is replaced, and what should stand by."""
        self._loop = loop
        self._max_age = max_age
        self._wanted = wanted
        self._crews: dict[Hashable, _Crew] = {}
        self._is_open = self._is_serving = self._is_due = False
        self._timer: Timer | None = None

    def open(self) -> None:
        """Begins to start programs: this process serves the events from now on."""
        self._is_open = True
        self._refill_soon()

    def close(self) -> None:
        """Kills all that stand by, and starts no more."""
        self._is_open = False
        self.renew()

    def renew(self) -> None:
        """Kills all that stand by, and starts others."""
        for crew in self._crews.values():
            crew.discard()
        self._crews.clear()
        self._refill_soon()

    def event_came(self) -> None:
        """Starts nothing until the event is answered: that would delay the answer."""
        self._is_serving = True

    def answered(self) -> None:
        """Replaces what the event has used, now that its answer is written."""
        self._is_serving = False
        if self._is_due:
            self._loop.call_soon(self._refill)

    def describe(self) -> dict[str, Any]:
        """Returns how many processes of each program stand by, and why none do, for `status`."""
        crews = self._crews.values()
        return {crew.program.name: {"waiting": len(crew.waiting), "off": crew.off} for crew in crews}

    def take(
        self, program: Program, on_end: Callable[[Process], None], on_line: Callable[[str], None]
    ) -> Process | None:
        """Returns a process that has stood by, for one event, or None. The parameters are those of Process."""
        self._refill_soon()
        crew = self._crews.get(_key(program))
        if crew is None or not crew.waiting or crew.has_changed():
            return None  # what has changed is replaced behind the answer
        oldest = self._loop.time() - self._max_age
        for process in crew.waiting:
            if process.started >= oldest and process.is_fit:  # the loop deals with those that are not
                crew.waiting.remove(process)
                process.serve(partial(self._served, crew, on_end), on_line)
                return process
        return None

    def _served(self, crew: _Crew, on_end: Callable[[Process], None], process: Process) -> None:
        """A process has ended that has got its request."""
        if process.unread:
            self._spoil(crew, f"it has ended without reading its request: {process.unread}")
        elif not crew.off:
            crew.spoilt.clear()
        on_end(process)

    def _ended(self, crew: _Crew, process: Process) -> None:
        """A process has ended that stood by."""
        crew.waiting.remove(process)
        self._spoil(crew, f"it has ended before its request: {process.ending}")

    def _wrote(self, crew: _Crew, process: Process) -> None:
        """A process has written something that stood by."""
        crew.waiting.remove(process)
        process.discard()
        self._spoil(crew, "it has written to stdout or stderr before its request")

    def _spoil(self, crew: _Crew, reason: str) -> None:
        name = crew.program.name
        crew.spoilt.append(reason)
        if reason not in crew.told:
            crew.told.add(reason)
            log.warning("%s: a process that stood by is of no use: %s", name, reason)
        if len(crew.spoilt) == STRIKES:
            log.warning("%s: stand-by is off until the program changes, or SIGHUP; events start it: %s", name, reason)
            crew.discard()
        self._refill_soon()

    # Starting programs

    def _refill_soon(self) -> None:
        """Starts what is missing, behind the answer if an event is being served."""
        self._is_due = True
        if not self._is_serving:
            self._loop.call_soon(self._refill)

    def _refill(self) -> None:
        """Starts one process that is missing, and looks for the next one in the next turn: an event may have come."""
        if self._is_serving or not self._is_open or not self._is_due:
            return
        self._is_due = False
        present = [(crew, number) for crew, number in self._present() if crew.is_settled and not crew.off]
        missing = [crew for crew, number in present for _ in range(number - len(crew.waiting))]
        if any(map(self._starts, missing)) and len(missing) > 1:
            self._refill_soon()
        else:
            self._wake_up()

    def _present(self) -> Iterable[tuple[_Crew, int]]:
        """Returns the crews of the programs that should stand by; others are discarded, those too old as well."""
        before, self._crews = self._crews, {}
        found = []
        for program, number in self._wanted():
            key = _key(program)
            if key in self._crews:
                continue  # two hooks have the same program
            crew = before.get(key)
            try:
                crew = _Crew(program) if crew is None or crew.has_changed() or not crew.is_settled else before.pop(key)
            except OSError:
                continue  # the start for an event says it
            crew.discard(self._loop.time() - self._max_age)
            self._crews[key] = crew
            found.append((crew, number))
        for crew in before.values():
            crew.discard()
        return found

    def _starts(self, crew: _Crew) -> bool:
        """Starts a process; returns whether that has succeeded."""
        try:
            process = Process(self._loop, crew.program, partial(self._ended, crew), lambda _: None)
        except OSError:
            return False  # likewise
        crew.waiting.append(process)
        process.stand_by(partial(self._wrote, crew, process))
        return True

    def _wake_up(self) -> None:
        """Looks again when the next process is too old, or when a program has been written for the last time."""
        if self._timer is not None:
            self._timer.cancel()
        moments = [crew.waiting[0].started + self._max_age for crew in self._crews.values() if crew.waiting]
        if not all(crew.is_settled for crew in self._crews.values()):
            moments.append(self._loop.time() + paths.SETTLED / 1e9)
        self._timer = self._loop.call_at(min(moments), self._refill_soon) if moments else None


def _key(program: Program) -> Hashable:
    """Returns what distinguishes programs: what is executed."""
    return program.path, program.argv, *program.environ.items()


def _files(program: Program) -> list[str]:
    """Returns the files that a start of a program executes: the program, its interpreter, the interpreter's own.

    A name without a slash is what `env` searches in PATH. Raises OSError.
    """
    files = [program.path]
    with programs:
        while len(files) <= MAX_SCRIPTS and (words := paths.first_line(files[-1])):
            files.append(words[0])
            if os.path.basename(words[0]) == "env":
                files += [word for word in words[1:] if not word.startswith("-") and "=" not in word][:1]
            if "/" not in files[-1]:
                break
    return files


def _status(file: str, environ: Mapping[str, str]) -> os.stat_result:
    """Returns the status of a file, which is searched in PATH if its name has no slash. Raises OSError."""
    if "/" in file:
        return os.stat(file)
    for directory in environ.get("PATH", os.defpath).split(":"):
        try:
            return os.stat(f"{directory}/{file}")
        except OSError:
            continue
    raise FileNotFoundError(file)
