"""What plugins do: in place of their processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from ..rig.played import PlayedProgram

if TYPE_CHECKING:
    from .clock import Life
    from .event import Call
    from .world import World

OK, ERROR = b"{}", b'{"error":"broken"}'
GOOD = OK, b"null"
OUTPUTS = OK, OK, OK, ERROR, b'{"plugin":', b"", b"\xff", b"{}x", b"null", b"x" * ((1 << 20) + 1)
"""What programs print; besides ERROR only those in GOOD are results."""
MOMENTS = 0.0, 0.001, 0.5, 1.7, 1.89, 1.91, 2.5, 5.0, 31.0, 70.0, None
"""Seconds after its start at which a program prints or exits; None for never."""


class Run(PlayedProgram):
    """The start of a plugin's program, and the program if it has started."""

    def __init__(self, world: World, life: Life, call: Call, name: str) -> None:
        super().__init__(life, name, lambda _: None)
        self.world, self.life, self.call = world, life, call
        self.is_late = call.is_settled
        """Whether it was decided before what becomes of the event."""
        self.id, self.number = call.event.id, call.event.number
        self.is_delete = call.event.is_delete
        self.is_noted = self.is_fed = self.is_over = False
        """Whether its create has been noted, whether the program has its request, and whether its end is dealt with."""
        self.fed, self.ends = self.started, inf
        self.request: Mapping[str, Any] = {}
        self.output = b""
        self.prints = self.exits = inf
        """When it prints and exits, if nobody kills it."""
        self.is_good = self.is_result = False
        """Whether it prints a result that is no error, or any result."""

    def __str__(self) -> str:
        kind = "delete" if self.is_delete else "create" if self.call.event.is_create else "update"
        return f"{self.fed:.5f} {kind} {self.name} {self.id} (event {self.number}) by {self.life}"

    def spawn(self, on_end: Callable[[Any], object]) -> None:
        self.world.point("spawn")
        if self.world.is_refused():
            raise BlockingIOError(11, "Resource temporarily unavailable")
        self.on_end = on_end

    def feed(self, request: bytes) -> None:
        world = self.world
        world.point("before feed")
        assert not self.is_fed, "it is fed twice"
        self.is_fed, self.request, self.fed = True, json.loads(request), world.clock.now
        assert self.request["id"] == self.id
        if self.call.is_asked:
            assert self.request["labels"]["call"] == str(self.number), "it was fed another event's request"
        (self._be_rough if world.is_rough else self._be_tame)()
        if self.output == OK and self.call.event.method == "CreateContainer":
            self.output = json.dumps({"spec": {"annotations": {self.name: "1"}}}).encode()
        self.ends = self.exits
        world.trace.append(self)
        world.say(f"RUN {self}, {self.exits - self.fed:.3f} s, {self.output[:30]!r}")
        if self.exits < inf:
            self.life.call_at(self.exits, lambda: self.end(0))
        world.point("after feed")

    def _be_tame(self) -> None:
        roll = self.world.dice.random()
        self.prints = self.exits = self.fed + (0.001 if roll < 0.85 else 0.4 if roll < 0.95 else 4.0)
        fails = not self.is_delete and self.world.dice.random() < 0.02
        self.output, self.is_good, self.is_result = ERROR if fails else OK, not fails, True

    def _be_rough(self) -> None:
        self.output = self.world.dice.choice(OUTPUTS)
        self.is_good = self.output in GOOD
        self.is_result = self.is_good or self.output == ERROR
        self.exits = self._moment()
        self.prints = min(self.exits, self._moment())

    def _moment(self) -> float:
        """Returns when a program that starts now does something; no two things happen at the same moment."""
        seconds = self.world.dice.choice(self.world.moments)
        return inf if seconds is None else self.fed + seconds + self.world.dice.random() * 1e-4

    @property
    def stdout(self) -> bytes:  # type: ignore[override]
        return self.output if self.prints <= self.world.clock.now else b""

    def has_result(self, moment: float) -> bool:
        """Whether the program has printed a whole result, be it an error."""
        return self.is_result and self.prints <= moment

    def end(self, status: int) -> None:
        had_ended = self.status is not None
        super().end(status)
        self.is_over = not had_ended or self.is_over

    def kill(self) -> None:
        if self.status is None and self.clock.time() < self.ends:
            self.ends, self.is_good = self.clock.time(), self.is_good and self.prints <= self.clock.time()
        super().kill()
