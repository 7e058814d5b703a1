"""Draws docs/life.svg from the table of an event's life: `python -m docs.life`."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from v010_adapter.events.life import TRANSITIONS, LifeState, Transition

FILE = Path(__file__).with_suffix(".svg")
LINE, GAP, LEFT, WIDTH = 18, 22, 12, 770
COLUMNS = 24, 180, 510
"""Where the texts of a row begin: the input, what follows with a program to run, and without."""
HEADINGS = "input", "a program is left to run", "none is"
LANE = 16
COLOURS = "#0969da", "#1a7f37", "#9a6700", "#8250df", "#cf222e", "#57606a", "#bf3989"
TITLE = "The life of an event's work"
DESCRIPTION = (
    "A box for each state. A row of a box is an input: the next state and the actions if a program is left to run, and "
    "if none is. Lines lead to the next states. The table TRANSITIONS in events/life.py has the same as text."
)


def picture() -> str:
    """Returns the picture. It has a ground of its own, so that it can be read on light and on dark pages."""
    tops, y = dict[LifeState, int](), LINE + GAP
    for state, row in TRANSITIONS.items():
        tops[state] = y
        y += (len(row) + 1) * LINE + 8 + GAP
    width = WIDTH + LEFT + (len(tops) + 1) * LANE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" role="img" '
        f'font-family="monospace" font-size="12" fill="#1f2328">',
        f"<title>{escape(TITLE)}</title>",
        f"<desc>{escape(DESCRIPTION)}</desc>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="context-stroke"/></marker></defs>',
        f'<rect width="{width}" height="{y}" rx="6" fill="#f6f8fa"/>',
        *(_text(x, LINE + 4, text, ' font-style="italic"') for x, text in zip(COLUMNS, HEADINGS, strict=True)),
        *(part for state, top in tops.items() for part in _box(state, top, tops)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(state: LifeState, top: int, tops: dict[LifeState, int]) -> Iterator[str]:
    row = TRANSITIONS[state]
    height = (len(row) + 1) * LINE + 8
    yield f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{height}" rx="5" fill="#ffffff" stroke="#57606a"/>'
    yield _text(COLUMNS[0], top + LINE, state.name, ' font-weight="bold"')
    for number, (input_, (more, none)) in enumerate(row.items(), 2):
        y = top + number * LINE
        yield _text(COLUMNS[0], y, input_.name)
        yield _text(COLUMNS[1], y, _words(more, state))
        if none != more:
            yield _text(COLUMNS[2], y, _words(none, state))
        for target in dict.fromkeys((more[0], none[0])):
            if target is not state:
                yield _line(y - 4, tops[target] + 10, [*tops].index(target))


def _words(transition: Transition, state: LifeState) -> str:
    target, actions = transition
    words = " ".join(action.name for action in actions)
    return f"{'stays' if target is state else target.name}{': ' * bool(words)}{words}"


def _text(x: int, y: int, text: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}"{more}>{escape(text)}</text>'


def _line(start: int, end: int, lane: int) -> str:
    right = LEFT + WIDTH
    x = right + (lane + 1) * LANE
    path = f"M{right} {start}H{x}V{end}H{right}"
    return f'<path d="{path}" fill="none" stroke="{COLOURS[lane]}" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    FILE.write_text(picture())
