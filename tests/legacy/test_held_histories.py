"""Random histories in which containers are held: each is let go or refused, in time, and rightly.

What is promised of creates, deletes and answers holds as without holds.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import pytest

from nri import HoldEnd
from v010_adapter.legacy.request import Target
from v010_adapter.monitoring.trace import UNTRACED, Trace
from v010_adapter.settings import LegacySettings

from ..rig.brief import CI
from ..rig.holder import PlayedHolder
from .histories import GOOD, Call, History
from .judge import Judge, has_result

FEW, MANY = 60, 600
"""How many are tried: where a person waits, and in CI."""


class Hold:
    """A hold of a history."""

    def __init__(self, call: Call, begun: float) -> None:
        self.call, self.begun, self.ended = call, begun, inf
        self.starts = self.is_ours = False
        """Whether the container was let go, and whether the adapter has ended the hold."""
        self.must_finish = False
        self.before = 0
        """The number of calls that had come when it ended: two may come at one moment."""


class Holder(PlayedHolder):
    """Holds containers if the dice say so."""

    def __init__(self, history: HeldHistory) -> None:
        super().__init__()
        self._history = history
        self.holds: list[Hold] = []
        self.now: dict[str, Hold] = {}

    @property
    def dice(self) -> random.Random:
        return self._history.dice

    def can_hold(self, target: Target, trace: Trace = UNTRACED) -> bool:
        return self.dice.random() < 0.9

    def hold(
        self,
        target: Target,
        what: str,
        plugin: str,
        *,
        due: float,
        must_finish: bool,
        on_end: Callable[[HoldEnd], object],
        trace: Trace = UNTRACED,
    ) -> bool:
        self.can, self.is_ready = self.dice.random() < 0.9, self.dice.random() < 0.9
        is_held = super().hold(target, what, plugin, due=due, must_finish=must_finish, on_end=on_end)
        if is_held:
            call = self._history.calls[int(json.loads(target.labels)["call"])]
            self.now[target.id] = made = Hold(call, self._history.clock.now)
            made.must_finish = must_finish
            self.holds.append(made)
        return is_held

    def end(self, id_: str, error: Exception | None) -> None:
        if id_ in self.held:
            self._over(id_, starts=error is None, is_ours=True)
        super().end(id_, error)

    def end_any(self) -> None:
        """The keeper, or somebody else, ends a hold."""
        if self.held:
            id_ = self.dice.choice([*self.held])
            ends = [HoldEnd.GONE, HoldEnd.REFUSED if self.at_end[id_] else HoldEnd.LET_GO]
            end = self.dice.choice(ends)
            self._over(id_, starts=end is HoldEnd.LET_GO, is_ours=False)
            self.end_by(id_, end)

    def _over(self, id_: str, *, starts: bool, is_ours: bool) -> None:
        hold = self.now.pop(id_)
        hold.ended, hold.starts, hold.is_ours = self._history.clock.now, starts, is_ours
        hold.before = len(self._history.calls)


class HeldHistory(History):
    """A history in which containers are held."""

    HAPPENINGS: Mapping[str, int] = {**History.HAPPENINGS, "end_hold": 5}
    holder: Holder

    def _settings(self) -> LegacySettings:
        return super()._settings()._replace(hold_after=self.dice.choice((0.0, 0.5, inf)))

    def _made_holder(self) -> Holder:
        return Holder(self)

    def end_hold(self) -> None:
        self.holder.end_any()


class HoldJudge(Judge):
    """Holds a history against what is promised of holds, and against what holds of all histories."""

    history: HeldHistory

    def judge(self) -> None:
        self.creates_have_their_deletes()
        for call in self.history.calls:
            self.is_answered_once_and_in_time(call)
        for hold in self.history.holder.holds:
            self.is_right(hold)
        self.nothing_is_left()

    def is_right(self, hold: Hold) -> None:
        call = hold.call
        assert call.event == "StartContainer"
        assert call.answers == [(hold.begun, None)], f"{call}: the runtime was not told at {hold.begun}"
        assert hold.ended <= hold.begun + PlayedHolder.limit + 1e-6, f"{call}: held until {hold.ended}"
        strict = [type_ for type_ in self.turns(call) if self.fails(type_, call)]
        missing = [type_ for type_ in strict if not self.is_done(call, type_, hold.ended)]
        stops = [
            other.came
            for other in self.history.calls[call.number + 1 : hold.before]
            if other.is_delete and not other.is_unasked and other.id in (call.id, call.pod)
        ]
        is_stopped = any(hold.begun <= came <= hold.ended for came in stops)
        assert not any(hold.begun <= came < hold.ended for came in stops), f"{call}: held though it was stopped"
        if hold.is_ours and hold.starts:
            assert not missing, f"{call}: it starts without {missing}"
            assert not is_stopped, f"{call}: it starts though it was stopped"
        elif hold.is_ours:
            assert missing or is_stopped, f"{call}: refused for nothing"
        assert hold.must_finish or not [type_ for type_ in strict if not self.is_done(call, type_, hold.begun)]

    def is_done(self, call: Call, type_: str, moment: float) -> bool:
        programs = [tried.program for tried in call.tries if tried.type == type_]
        return any(one is not None and has_result(one, moment) and one.output in GOOD for one in programs)


def test_each_hold_ends_once_in_time_and_rightly(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice, held = random.Random(f"held {seed}"), 0  # noqa: S311 - no secret
    ends: set[Any] = set()
    logging.disable()
    try:
        for _ in range(MANY if CI else FEW):
            number = dice.getrandbits(32)
            history = HeldHistory(number, monkeypatch)
            try:
                history.play(steps=40)
                HoldJudge(history).judge()
            except Exception as error:
                raise AssertionError(f"HeldHistory({number}): {error}") from error
            held += len(history.holder.holds)
            ends |= {(hold.starts, hold.is_ours) for hold in history.holder.holds}
    finally:
        logging.disable(logging.NOTSET)
    assert held > FEW / 4, "containers have been held"
    assert ends >= {(True, True), (False, True), (False, False)}, "in each way"
