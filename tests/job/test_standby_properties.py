"""Whatever happens in whatever order: no start is forgotten, and none holds up an answer. Nothing is executed here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rig.loop import SteppedLoop
from v010_adapter.base.loop import Loop
from v010_adapter.programs import standby
from v010_adapter.programs.process import Process, Program

PROGRAM, WANTED = Program("plugin", "/bin/sh", ("plugin",), {}), 4


class Life:
    """Stand-by in a loop, and the processes that wait."""

    def __init__(self, loop: SteppedLoop) -> None:
        self.loop, self.standby = loop, standby.Standby(loop, 300, lambda: [(PROGRAM, WANTED)])
        self.alive: list[Any] = []
        self.is_open = self.is_serving = False
        self.may_start = 0

    def start(self, loop: Loop, _: Program, ended: Callable[[Process], None], __: Callable[[str], None]) -> Any:
        assert self.is_open
        assert not self.is_serving
        self.may_start -= 1
        assert not self.may_start
        process = SimpleNamespace(started=loop.time(), is_fit=True, ended=ended, ending="dead")
        process.wait = lambda wrote: setattr(process, "wrote", wrote)
        process.serve = process.discard = lambda *_: self.alive.remove(process)  # which fails the second time
        self.alive.append(process)
        return process

    def serve(self, is_open: bool, is_serving: bool, change: Callable[[], None]) -> None:
        if is_open or not is_serving:
            self.is_open, self.is_serving = is_open, is_serving
            change()

    def spoil(self) -> None:
        for process in self.alive[:1]:
            process.wrote(process)

    def turn(self) -> None:
        self.may_start = 1
        self.loop.settle(turns=1)

    def rest(self) -> None:
        for _ in range(WANTED + 3):
            self.turn()
        told = self.standby.describe().get("plugin", {"waiting": 0, "off": ""})
        assert told["waiting"] == len(self.alive)
        if not self.is_serving:
            assert told["waiting"] == (WANTED if self.is_open and not told["off"] else 0)


STEPS: list[Callable[[Life], object]] = [
    lambda life: life.serve(True, life.is_serving, life.standby.open),
    lambda life: life.serve(False, False, life.standby.close),
    lambda life: life.serve(life.is_open, True, life.standby.on_event),
    lambda life: life.serve(life.is_open, False, life.standby.on_answered),
    lambda life: life.standby.renew(),
    lambda life: life.standby.claim(PROGRAM, lambda _: None, lambda _: None),
    Life.spoil,
    Life.turn,
    Life.rest,
]


@given(st.lists(st.sampled_from(STEPS), min_size=200, max_size=200))
@settings(max_examples=100)
def test_nothing_is_forgotten_in_any_order(steps: list[Callable[[Life], object]]) -> None:
    with pytest.MonkeyPatch.context() as patch, closing(SteppedLoop()) as loop:
        life = Life(loop)
        patch.setattr(standby, "Process", life.start)
        for step in steps:
            step(life)
