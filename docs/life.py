"""Draws docs/life.svg from the table of an event's life: `python -m docs.life`."""

from __future__ import annotations

from pathlib import Path

from docs.drawing import BOLD, MONO, Picture
from v010_adapter.events.life import TRANSITIONS, LifeState, Transition

FILE = Path(__file__).with_suffix(".svg")
LINE, GAP, LEFT, WIDTH = 18, 22, 12, 770
COLUMNS = 24, 180, 510
"""Where the texts of a row begin: the input, what follows with a program to run, and without."""
HEADINGS = "input", "a program is left to run", "none is (empty: the same)"
LANE = 16
COLOURS = "blue", "green", "amber", "violet", "red", "faint", "pink"
TITLE = "The life of an event's work"
DESCRIPTION = (
    "A box for each state. A row of a box is an input: the next state and the actions if a program is left to run, and "
    "if none is. Lines lead to the next states. The table TRANSITIONS in events/life.py has the same as text."
)


def picture() -> str:
    """Returns the picture."""
    tops, y = dict[LifeState, int](), LINE + GAP
    for state, row in TRANSITIONS.items():
        tops[state] = y
        y += (len(row) + 1) * LINE + 8 + GAP
    drawn = Picture(TITLE, DESCRIPTION, WIDTH + LEFT + (len(tops) + 1) * LANE, size=12, font=MONO)
    for x, text in zip(COLUMNS, HEADINGS, strict=True):
        drawn.text(x, LINE + 4, text, "faint")
    for state, top in tops.items():
        _box(drawn, state, top, tops)
    return drawn.svg(y)


def _box(drawn: Picture, state: LifeState, top: int, tops: dict[LifeState, int]) -> None:
    row = TRANSITIONS[state]
    drawn.box(LEFT, top, WIDTH, (len(row) + 1) * LINE + 8)
    drawn.text(COLUMNS[0], top + LINE, state.name, more=BOLD)
    for number, (input_, (more, none)) in enumerate(row.items(), 2):
        y = top + number * LINE
        drawn.text(COLUMNS[0], y, input_.name)
        drawn.text(COLUMNS[1], y, _words(more, state))
        if none != more:
            drawn.text(COLUMNS[2], y, _words(none, state))
        for target in dict.fromkeys((more[0], none[0])):
            if target is not state:
                lane = [*tops].index(target)
                x, right = LEFT + WIDTH + (lane + 1) * LANE, LEFT + WIDTH
                path = (right, y - 4), (x, y - 4), (x, tops[target] + 10), (right, tops[target] + 10)
                drawn.arrow(path, COLOURS[lane % len(COLOURS)])


def _words(transition: Transition, state: LifeState) -> str:
    target, actions = transition
    words = " ".join(action.name for action in actions)
    return f"{'stays' if target is state else target.name}{': ' * bool(words)}{words}"


if __name__ == "__main__":
    FILE.write_text(picture())
