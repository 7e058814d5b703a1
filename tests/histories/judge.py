"""What is promised of any history, written without a look at the code that keeps it.

PROMISES is the list. What excuses a history stands below it, in the order of docs/operations.md ("What may still go
wrong"): a kill, a hang, the state directory. In calm histories nothing is excused, and what must follow is known
exactly: nothing but programs takes time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from .event import TIMEOUT, Call, Event, Hold
from .run import Run

if TYPE_CHECKING:
    from .world import World

ORIGINAL = {"RunPodSandbox", "StartContainer", "StopContainer", "StopPodSandbox"}
CREATES = {"CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer"}
DISK = {"full", "removed", "garbled", "cut_file"}
"""The state directory is removed, full or damaged: what is owed is forgotten, or repeated."""
HOLD_LIMIT = 30.0


class Verdict(NamedTuple):
    """When a program was done with, whether it has succeeded, and whether that was after the answer."""

    at: float
    is_good: bool
    is_late: bool


Owed: TypeAlias = dict[tuple[str, str], tuple[Run, object]]
"""By id and plugin: the last create without a delete, and the configuration of the first one."""


class Judge:
    """Holds a history against the promises."""

    def __init__(self, world: World) -> None:
        self.world, self.runtime, self.settings = world, world.runtime, world.settings
        self.lists = {type_: own.events for type_, own in world.settings.plugins.items()}
        self.owed_at: dict[int, set[str]] = {}
        """The plugins that were owed a delete when a call's deletes began."""
        self.spare = Counter((run.id, run.name) for run, _ in world.cut if run.is_delete)
        """Deletes that may run without a create: they were cut off, or a create was that had been noted."""
        self.spare.update((run.id, run.name) for run in world.noted)
        self.runs_of: dict[tuple[int, str], list[Run]] = defaultdict(list)
        for run in world.trace:
            self.runs_of[run.number, run.name].append(run)

    def judge(self) -> Iterator[str]:
        """Yields what breaks a promise."""
        yield from self.ends()
        for text, promise in PROMISES if self.world.marks.keys().isdisjoint(DISK) else PROMISES[:1]:
            for found in promise(self):
                yield f"{found} ({text})"

    def ends(self) -> Iterator[str]:
        """All work ends, and all adapters end that are told to."""
        yield from self.world.stuck

    # Answers

    def answers(self) -> Iterator[str]:
        for call in self.world.calls:
            at = call.answers[0][0] if call.answers else inf
            if len(call.answers) > 1:
                yield f"{call}: {len(call.answers)} answers"
            if call.is_asked and at > call.due + 1e-3 and (self.world.is_calm or self.is_well(call, call.deadline)):
                yield f"{call}: not answered in time, but at {at}"
            is_lost = call.is_dropped and not call.waits  # nobody hears the answer
            if self.world.is_calm and call.is_asked and call.hold is None and not is_lost:
                yield from self.is_right(call)

    def is_right(self, call: Call) -> Iterator[str]:
        (at, error), event = call.answers[0], call.event
        if call.entries is None and not event.is_delete:
            is_wanted = event.method in ORIGINAL or any(event.method in (of or ()) for of in self.lists.values())
            if (error is not None) != (is_wanted and self.settings.fail_create):
                yield f"{call}: conf.json is broken, and the answer is {error}"
            return
        verdicts = [(run, self.verdict(run)) for run in call.runs]
        done = [(run, verdict) for run, verdict in verdicts if not verdict.is_late]
        fails = any(self.must_not_fail(run.name, event) and not verdict.is_good for run, verdict in done)
        others = self.turns(call)[len(done) :]
        if others and not fails and not call.is_dropped:
            if not is_same(at, call.due):
                yield f"{call}: answered at {at} before {others} were done"
            fails = not event.is_delete and any(self.must_not_fail(type_, event) for type_ in others)
        if (error is not None) != fails:
            yield f"{call}: the answer is {error}"
        if event.method == "CreateContainer" and not fails:
            changing = [run for run, verdict in done if verdict.is_good and b"spec" in run.output]
            parts = sorted(["h", *(run.name for run in changing if self.lists[run.name] is not None)])
            if call.parts != parts:
                yield f"{call}: the runtime has {call.parts}, not {parts}"

    def must_not_fail(self, type_: str, event: Event) -> bool:
        return bool(self.settings.of(type_, "fail_delete" if event.is_delete else "fail_create"))

    # Who runs

    def owes(self, type_: str, id_: str) -> bool:
        """Whether each create of a plugin has a delete."""
        events = self.lists[type_]
        if events is None:
            return True
        if id_.startswith("pod"):
            return {"RunPodSandbox", "StopPodSandbox"} <= events
        return "StopContainer" in events and bool(events & CREATES)

    def runs_without_create(self, type_: str, event: Event) -> bool:
        if event.method not in (self.lists[type_] or ()):
            return False
        return event.method not in ORIGINAL or not self.owes(type_, event.id)

    def runs_at(self, event: Event) -> list[str]:
        """Returns the plugins that run at an event whatever has run before."""
        if event.is_delete:
            return [type_ for type_ in self.lists if self.runs_without_create(type_, event)]
        return [type_ for type_, of in self.lists.items() if event.method in (ORIGINAL if of is None else of)]

    def turns(self, call: Call) -> list[str]:
        """Returns the plugins whose turn a call is, in order."""
        named, runs_at = list(confs(call)), self.runs_at(call.event)
        owed = self.owed_at.get(call.number, ())
        first = [run.name for run in call.runs if run.name not in named and run.name in owed]
        return [*first, *(type_ for type_ in named if type_ in owed or type_ in runs_at)]

    def done(self) -> Iterator[str]:
        if self.world.is_calm:
            for call in self.world.calls:
                yield from self.runs_who_has_a_turn(call)
        else:
            for event in self.runtime.events:
                yield from self.done_once(event)
                if event.method == "CreateContainer" and not event.has_failed:
                    yield from self.changed_once(event)

    def runs_who_has_a_turn(self, call: Call) -> Iterator[str]:
        started, turns = [run.name for run in call.runs], self.turns(call)
        if call.is_dropped:
            if started:
                yield f"{call}: {started}, though its runtime had gone"
        elif call.event.is_delete or not call.has_failed:
            if started != turns:
                yield f"{call}: {started}, not {turns}"
        elif started != turns[: len(started)]:
            yield f"{call}: {started}, not the first of {turns}"
        elif any(run.is_late for run in call.runs):
            yield f"{call}: a chain goes on that has failed"

    def done_once(self, event: Event) -> Iterator[str]:
        until, locks = self.work_ends(event), self.locks(event)
        well = [call for call in event.got if self.is_well(call, until)]
        fails = any(not run.is_good for plugin in self.runs_at(event) for run in self.runs_of[event.number, plugin])
        fails_creates = any(self.settings.of(type_, "fail_create") for type_ in self.lists)
        has_ended = any(event.at <= end <= event.ended + 40 for end in self.runtime.ends[event.id])
        free = max([until, *(end + 1 for _, end in locks)])
        is_late = bool(locks) and (has_ended or not all(self.is_well(call, free) for call in event.accepted))
        may_lack = self.may_lack_plugins or event.has_failed or (fails and fails_creates) or is_late
        may_lack |= event.number in self.held  # the container never started
        noted = {(run.number, run.name) for run in self.world.noted}
        for plugin in self.runs_at(event):
            runs, owes = self.runs_of[event.number, plugin], self.owes(plugin, event.id)
            may_lack_it = may_lack or (event.number, plugin) in noted or (event.is_delete and has_ended and bool(locks))
            if not runs and well and not may_lack_it:
                yield f"{event}: {plugin} has not run"
            is_kept = event.is_create and owes and event.method != "CreateContainer"  # its create has been noted
            if (
                len(runs) > 1
                and not self.is_hidden(event)
                and not (event.is_delete and self.found_one_hanging(event))
                and (is_kept or any(self.is_told(event, run) for run in runs[:-1]))
                and not all(self.has_late_end(event, run) for run in runs[1:])
            ):
                yield f"{event}: {plugin} has run {len(runs)} times"

    def changed_once(self, event: Event) -> Iterator[str]:
        given = Counter(part for call in event.accepted for part in call.parts)
        well = [call for call in event.got if self.is_well(call, call.deadline + TIMEOUT)]
        for part in (*(type_ for type_ in self.runs_at(event) if self.lists[type_] is not None), "h"):
            fails = any(not run.is_good for run in self.runs_of[event.number, part])
            may_lack = part != "h" and (self.may_lack_plugins or bool(self.locks(event)) or fails)
            if not given[part] and well and not may_lack:
                yield f"{event}: the runtime does not have {part}"
            is_unsure = any(self.is_cut(call) or self.is_unsure(call) for call in event.accepted)
            if given[part] > 1 and not is_unsure and not self.is_hidden(event):
                yield f"{event}: the runtime has {part} {given[part]} times"

    # Order

    def order(self) -> Iterator[str]:
        if (
            self.world.is_calm and self.settings.hold_after is None
        ):  # else looks whether plugins have printed are pauses
            ends: dict[int, float] = {}
            for call in self.world.calls:
                if call.runs or call.waits:  # else it had nothing to do; who comes next need not wait for it
                    yield from self.runs_without_pause(call, ends)
        if not self.world.is_rough:
            yield from self.overtaking()
            yield from self.pods()

    def runs_without_pause(self, call: Call, ends: dict[int, float]) -> Iterator[str]:
        answered, error = call.answers[0]
        before = [earlier for earlier in self.world.calls[: call.number] if must_follow(call.event, earlier.event)]
        moment = max([call.at, *(ends.get(earlier.number, 0) for earlier in before)])
        for run in call.runs:
            if not is_same(run.started, moment):
                yield f"{call}: {run.name} at {run.started}, not {moment}"
            moment = self.verdict(run).at
        if error is not None and not call.event.is_delete:
            moment = min(moment, answered)
        elif call.is_dropped and not call.was_late:
            moment = min(moment, call.due)
        ends[call.number] = max([moment, *(self.left_until(run) for run in call.runs)])

    def verdict(self, run: Run) -> Verdict:
        """A program is waited for until its exit; at the ends of its times only for a result that it has printed."""
        answered = run.call.answers[0][0]
        if not run.is_fed:
            return Verdict(run.started, False, run.is_late)
        over = min(run.exits, run.started + (self.settings.of(run.name, "timeout") or inf))
        is_late = run.is_late or over > answered
        if is_late and not run.is_late and (self.kills(run) or run.has_result(answered)):
            over, is_late = answered, not run.has_result(answered)
        elif is_late:
            over = min(over, max(run.started + self.settings.late_limit, answered))
        return Verdict(over, run.has_result(over) and run.is_good, is_late)

    def kills(self, run: Run) -> bool:
        return bool(self.settings.of(run.name, "kill_on_timeout"))

    def left_until(self, run: Run) -> float:
        """Returns how long the next event waits for a program that was left without a result."""
        over, (answered, error) = self.verdict(run).at, run.call.answers[0]
        if error is not None and not run.is_delete:
            over = min(over, answered)
        if not run.is_fed or run.has_result(over) or self.kills(run):
            return 0
        return min(run.exits, run.started + self.settings.late_limit)

    def overtaking(self) -> Iterator[str]:
        of: dict[tuple[str, str], list[Run]] = defaultdict(list)
        for run in self.world.trace:
            if self.owes(run.name, run.id):
                of[run.id, run.name].append(run)
        cut = {id(run): at for run, at in self.world.cut}
        for runs in of.values():
            for earlier, later in pairwise(runs):
                is_over = later.fed >= earlier.ends or cut.get(id(earlier), inf) <= later.fed
                if not is_over and not self.was_stopped(earlier, later.fed):
                    yield f"{later} overtakes {earlier}"

    def pods(self) -> Iterator[str]:
        of: dict[str, list[Run]] = defaultdict(list)
        for run in self.world.trace:
            event = run.call.event
            is_at_event = event.number >= 0 and not event.method.startswith("Remove")
            if is_at_event and event.pod != event.id:
                of[event.pod].append(run)
        cut = {id(run) for run, _ in self.world.cut}
        for delete in self.world.trace:
            for run in of[delete.id] if delete.is_delete else ():
                is_earlier = run.number < delete.number and run.life is delete.life and id(run) not in cut
                if is_earlier and delete.fed < run.ends and not self.was_stopped(run, delete.fed):
                    yield f"{delete} does not wait for {run}"

    # Deletes

    def deletes(self) -> Iterator[str]:
        owed: Owed = {}
        for run in sorted(self.world.runs, key=lambda run: run.fed):
            if run.is_delete:
                yield from self.takes_owed(run, owed)
            elif run.is_fed:
                yield from self.is_owed_a_delete(run, owed)
        for create, _ in owed.values():
            yield f"{create}: no delete"

    def is_owed_a_delete(self, run: Run, owed: Owed) -> Iterator[str]:
        """A create whose plugin is owed a delete already changes nothing but the moment."""
        conf, key = run.request.get("conf"), (run.id, run.name)
        if self.world.is_calm and conf != confs(run.call)[run.name]:
            yield f"{run}: its configuration is {conf}"
        if run.call.event.is_create and self.owes(run.name, run.id):
            create, first = owed.get(key, (None, conf))
            if create is not None and self.has_told_end(create, run):
                yield f"{create}: no delete before {run}"
            owed[key] = run, first

    def takes_owed(self, run: Run, owed: Owed) -> Iterator[str]:
        conf, key = run.request.get("conf"), (run.id, run.name)
        if run is run.call.runs[0]:
            self.owed_at[run.call.number] = {name for id_, name in owed if id_ == run.id}
        if key in owed:
            if run.is_fed:  # else it is tried again
                yield from self.is_right_delete(run, *owed.pop(key))
        elif self.runs_without_create(run.name, run.call.event):
            if self.world.is_calm and run.is_fed and conf != confs(run.call).get(run.name):
                yield f"{run}: its configuration is {conf}"
        elif self.spare[key]:
            self.spare[key] -= run.is_fed
        elif (run.is_fed or self.world.is_calm) and run.id not in self.runtime.first:
            yield f"{run}: a delete without a create"

    def is_right_delete(self, run: Run, create: Run, conf: object) -> Iterator[str]:
        if "event" in run.request:
            yield f"{run}: it is not the original's"
        if self.world.is_calm and run.request.get("conf") != conf:
            yield f"{run}: it has another configuration than its create"
        has_ended = any(create.call.event.at <= end <= run.fed for end in self.runtime.ends[run.id])
        if not (has_ended or self.world.is_wild or self.is_of_earlier_life(run, create)):
            yield f"{run}: it lives"

    def has_told_end(self, create: Run, later: Run) -> bool:
        """Whether an adapter that was well, and had its plugins, could run the deletes between two creates of an id.

        An id that begins again while its end waits for a long delete may lack its own.
        """
        if self.world.is_rough or "missing" in self.world.kinds:
            return False
        begun = later.call.event.at
        return any(
            event.id == create.id
            and event.method.startswith("Stop")
            and any(self.is_well(call, event.ended + 15) for call in event.got)
            and not self.waits(event, begun)
            for event in self.runtime.events
            if create.call.event.at < event.at < begun
        )

    # Holds

    def holds(self) -> Iterator[str]:
        for hold in self.world.holds:
            last = min(hold.ended, hold.begun + HOLD_LIMIT)
            if not self.world.is_calm and not self.is_well(hold.call, last):
                continue
            (at, error), *more = hold.call.answers
            if hold.call.event.method != "StartContainer" or more or error is not None or at > hold.begun + 1e-3:
                yield f"{hold.call}: held at {hold.begun}, and answered {hold.call.answers}"
            if hold.ended > hold.begun + HOLD_LIMIT + 1e-3:
                yield f"{hold.call}: held until {hold.ended}"
            if self.world.is_calm:
                yield from self.ends_rightly(hold)

    def ends_rightly(self, hold: Hold) -> Iterator[str]:
        call, event = hold.call, hold.call.event
        strict = [type_ for type_ in self.turns(call) if self.must_not_fail(type_, event)]
        missing = [type_ for type_ in strict if not has_succeeded(call, type_, hold.ended)]
        stops = [
            other.at
            for other in self.world.calls[call.number + 1 : hold.before]
            if other.is_asked and other.event.is_delete and other.event.id in (event.id, event.pod)
        ]
        is_stopped = any(hold.begun <= came <= hold.ended for came in stops)
        if any(hold.begun <= came < hold.ended for came in stops):
            yield f"{call}: held though it was stopped"
        if hold.is_ours and hold.starts and (missing or is_stopped):
            yield f"{call}: it starts without {missing}, stopped: {is_stopped}"
        if hold.is_ours and not hold.starts and not (missing or is_stopped):
            yield f"{call}: refused for nothing"
        if not hold.must_finish and not all(has_succeeded(call, type_, hold.begun) for type_ in strict):
            yield f"{call}: if its adapter ends, it starts without {strict}"

    @cached_property
    def held(self) -> set[int]:
        """The events whose containers were held, and have not started."""
        return {hold.call.event.number for hold in self.world.holds if not hold.starts}

    # Nothing is left

    def nothing_left(self) -> Iterator[str]:
        yield from self.world.left

    # What may go wrong: who was well

    @cached_property
    def may_lack_plugins(self) -> bool:
        return not self.world.kinds.isdisjoint({"conf", "missing"})

    def is_well(self, call: Call, until: float) -> bool:
        """Whether the adapter had no fault from an event's coming until a moment."""
        return not any(end >= call.at and start <= until for start, end in call.peer.hits)

    def is_cut(self, call: Call) -> bool:
        """Whether a fault came between an answer and its note."""
        return call.noted_at > call.heard_at + 1e-4

    # An adapter is killed, or is told to end

    def is_told(self, event: Event, run: Run) -> bool:
        """Whether the runtime has the answer of an adapter for which a plugin ran, and others can see that."""
        calls = [call for call in event.accepted if call.peer.life is run.life]
        return any(not self.is_cut(call) and not (run.is_delete and self.came_at_stop(call)) for call in calls)

    # It hangs

    def long_stops(self, call: Call) -> list[tuple[float, float]]:
        """Returns the stops of an adapter for so long that it counts its time from before them."""
        return [(start, end) for peer, start, end, _ in self.world.stops if peer is call.peer and end - start > 1]

    def came_at_stop(self, call: Call) -> bool:
        return any(start <= call.at <= end for start, end in self.long_stops(call))

    def is_unsure(self, call: Call) -> bool:
        """Whether the adapter was stopped when an event came: it cannot know whether its answer was in time."""
        return any(peer is call.peer and start <= call.at <= end for peer, start, end, _ in self.world.stops)

    def has_late_end(self, event: Event, run: Run) -> bool:
        """Whether an adapter was stopped for long when an end came, which it runs: it may take it for a new one."""
        return run.is_delete and any(call.peer.life is run.life and self.came_at_stop(call) for call in event.got)

    def is_hidden(self, event: Event) -> bool:
        """Whether the note of an event may have been replaced by that of another id before all had read it: an
        adapter that hangs makes those wait that the runtime asks after it, also when it never gets the event.
        """
        until = max((call.deadline for call in event.got), default=event.ended)
        stops = self.world.stops if "one place" in self.world.kinds else ()
        return any(stop.start <= until and event.at <= stop.end for stop in stops)

    def found_one_hanging(self, event: Event) -> bool:
        """Whether an adapter that hung had the lock of its id: when it goes on, and finds that the id has gone, its
        note replaces that of the event before all who waited have read it.
        """
        return any(event.id in stop.ids and stop.start <= event.at <= stop.end for stop in self.world.stops)

    def was_stopped(self, run: Run, moment: float) -> bool:
        """Whether the adapter of a run was stopped, so that it did not see the end."""
        return any(stop.peer.life is run.life and stop.start <= moment <= stop.end + 5 for stop in self.world.stops)

    # Another adapter waits for it

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
        spans = runs + [(stop.start, stop.end) for stop in self.world.stops if ids & stop.ids]
        return [(start, end) for start, end in spans if start <= event.ended and end >= event.at]

    # An id begins again, as in no runtime

    def is_of_earlier_life(self, delete: Run, create: Run) -> bool:
        """Whether it is of an earlier life of the id, which was read too late, or waited until the id began again."""
        event, begun = delete.call.event, create.call.event.at
        ends = self.runtime.ends[event.id] + self.runtime.ends[event.pod]
        if any(s.peer.life is delete.life and s.start <= end <= s.end for s in self.world.stops for end in ends):
            return True
        return event.at < begun and self.waits(event, begun)

    def waits(self, end: Event, moment: float) -> bool:
        """Whether work of earlier events of its pod holds an end up until a moment."""
        runs = [run for run in self.world.trace if run.call.event.at < end.at and run.call.event.pod == end.pod]
        return any(run.ends >= moment for run in runs)


PROMISES: tuple[tuple[str, Callable[[Judge], Iterator[str]]], ...] = (
    ("each event is answered once, in time, and rightly", Judge.answers),
    ("each create gets exactly one delete, with the configuration of its create", Judge.deletes),
    ("the work of an event is done once, and its changes are sent once", Judge.done),
    ("events of a container and its pod reach plugins in their order, and without a pause", Judge.order),
    ("a container that is held starts or is refused once, in time and rightly", Judge.holds),
    ("nothing is left", Judge.nothing_left),
)


def is_same(moment: float, other: float) -> bool:
    return abs(moment - other) < 1e-6


def has_succeeded(call: Call, type_: str, moment: float) -> bool:
    return any(run.is_fed and run.has_result(moment) and run.is_good for run in call.runs if run.name == type_)


def confs(call: Call) -> dict[str, object]:
    """Returns the plugins of the conf.json of a call in their order, with what they are configured with."""
    return {entry.type: int(entry.conf) if entry.conf else None for entry in call.entries or ()}


def must_follow(event: Event, earlier: Event) -> bool:
    """The events of an id in order; a container's behind its pod's create, a pod's delete behind its containers'."""
    if event.id == earlier.id:
        return True
    if earlier.method == "RunPodSandbox":
        return event.pod == earlier.id
    return event.is_delete and event.id == earlier.pod
