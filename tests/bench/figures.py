"""What is measured, as data: a row compares one way to run the adapter with its counterpart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True)
class Times:
    """What lies above half of the samples, and above 99 of a hundred."""

    p50: float
    p99: float

    @classmethod
    def of(cls, samples: Sequence[float], divisor: float = 1) -> Self:
        """Sum up samples, which are not in order, in a larger unit."""
        ranked = sorted(samples)
        return cls(*(ranked[min(len(ranked) * percent // 100, len(ranked) - 1)] / divisor for percent in (50, 99)))


@dataclass(frozen=True)
class Goal:
    """What the ratio to the counterpart, or in absolute terms our own figure, may be at most."""

    p50: float
    p99: float = float("inf")
    absolute: bool = False


@dataclass(frozen=True)
class Row:
    """One comparison. `way` is how the adapter did it; `floor` is what the same takes that does nothing."""

    group: str
    case: str
    way: str
    samples: int
    ours: Times
    theirs: Times | None = None
    floor: Times | None = None
    goal: Goal | None = None

    @property
    def ratio(self) -> Times | None:
        """Ours in parts of theirs."""
        return self.theirs and Times(self.ours.p50 / self.theirs.p50, self.ours.p99 / self.theirs.p99)

    @property
    def excess(self) -> float | None:
        """The part by which the goal is missed, or met if it is below 0: the worse of p50 and p99."""
        judged = self.ours if self.goal and self.goal.absolute else self.ratio
        return max(judged.p50 / self.goal.p50, judged.p99 / self.goal.p99) - 1 if self.goal and judged else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met, if there is one."""
        return self.excess <= 0 if self.excess is not None else None


@dataclass
class Bench:
    """What a case is given: how much of the usual time it may take, and where to tell what it does and leaves out."""

    effort: float
    say: Callable[[str], None]
    missing: list[str] = field(default_factory=list)

    def rounds(self, seconds: float) -> Iterator[int]:
        """Count rounds until that much time has passed, at full effort; there is always one."""
        begin, number = time.monotonic(), 0
        while number == 0 or time.monotonic() - begin < seconds * self.effort:
            yield number
            number += 1
