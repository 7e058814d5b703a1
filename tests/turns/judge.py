"""What is promised of any history, written without a look at the code that keeps it; `turns` has what may go wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from .events import TIMEOUT, Call, Event
from .life import Program

if TYPE_CHECKING:
    from .world import World


class Judge:
    """Holds a history against the promise."""

    def __init__(self, world: World) -> None:
        self.world, self.runtime = world, world.runtime
        self.runs: dict[tuple[int, str], list[Program]] = defaultdict(list)
        for run in world.trace:
            if run.kind != "delete" or run.name in "sw":
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
            if event.method in self.world.plugins_at:
                yield from self.done_once(event)
            if event.method == "CreateContainer" and not event.has_failed:
                yield from self.changed_once(event)
        yield from self.deletes()
        yield from self.pods()
        if self.world.untried:
            yield f"not tried again: {self.world.untried}"
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

    def locks(self, event: Event) -> list[tuple[float, float]]:
        """Returns when others worked on the ids of an event: a program ran long, or an adapter was stopped."""
        ids = {event.id, event.pod} | {id_ for id_, pod in self.runtime.pods.items() if pod == event.pod}
        if "one byte" in self.world.kinds:
            ids.update(self.runtime.pods)
        runs = [(run.fed, run.ends) for run in self.world.trace if run.id in ids and run.ends - run.fed > 0.29]
        spans = runs + [(hold.start, hold.end) for hold in self.world.holds if ids & hold.ids]
        return [(start, end) for start, end in spans if start <= event.ended and end >= event.at]

    def in_time(self, event: Event) -> Iterator[str]:
        for call in event.got:
            if not call.answered_at and self.is_well(call, call.deadline):
                yield f"{event}: {call.peer} has not answered in time"

    # Creates and changes

    def done_once(self, event: Event) -> Iterator[str]:
        until, locks = self.work_ends(event), self.locks(event)
        well = [call for call in event.got if self.is_well(call, until)]
        fails = any(
            run.fails for plugin in self.world.plugins_at[event.method] for run in self.runs[event.number, plugin]
        )
        has_ended = any(event.at <= end <= event.ended + 40 for end in self.runtime.ends[event.id])
        free = max([until, *(end + 1 for _, end in locks)])
        is_late = bool(locks) and (has_ended or not all(self.is_well(call, free) for call in event.accepted))
        may_lack = self.world.may_lack_plugins or event.has_failed or (fails and self.world.fails_creates) or is_late
        may_lack |= event.number in self.world.held  # the container never started
        for plugin in self.world.plugins_at[event.method]:
            runs = self.runs[event.number, plugin]
            is_noted = (event.number, plugin) in self.world.noted
            is_excused = may_lack or is_noted or (plugin in "sw" and has_ended and bool(locks))
            if not runs and well and not is_excused:
                yield f"{event}: {plugin} has not run"
            if (
                len(runs) > 1
                and not self.is_hidden(event)
                and (plugin not in "qsuw" or any(self.is_told(event, run) for run in runs[:-1]))
                and not all(self.has_late_end(event, run) for run in runs[1:])
            ):
                yield f"{event}: {plugin} has run {len(runs)} times"

    def is_told(self, event: Event, run: Program) -> bool:
        """Whether the runtime has the answer of an adapter for which a plugin ran, and others can see that."""
        calls = [call for call in event.accepted if call.peer.life is run.life]
        is_end = run.kind == "delete"
        return any(not self.is_cut(call) and not (is_end and self.came_at_stop(call)) for call in calls)

    def came_at_stop(self, call: Call) -> bool:
        """Whether the adapter was stopped when an event came, for so long that it counts its time from before that."""
        holds = [hold for hold in self.world.holds if hold.peer is call.peer and hold.end - hold.start > 1]
        return any(hold.start <= call.at <= hold.end for hold in holds)

    def is_hidden(self, event: Event) -> bool:
        """Whether the note of an event may have been replaced by that of another id before all had read it."""
        return "one place" in self.world.kinds and any(map(self.had_stop, event.got))

    def had_stop(self, call: Call) -> bool:
        """Whether the adapter was stopped before it had read the note of an event."""
        holds = [hold for hold in self.world.holds if hold.peer is call.peer and hold.end - hold.start > 1]
        return any(hold.start <= call.deadline and call.at <= hold.end for hold in holds)

    def has_late_end(self, event: Event, run: Program) -> bool:
        """Whether an adapter was stopped for long when an end came, which it runs: it may take it for a new one."""
        calls = [call for call in event.got if call.peer.life is run.life]
        return run.kind == "delete" and any(map(self.came_at_stop, calls))

    def is_cut(self, call: Call) -> bool:
        """Whether a fault came between an answer and its note."""
        return call.noted_at > call.answered_at + 1e-4

    def changed_once(self, event: Event) -> Iterator[str]:
        given = Counter(part for call in event.accepted for part in call.parts)
        well = [call for call in event.got if self.is_well(call, call.deadline + TIMEOUT)]
        has_no_q = (
            self.world.may_lack_plugins
            or bool(self.locks(event))
            or any(run.fails for run in self.runs[event.number, "q"])
        )
        for part in "qh":
            if not given[part] and well and not (has_no_q and part == "q"):
                yield f"{event}: the runtime does not have {part}"
            if given[part] > 1 and not any(map(self.is_cut, event.accepted)) and not self.is_hidden(event):
                yield f"{event}: the runtime has {part} {given[part]} times"

    # Deletes

    def deletes(self) -> Iterator[str]:
        of: dict[tuple[str, str], list[Program]] = defaultdict(list)
        for run in self.world.trace:
            if run.name not in "suw":
                of[run.id, run.name].append(run)
        more = Counter((run.id, run.name) for run, _ in self.world.cut if run.kind == "delete")
        more += Counter((self.runtime.events[number].id, plugin) for number, plugin in self.world.noted)
        for key, runs in of.items():
            create = None
            for run in runs:
                if run.kind == "create":
                    if create is not None and self.has_told_end(create, run):
                        yield f"{create}: no delete before {run}"
                    create = run
                elif create is not None:
                    has_ended = any(self.began(create) <= end <= run.fed for end in self.runtime.ends[run.id])
                    if not has_ended and not self.is_of_earlier_life(run, create):
                        yield f"{run}: it lives"
                    create = None
                elif more[key]:
                    more[key] -= 1
                elif run.id not in self.runtime.first:
                    yield f"{run}: a delete without a create"
            if create is not None:
                yield f"{key}: no delete"
            yield from self.overtaking(runs)

    def pods(self) -> Iterator[str]:
        """A pod's delete comes after what the events of its containers have run before."""
        pods, events = self.runtime.pods, self.runtime.events
        of: dict[str, list[Program]] = defaultdict(list)
        for run in self.world.trace:
            is_at_event = run.number >= 0 and (run.kind != "delete" or events[run.number].method.startswith("Stop"))
            if is_at_event and pods[run.id] != run.id:
                of[pods[run.id]].append(run)
        cut = {id(run) for run, _ in self.world.cut}
        for delete in self.world.trace:
            for run in of[delete.id] if delete.kind == "delete" else ():
                is_earlier = run.number < delete.number and run.life is delete.life and id(run) not in cut
                if is_earlier and delete.fed < run.ends and not self.was_stopped(run, delete.fed):
                    yield f"{delete} does not wait for {run}"

    def is_of_earlier_life(self, delete: Program, create: Program) -> bool:
        """Whether it is of an earlier life of the id, which was read too late, or waited until the id began again."""
        holds = [hold for hold in self.world.holds if hold.peer.life is delete.life]
        ends = self.runtime.ends[delete.id] + self.runtime.ends[self.runtime.pods[delete.id]]
        if any(hold.start <= end <= hold.end for hold in holds for end in ends):
            return True
        return 0 <= delete.number < create.number and self.waits(self.runtime.events[delete.number], self.began(create))

    def has_told_end(self, create: Program, later: Program) -> bool:
        """Whether an adapter that was well, and had its plugins, could run the deletes between two creates of an id.

        An id that begins again while its end waits for a long delete may lack its own.
        """
        if "missing" in self.world.kinds:
            return False
        between = [e for e in self.runtime.events if self.began(create) < e.at < self.began(later)]
        return any(
            e.id == create.id
            and e.method.startswith("Stop")
            and any(self.is_well(c, e.ended + 15) for c in e.got)
            and not self.waits(e, self.began(later))
            for e in between
        )

    def waits(self, end: Event, moment: float) -> bool:
        """Whether work of earlier events of its pod holds an end up until a moment."""
        pods = self.runtime.pods
        runs = [run for run in self.world.trace if 0 <= run.number < end.number and pods[run.id] == end.pod]
        return any(run.ends >= moment for run in runs)

    def began(self, create: Program) -> float:
        return self.runtime.events[create.number].at if create.number >= 0 else 0

    def overtaking(self, runs: list[Program]) -> Iterator[str]:
        cut = {id(run): at for run, at in self.world.cut}
        for earlier, later in pairwise(runs):
            is_over = later.fed >= earlier.ends or cut.get(id(earlier), 1e9) <= later.fed
            if not is_over and not self.was_stopped(earlier, later.fed):
                yield f"{later} overtakes {earlier}"

    def was_stopped(self, run: Program, moment: float) -> bool:
        """Whether the adapter of a run was stopped, so that it did not see the end."""
        holds = self.world.holds
        return any(hold.peer.life is run.life and hold.start <= moment <= hold.end + 5 for hold in holds)
