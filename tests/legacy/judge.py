"""What the documents promise about any history of a node, written without a look at the code that keeps it.

Times are compared exactly: on a clock that is moved, nothing takes time but programs.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from v010_adapter.legacy.config import Config

from .histories import CONTAINERS, ERROR, GOOD, PODS, Call, History, Program, Try

ORIGINAL = {"RunPodSandbox", "StartContainer", "StopContainer", "StopPodSandbox"}
CREATES = {"CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer"}


class Verdict(NamedTuple):
    """When a program was done with, whether it has succeeded, and whether that was after the answer."""

    at: float
    good: bool
    is_late: bool


class Judge:
    """Holds a history against the promises."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.settings = history.settings
        self.types = {type_: own.events for type_, own in history.settings.plugins.items()}
        self.ends: dict[int, float] = {}
        """When the work for an event was done."""
        self.owed_at: dict[int, dict[str, str]] = {}
        """The plugins that were owed a delete when a delete began, with their configuration."""

    def judge(self) -> None:
        self.creates_have_their_deletes()
        for call in self.history.calls:
            self.is_answered_once_and_in_time(call)
            self.runs_who_has_a_turn(call)
            if not call.is_unasked:
                self.answer_is_right(call)
            self.runs_without_pause(call)
        self.nothing_is_left()

    # One delete for each create

    def creates_have_their_deletes(self) -> None:
        owed: dict[tuple[str, str], str] = {}
        for each in self.history.trace:
            key = each.call.id, each.type
            if each.call.is_delete:
                if each is each.call.tries[0]:
                    mine = [of for of in owed if of[0] == each.call.id]
                    self.owed_at[each.call.number] = {of[1]: owed.pop(of) for of in mine}
                conf = self.owed_at[each.call.number].get(each.type)
                self.is_a_right_delete(each, conf)
                if conf is not None and each.program is None:
                    owed[key] = conf  # it could not be started
            elif each.program is not None:
                conf = confs(each.call.config)[each.type]
                assert each.request.get("conf") == conf, each.call
                if each.call.is_create and self.owes(*reversed(key)):
                    owed.setdefault(key, conf)
        assert not owed, f"creates without a delete: {owed}"

    def is_a_right_delete(self, tried: Try, conf: str | None) -> None:
        if conf is None:
            assert self.runs_without_create(tried.type, tried.call), f"{tried.call}: a delete without a create"
            conf = confs(tried.call.config)[tried.type]
        else:
            assert "event" not in tried.request, f"{tried.call}: the delete is not the original's"
        if tried.program is not None:
            assert tried.request.get("conf") == conf, f"{tried.call}: the delete has another configuration"

    def owes(self, type_: str, id_: str) -> bool:
        events = self.types[type_]
        if events is None:
            return True
        if id_.startswith("pod"):
            return {"RunPodSandbox", "StopPodSandbox"} <= events
        return "StopContainer" in events and bool(events & CREATES)

    def runs_without_create(self, type_: str, call: Call) -> bool:
        if call.event not in (self.types[type_] or ()) or type_ not in confs(call.config):
            return False
        return call.event not in ORIGINAL or not self.owes(type_, call.id)

    # Answers

    def is_answered_once_and_in_time(self, call: Call) -> None:
        assert len(call.answers) == 1, f"{call}: {len(call.answers)} answers"
        assert call.answers[0][0] <= max(call.due, call.came), f"{call}: late"

    def answer_is_right(self, call: Call) -> None:
        at, error = call.answers[0]
        if call.config is None and not call.is_delete:
            wanted = call.event in ORIGINAL or any(call.event in (events or ()) for events in self.types.values())
            assert (error is not None) == (wanted and self.settings.fail_create), f"{call}: {error}"
            return
        verdicts = [(tried, self.verdict(tried)) for tried in call.tries]
        done = [(tried, verdict) for tried, verdict in verdicts if not verdict.is_late]
        expected = any(self.fails(tried.type, call) and not verdict.good for tried, verdict in done)
        others = self.turns(call)[len(done) :]
        if others and not expected and not call.is_dropped:
            assert at == max(call.due, call.came), f"{call}: answered at {at} before {others} were done"
            expected = not call.is_delete and any(self.fails(type_, call) for type_ in others)
        assert (error is not None) == expected, f"{call}: {error}"

    def fails(self, type_: str, call: Call) -> bool:
        own = self.settings.plugins[type_]
        mine, general = (
            (own.fail_delete, self.settings.fail_delete)
            if call.is_delete
            else (own.fail_create, self.settings.fail_create)
        )
        return general if mine is None else mine

    # Who runs, and when

    def turns(self, call: Call) -> list[str]:
        """Returns the plugins whose turn an event is, in order."""
        named = list(confs(call.config))
        if not call.is_delete:
            return [type_ for type_ in named if call.event in (ORIGINAL if (of := self.types[type_]) is None else of)]
        owed = self.owed_at.get(call.number, {})
        first = [tried.type for tried in call.tries if tried.type not in named]
        return [
            *(type_ for type_ in first if type_ in owed),
            *(type_ for type_ in named if type_ in owed or self.runs_without_create(type_, call)),
        ]

    def runs_who_has_a_turn(self, call: Call) -> None:
        tried = [each.type for each in call.tries]
        turns = self.turns(call)
        if call.is_dropped:
            assert not tried, f"{call}: its runtime had gone"
        elif call.is_delete or call.answers[0][1] is None:
            assert tried == turns, f"{call}: {tried}, not {turns}"
        else:
            assert tried == turns[: len(tried)], f"{call}: {tried}, not the first of {turns}"
            assert not any(each.is_late for each in call.tries), f"{call}: a chain goes on that has failed"

    def verdict(self, tried: Try) -> Verdict:
        """A program is waited for until its exit; at the ends of its times only for a result that it has printed."""
        program, answered = tried.program, tried.call.answers[0][0]
        if program is None:
            return Verdict(tried.started, False, tried.is_late)
        own, general = self.settings.plugins[tried.type], self.settings
        timeout = (general.timeout if own.timeout is None else own.timeout) or inf
        kill = self.kills(tried)
        over = min(inf if program.exits is None else program.exits, program.started + timeout)
        is_late = tried.is_late or over > answered
        if is_late and not tried.is_late and (kill or has_result(program, answered)):
            over, is_late = answered, not has_result(program, answered)
        elif is_late:
            over = min(over, max(program.started + self.settings.late_limit, answered))
        return Verdict(over, has_result(program, over) and program.output in GOOD, is_late)

    def kills(self, tried: Try) -> bool:
        own = self.settings.plugins[tried.type].kill_on_timeout
        return self.settings.kill_on_timeout if own is None else own

    def runs_without_pause(self, call: Call) -> None:
        """Nobody waits for what need not be waited for, and everybody for what must be."""
        answered, error = call.answers[0]
        if not call.tries and not call.waits:
            return  # it had nothing to do; who comes next need not wait for it
        before = [earlier for earlier in self.history.calls[: call.number] if must_follow(call, earlier)]
        moment = max([call.came, *(self.ends.get(earlier.number, 0) for earlier in before)])
        for tried in call.tries:
            assert tried.started == moment, f"{call}: {tried.type} at {tried.started}, not {moment}"
            moment = self.verdict(tried).at
        if error is not None and not call.is_delete:
            moment = min(moment, answered)
        elif call.is_dropped and not call.was_late:
            moment = min(moment, max(call.due, call.came))
        left = [self.left_until(tried) for tried in call.tries]
        self.ends[call.number] = max([moment, *left])

    def left_until(self, tried: Try) -> float:
        """Returns how long the next event waits for a program that was left without a result."""
        program, over = tried.program, self.verdict(tried).at
        answered, error = tried.call.answers[0]
        if error is not None and not tried.call.is_delete:
            over = min(over, answered)
        if program is None or has_result(program, over) or self.kills(tried):
            return 0
        return min(inf if program.exits is None else program.exits, program.started + self.settings.late_limit)

    # The end

    def nothing_is_left(self) -> None:
        serving = self.history.serving
        assert len(serving.ledger.ids()) == 0
        if self.history.are_removed:
            kept = [id_ for id_ in (*CONTAINERS, *PODS) if serving.ledger.target(id_)]
            assert kept == [], "what creates knew is kept for ever"
        assert self.history.clock.is_idle


def has_result(program: Program, moment: float) -> bool:
    """Whether a program has printed a whole result, be it an error."""
    return program.prints is not None and program.prints <= moment and program.output in (*GOOD, ERROR)


def confs(config: Config | None) -> dict[str, str]:
    """Returns the plugins of a conf.json in their order, with what they are configured with."""
    return {entry.type: (entry.conf or b"").decode().strip('"') for entry in config.entries} if config else {}


def must_follow(call: Call, earlier: Call) -> bool:
    """The events of an id in order; a container's behind its pod's create, a pod's delete behind its containers'."""
    if call.id == earlier.id:
        return True
    if earlier.event == "RunPodSandbox":
        return call.pod == earlier.id
    return call.is_delete and call.id == earlier.pod
