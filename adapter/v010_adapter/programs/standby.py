"""Stand-by: programs that are started before their event, and wait for its request on stdin.

A process that stands by serves one event. It is used only if a fresh start would execute the same files, and if it has
neither ended nor written anything. Programs are started after the answer to an event, never before it.
"""

from __future__ import annotations

import logging
import math
import os
import resource
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import auto
from functools import partial
from typing import Any, TypeAlias

from v010_adapter.base.keys import Key
from v010_adapter.base.loop import NO_TIMER, Loop
from v010_adapter.errors import ProgramError
from v010_adapter.host import paths
from v010_adapter.host.mount_namespace import programs_namespace
from v010_adapter.programs.process import Process, Program

log = logging.getLogger(__name__)

STRIKES = 3
"""Processes in a row that spoil before their request, after which a program is not started ahead until it changes."""
DESCRIPTORS = 4
"""Descriptors of this process for each that stands by."""

Wanted: TypeAlias = Callable[[], Iterable[tuple[Program | ProgramError, int]]]
"""Returns the programs that should stand by now, or why there is none, each with the number of its processes."""


class StandbyState(Key):
    """Whether programs may be started now."""

    CLOSED = auto()
    """Another process serves the events."""
    AT_REST = auto()
    """Nothing is missing, as far as is known."""
    DUE = auto()
    """The loop is about to start what is missing."""
    SERVING = auto()
    """An event waits for its answer, which a start would delay."""
    SERVING_DUE = auto()
    """Likewise; the answer is followed by starts."""


class StandbyInput(Key):
    """What changes the state."""

    OPEN = auto()
    CLOSE = auto()
    EVENT = auto()
    ANSWERED = auto()
    MISSING = auto()
    """A process may be missing, or too old."""
    START = auto()
    """The loop starts what is missing."""


# An input that a state does not list changes nothing.
TRANSITIONS: Mapping[StandbyState, Mapping[StandbyInput, StandbyState]] = {
    StandbyState.CLOSED: {StandbyInput.OPEN: StandbyState.DUE},
    StandbyState.AT_REST: {
        StandbyInput.MISSING: StandbyState.DUE,
        StandbyInput.EVENT: StandbyState.SERVING,
        StandbyInput.CLOSE: StandbyState.CLOSED,
    },
    StandbyState.DUE: {
        StandbyInput.START: StandbyState.AT_REST,
        StandbyInput.EVENT: StandbyState.SERVING_DUE,
        StandbyInput.CLOSE: StandbyState.CLOSED,
    },
    StandbyState.SERVING: {
        StandbyInput.MISSING: StandbyState.SERVING_DUE,
        StandbyInput.ANSWERED: StandbyState.AT_REST,
        StandbyInput.CLOSE: StandbyState.CLOSED,
    },
    StandbyState.SERVING_DUE: {StandbyInput.ANSWERED: StandbyState.DUE, StandbyInput.CLOSE: StandbyState.CLOSED},
}


class _Crew:
    """The processes of one version of a program that stand by, the oldest first."""

    def __init__(self, program: Program) -> None:
        """Looks at the program's files. Raises OSError."""
        self.program = program
        self.waiting: list[Process] = []
        self.spoilt: list[str] = []
        """How processes have spoilt since an event took one that had not."""
        self.told: set[str] = set()
        """What the log has a line of."""
        self._search = program.environ.get("PATH", os.defpath)
        self._files = programs_namespace.call(list, paths.executed_files(program.path, self._search))
        read_at = time.time_ns()
        self._versions = self._look()
        young = range(read_at - paths.TIMESTAMP_STEP, time.time_ns() + 1)
        self.is_stable = not any(version[-1] in young for version in self._versions)
        """Whether a change of the files from now on shows in their status. It does if the clock has gone back since."""

    def is_current(self) -> bool:
        """Whether a start would surely execute the same files now: the program, its interpreter and so on."""
        try:
            return self.is_stable and self._look() == self._versions
        except OSError:
            return False

    def _look(self) -> list[tuple[int, ...]]:
        files = (paths.version(os.stat(paths.find_in_path(file, self._search))) for file in self._files)
        return programs_namespace.call(list, files)

    @property
    def off(self) -> str:
        """Why the program is not started ahead any more; empty if it is."""
        return self.spoilt[-1] if len(self.spoilt) >= STRIKES else ""

    def discard(self, until: float = math.inf) -> None:
        """Kills the processes that were started at a moment or before it."""
        for process in [process for process in self.waiting if process.started <= until]:
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
        self._unstartable: dict[str, str] = {}
        """Why programs cannot be started ahead that should be."""
        self._descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._state = StandbyState.CLOSED
        self._is_called = False
        """Whether the loop calls `_refill` in this turn already: it must not do so twice."""
        self._was_full = False
        self._timer = NO_TIMER

    def open(self) -> None:
        """Begins to start programs: this process serves the events from now on."""
        self._receive(StandbyInput.OPEN)

    def close(self) -> None:
        """Kills all that stand by, and starts no more."""
        self._receive(StandbyInput.CLOSE)
        self.renew()

    def renew(self) -> None:
        """Kills all that stand by, and starts others."""
        for crew in self._crews.values():
            crew.discard()
        self._crews.clear()
        self._unstartable.clear()
        self._receive(StandbyInput.MISSING)

    def on_event(self) -> None:
        """Starts nothing until the event is answered: that would delay the answer."""
        self._receive(StandbyInput.EVENT)

    def on_answered(self) -> None:
        """Replaces what the event has used, now that its answer is written."""
        self._receive(StandbyInput.ANSWERED)

    def _receive(self, input_: StandbyInput) -> None:
        self._state = TRANSITIONS[self._state].get(input_, self._state)
        if self._state is StandbyState.DUE and not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._refill)

    def describe(self) -> dict[str, Any]:
        """Returns how many processes of each program stand by, and why none do, for `status`."""
        crews = self._crews.values()
        found: dict[str, Any] = {crew.program.name: {"waiting": len(crew.waiting), "off": crew.off} for crew in crews}
        for name, cause in self._unstartable.items():
            found.setdefault(name, {"waiting": 0})["off"] = cause
        return found

    def claim(
        self, program: Program, on_end: Callable[[Process], None], on_line: Callable[[str], None]
    ) -> Process | None:
        """Returns a process that has stood by, for one event, or None. The parameters are those of Process."""
        self._receive(StandbyInput.MISSING)
        crew = self._crews.get(_key(program))
        if crew is None or not crew.waiting or not crew.is_current():
            return None  # what has changed is replaced after the answer
        oldest = self._loop.time() - self._max_age
        for process in crew.waiting:
            if process.started > oldest and process.is_fit:  # the loop deals with those that are not
                crew.waiting.remove(process)
                crew.spoilt.clear()
                process.serve(program.name, on_end, on_line)  # perhaps another hook's name
                return process
        return None

    def _on_end(self, crew: _Crew, process: Process) -> None:
        crew.waiting.remove(process)
        self._spoil(crew, f"it has ended before its request: {process.ending}")

    def _on_output(self, crew: _Crew, process: Process) -> None:
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
        self._receive(StandbyInput.MISSING)

    def _refill(self) -> None:
        """Starts one process that is missing, and looks for the next one in the next turn: an event may have come."""
        self._is_called = False
        if self._state is not StandbyState.DUE:
            return
        self._receive(StandbyInput.START)
        numbers = ((crew, number - len(crew.waiting)) for crew, number in self._present())
        missing = {crew: number for crew, number in numbers if number > 0 and crew.is_stable and not crew.off}
        if missing and self._has_room() and any(map(self._starts, missing)) and sum(missing.values()) > 1:
            self._receive(StandbyInput.MISSING)
        else:
            self._wake_up()

    def _present(self) -> Iterable[tuple[_Crew, int]]:
        """Returns the crews of the programs that should stand by; others are discarded, those too old as well."""
        before, self._crews, self._unstartable = self._crews, {}, {}
        found = []
        for program, number in self._wanted():
            if isinstance(program, ProgramError):
                self._unstartable[program.program] = program.reason
                continue
            key = _key(program)
            if key in self._crews:
                continue  # two hooks have the same program
            crew = before.get(key)
            try:
                crew = before.pop(key) if crew is not None and crew.is_current() else _Crew(program)
            except OSError as error:
                self._note_fault(program, error)
                continue
            crew.discard(self._loop.time() - self._max_age)
            self._crews[key] = crew
            found.append((crew, number))
        for crew in before.values():
            crew.discard()
        return found

    def _starts(self, crew: _Crew) -> bool:
        try:
            process = Process(self._loop, crew.program, partial(self._on_end, crew), lambda _: None)
            process.wait(partial(self._on_output, crew))
            crew.waiting.append(process)
        except OSError as error:
            self._note_fault(crew.program, error)
            return False
        return True

    def _note_fault(self, program: Program, error: OSError) -> None:
        """Notes for `status` why a program cannot be started. The start for an event logs it."""
        self._unstartable[program.name] = ": ".join(filter(None, (error.filename, error.strerror)))

    def _has_room(self) -> bool:
        """Whether one more may stand by: half of the descriptors are for the events. The log says once if not."""
        waiting = sum(len(crew.waiting) for crew in self._crews.values())
        if waiting < self._descriptors // 2 // DESCRIPTORS:
            return True
        if not self._was_full:
            self._was_full = True
            log.warning("no more than %d processes stand by: there are %d descriptors", waiting, self._descriptors)
        return False

    def _wake_up(self) -> None:
        """Looks again when the next process is too old, or when a program has been written for the last time."""
        self._timer.cancel()
        moments = [crew.waiting[0].started + self._max_age for crew in self._crews.values() if crew.waiting]
        if not all(crew.is_stable for crew in self._crews.values()):
            moments.append(self._loop.time() + paths.TIMESTAMP_STEP / 1e9)
        if moments:
            self._timer = self._loop.call_at(min(moments), partial(self._receive, StandbyInput.MISSING))


def _key(program: Program) -> Hashable:
    """Returns what distinguishes programs: what is executed."""
    return program.path, program.argv, *program.environ.items()
