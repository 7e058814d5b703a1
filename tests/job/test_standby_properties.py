"""Whatever happens in whatever order: no start is forgotten, and none holds up an answer. Nothing is executed here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapter.job import standby
from adapter.loop import Loop
from adapter.process import Program
from tests.processes import SteppedLoop

ONE, FOUR = (Program(name, f"/{name}", (name,), {}) for name in ("one", "four"))
WANTED = [(ONE, 1), (FOUR, 4)]


class Fake:
    """A process that stands by, and what a start executes as it was then."""

    alive: ClassVar[list[Fake]] = []
    version = starts = started = 0
    is_settled = is_fit = True
    unread, ending = "", "dead"

    def __init__(self, *given: Any) -> None:
        self.version = Fake.version
        if len(given) > 1:
            self.started, self.ended, self.wrote = given[0].time(), *given[2:]
            self.alive.append(self)
            Fake.starts += 1

    def holds(self) -> bool:
        return self.version == Fake.version

    def serve(self, *_: object) -> None:
        assert self.holds()
        self.discard()

    def discard(self) -> None:
        self.alive.remove(self)  # which fails the second time


class Life:
    """Stand-by, and what may happen to it."""

    def __init__(self, loop: SteppedLoop) -> None:
        Fake.alive.clear()
        self.loop, self.standby = loop, standby.Standby(loop, 300, lambda: WANTED)
        self.is_open = self.is_serving = False

    def open(self) -> None:
        self.is_open = True
        self.standby.open()

    def close(self) -> None:
        self.is_open = self.is_serving = False
        self.standby.close()
        assert not Fake.alive

    def event(self) -> None:
        if self.is_open:
            self.is_serving = True
            self.standby.event_came()

    def answer(self) -> None:
        self.is_serving = False
        self.standby.answered()

    def take(self) -> None:
        self.standby.take(FOUR, lambda _: None, lambda _: None)

    def end(self) -> None:
        for process in Fake.alive[:1]:
            process.discard()
            process.ended(process)

    def write(self) -> None:
        for process in Fake.alive[-1:]:
            process.wrote(process)

    def renew(self) -> None:
        self.standby.renew()

    def change(self) -> None:
        Fake.version += 1
        self.take()  # an event finds out

    def grow_old(self) -> None:
        self.loop.now += 301

    def turn(self) -> None:
        before = Fake.starts
        Loop.call_at(self.loop, self.loop.now, self.loop.stop)
        self.loop.run()
        assert Fake.starts - before <= (self.is_open and not self.is_serving)

    def rest(self) -> None:
        for _ in range(8):
            self.turn()
        told = self.standby.describe()
        assert len(Fake.alive) == sum(crew["waiting"] for crew in told.values())
        if self.is_open and not self.is_serving:
            for program, number in WANTED:
                assert told[program.name]["waiting"] == (0 if told[program.name]["off"] else number)
            assert all(process.holds() and process.started >= self.loop.now - 300 for process in Fake.alive)


RARE = [Life.open, Life.close, Life.renew, Life.change, Life.grow_old, Life.turn]
USUAL = [Life.event, Life.take, Life.answer, Life.rest, Life.rest, Life.end, Life.write]


@given(st.lists(st.sampled_from(RARE + USUAL * 2), min_size=200, max_size=200))
@settings(max_examples=100)
def test_in_any_order(steps: list[Callable[[Life], None]]) -> None:
    with pytest.MonkeyPatch.context() as patch, closing(SteppedLoop()) as loop:
        patch.setattr(standby, "StandbyProcess", Fake)
        patch.setattr(standby, "Executed", Fake)
        patch.setattr(standby, "STRIKES", 2)
        life = Life(loop)
        for step in [Life.open, *steps, Life.answer, Life.rest]:
            step(life)
