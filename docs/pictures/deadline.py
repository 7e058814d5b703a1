"""A plugin against the deadline of its event: when the answer is given, what it is, and what goes on."""

from __future__ import annotations

from typing import NamedTuple

from docs.drawing import BOLD, DASHED, END, SMALL, Picture
from nri.plugin import RESERVE
from nri.testing import Flavour
from v010_adapter.daemon.adapter import RESERVE_WHERE_DROPPED
from v010_adapter.settings import LegacySettings


class Case(NamedTuple):
    """What a plugin does. Times are in seconds."""

    what: str
    answer: str
    bars: tuple[tuple[float, float, str], ...]
    """From when to when which program runs, on which a text stands."""
    printed: float
    """When the program has printed its result."""
    answered: float
    colour: str


DEADLINE = Flavour().request_timeout
DUE = DEADLINE - RESERVE
LEGACY = LegacySettings()
TITLE = "A plugin against the deadline"
PROGRAM, NEXT, STARTS = "plugin", "next one", "starts"
CASES = (
    Case("It exits in time", "its result is the answer", ((0, 0.8, PROGRAM),), 0.8, 0.8, "green"),
    Case("It has printed its result, and works on", "success", ((0, 2.4, PROGRAM),), 0.6, DUE, "green"),
    Case(
        "It is late at StartContainer",
        "its container is held",
        ((0, 2.3, PROGRAM), (2.33, 2.6, STARTS)),
        2.3,
        DUE,
        "green",
    ),
    Case("It is late, not held, must not fail", "an error", ((0, 2.4, PROGRAM),), 2.4, DUE, "red"),
    Case("It is late at any other event", "success", ((0, 2.15, PROGRAM), (2.18, 2.6, NEXT)), 2.15, DUE, "green"),
)
NOTES = (
    f"The runtime waits {DEADLINE:g} s. The adapter answers {RESERVE:g} s before the deadline,",
    f"{RESERVE_WHERE_DROPPED:g} s before it where the runtime drops late plugins. A container is",
    f"held until its plugins are done, for {LEGACY.hold_limit:g} s at most. If it is not held, a late",
    "program may finish, and is killed only if killOnTimeout is set; a chain",
    f"goes on behind the answer without a program that takes {LEGACY.late_limit:g} s.",
)
DESCRIPTION = " ".join((*(f"{case.what}: {case.answer}, after {case.answered:g} s." for case in CASES), *NOTES))
LEFT, SECOND, ROW, TOP = 20, 174, 66, 66


def picture() -> str:
    """Returns the picture."""
    drawn = Picture(TITLE, DESCRIPTION, 500)
    bottom = TOP + len(CASES) * ROW
    marks = ((0, "event", "faint", ""), (DUE, "latest answer", "blue", END), (DEADLINE, "deadline", "red", ""))
    for at, text, colour, how in marks:
        drawn.text(LEFT + at * SECOND - 4 * bool(how), 36, f"{text}, {at:g} s", colour, f"{SMALL} {how}".strip())
    for number, case in enumerate(CASES):
        y = TOP + number * ROW
        drawn.text(LEFT, y + 4, f"{case.what}: {case.answer}", more=BOLD)
        for at, _, colour, _ in marks:
            drawn.line([(LEFT + at * SECOND, y + 10), (LEFT + at * SECOND, y + 46)], colour, DASHED)
        for start, last, text in case.bars:
            x, during = LEFT + start * SECOND, min(last, case.answered)
            drawn.bar(x, y + 16, (last - start) * SECOND, 24, "green" if text == STARTS else "amber", 0.25)
            if during > start:
                drawn.bar(x, y + 16, (during - start) * SECOND, 24, "amber", 0.35)
            drawn.text(x + 8, y + 33, text, "ink", SMALL)
        if case.printed <= case.answered:
            mark = LEFT + case.printed * SECOND
            drawn.line([(mark, y + 16), (mark, y + 40)], "amber", 'stroke-width="3"')
            drawn.text(mark - 8, y + 33, "result", "ink", f"{SMALL} {END}")
        x = LEFT + case.answered * SECOND
        drawn.arrow([(x, y + 10), (x, y + 47)], case.colour, 'stroke-width="2"')
    for number, text in enumerate(NOTES):
        drawn.text(LEFT, bottom + 22 + 19 * number, text, "faint", SMALL)
    return drawn.svg(bottom + 22 + 19 * len(NOTES))
