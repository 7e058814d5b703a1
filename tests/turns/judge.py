"""What is promised of any history, written without a look at the code that keeps it; `fates` has what may go wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from .life import Program
from .world import CREATES, TIMEOUT, Call, Event, World


class Judge:
    """Holds a history against the promise."""

    def __init__(self, world: World) -> None:
        self.world, self.runtime = world, world.runtime
        self.runs: dict[tuple[int, str], list[Program]] = defaultdict(list)
        for run in world.trace:
            if run.kind != "delete":
                self.runs[run.number, run.name].append(run)

    def judge(self) -> Iterator[str]:
        """Yields what breaks the promise."""
        if self.world.stuck:
            yield f"it waits for ever: {self.world.stuck}"
        for event in self.runtime.events:
            yield from self.in_time(event)
        if self.world.marks.keys() & {"full", "removed", "garbled", "cut_file"}:
            return  # what is owed is forgotten, or repeated
        for event in self.runtime.events:
            if event.method in CREATES:
                yield from self.done_once(event)
            if event.method == "CreateContainer" and not event.has_failed:
                yield from self.changed_once(event)
        yield from self.deletes()
        if self.world.left or self.world.files:
            yield f"still owed: {self.world.left}, {self.world.files}"

    # Who was well

    def is_well(self, call: Call, until: float) -> bool:
        """Whether the adapter had no fault from an event's coming until a moment."""
        return not any(end >= call.at and start <= until for start, end in call.peer.hits)

    def work_ends(self, event: Event) -> float:
        """Returns when the last run for an event and for those before it has ended."""
        ids = {event.id, event.pod}
        ends = [run.ends for run in self.world.trace if run.id in ids and run.fed <= event.ended + 10]
        return max([event.ended, *(end for end in ends if end < event.ended + 15)]) + 0.2

    def is_held(self, event: Event) -> bool:
        """Whether the lock was not to be had in time: a program ran, or an adapter was stopped with work."""
        ids = {event.id, event.pod} | {id_ for id_, pod in self.runtime.pods.items() if pod == event.id}
        until = event.ended
        if any(
            run.id in ids and run.fed <= until and run.ends > event.at and run.ends - run.fed > 0.3
            for run in self.world.trace
        ):
            return True
        return any(start <= until and end >= event.at for _, start, end in self.world.holds)

    def in_time(self, event: Event) -> Iterator[str]:
        for call in event.got:
            if not call.answered_at and self.is_well(call, call.deadline):
                yield f"{event}: {call.peer} has not answered in time"

    # Creates and changes

    def done_once(self, event: Event) -> Iterator[str]:
        well = [call for call in event.got if self.is_well(call, self.work_ends(event))]
        was_hit = len(well) < len(event.got)
        fails = any(run.fails for plugin in CREATES[event.method] for run in self.runs[event.number, plugin])
        for plugin in CREATES[event.method]:
            runs = self.runs[event.number, plugin]
            is_noted = (event.number, plugin) in self.world.noted
            is_excused = event.has_failed or fails or is_noted or self.is_held(event)
            if not runs and well and not is_excused:
                yield f"{event}: {plugin} has not run"
            if len(runs) > 1 and not (was_hit and (plugin in "qu" or fails)):
                yield f"{event}: {plugin} has run {len(runs)} times"

    def changed_once(self, event: Event) -> Iterator[str]:
        given = Counter(part for call in event.accepted for part in call.parts)
        well = [call for call in event.got if self.is_well(call, call.deadline + TIMEOUT)]
        fails = any(run.fails for run in self.runs[event.number, "q"])
        for part in "qh":
            if not given[part] and well and not (self.is_held(event) or (fails and part == "q")):
                yield f"{event}: the runtime does not have {part}"
            is_cut = any(call.noted_at > call.answered_at + 1e-4 for call in event.accepted)
            if given[part] > 1 and not is_cut:
                yield f"{event}: the runtime has {part} {given[part]} times"

    # Deletes

    def deletes(self) -> Iterator[str]:
        of: dict[tuple[str, str], list[Program]] = defaultdict(list)
        for run in self.world.trace:
            if run.name != "u":
                of[run.id, run.name].append(run)
        cut = {(run.id, run.name) for run, _ in self.world.cut if run.kind == "delete"}
        noted = {(self.runtime.events[number].id, plugin) for number, plugin in self.world.noted}
        for key, runs in of.items():
            is_owed = False
            for run in runs:
                if run.kind == "create":
                    is_owed = True
                elif is_owed:
                    is_owed = False
                elif key not in cut and key not in noted:
                    yield f"{run}: a delete without a create"
            if is_owed:
                yield f"{key}: no delete"
            yield from self.overtaking(runs)

    def overtaking(self, runs: list[Program]) -> Iterator[str]:
        cut = {id(run): at for run, at in self.world.cut}
        for earlier, later in pairwise(runs):
            is_over = later.fed >= earlier.ends or cut.get(id(earlier), 1e9) <= later.fed
            if not is_over and not self.was_stopped(earlier, later.fed):
                yield f"{later} overtakes {earlier}"

    def was_stopped(self, run: Program, moment: float) -> bool:
        """Whether the adapter of a run was stopped, so that it did not see the end."""
        holds = self.world.holds
        return any(peer.life is run.life and start <= moment <= end + 5 for peer, start, end in holds)
