"""How long an event takes, as ratios to the reference, from docs/speed/report.txt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docs.drawing import BOLD, DASHED, END, MIDDLE, SMALL, Picture

REPORT = Path(__file__).parents[1] / "speed/report.txt"
TITLE = "Time of an event, as a ratio to the reference"
DESCRIPTION = (
    "Bars of the median time of StartContainer and StopContainer with the adapter, divided by that with the reference, "
    "which is made of upstream's Go libraries. Shorter than 1 is faster. {} The table on the page has these numbers."
)
CASES = {"legacy events 30 ms apart": "events 30 ms apart", "legacy events back to back": "events back to back"}
"""The tables of the report, and their names here."""
WAYS = {
    "fresh": ("blue", "started for the event"),
    "stand-by": ("green", "started ahead (stand-by)"),
}
LEFT, RIGHT, ROW, MOST = 160, 430, 22, 1.5
"""Where the bars begin, where the longest possible one ends, the height of a row, and the ratio at the right end."""
ROW_OF_REPORT = re.compile(r"^(.+?) {2,}(fresh|stand-by) +\d+ +\S+ / \S+ +\S+ / \S+ +(\S+) / ", re.MULTILINE)


class Measured(NamedTuple):
    """A row of the report: its case, programs, way and the ratio of the medians."""

    case: str
    programs: str
    way: str
    ratio: float


def measured() -> Iterator[Measured]:
    """Yields the report's rows about legacy events."""
    for title, case in CASES.items():
        rows = REPORT.read_text().partition(f"\n{title},")[2].partition("\n\n")[0]
        for programs, way, ratio in ROW_OF_REPORT.findall(rows):
            yield Measured(case, programs, way, float(ratio))


def picture() -> str:
    """Returns the picture."""
    rows = list(measured())
    words = " ".join(f"{case}, {programs}, {way}: {ratio:g}." for case, programs, way, ratio in rows)
    drawn = Picture(TITLE, DESCRIPTION.format(words), 500)
    drawn.text(20, 30, TITLE, more=BOLD)
    for number, (colour, text) in enumerate(WAYS.values()):
        drawn.bar(20 + 200 * number, 46, 14, 14, colour)
        drawn.text(42 + 200 * number, 58, text, "faint", SMALL)
    y, shown = 66, Measured("", "", "", 0)
    ones = list[tuple[float, float]]()
    for row in rows:
        if row.case != shown.case:
            y += 34
            drawn.text(20, y, row.case, more=BOLD)
            ones.append((y - 4, y + 10))
            y += 10
        if row[:2] != shown[:2]:
            y += 6
            drawn.text(LEFT - 12, y + 16, row.programs, more=END)
        width = min(row.ratio, MOST) * (RIGHT - LEFT) / MOST
        drawn.bar(LEFT, y + 3, width, ROW - 5, WAYS[row.way][0])
        drawn.text(drawn.width - 20, y + 16, f"{row.ratio:.2f}", "ink", f"{SMALL} {END}")
        y += ROW
        ones[-1] = ones[-1][0], y + 4
        shown = row
    x = LEFT + (RIGHT - LEFT) / MOST
    for top, bottom in ones:
        drawn.line([(x, top), (x, bottom)], "ink", DASHED)
        drawn.text(x, top - 4, "1: as long as the reference", "faint", f"{SMALL} {MIDDLE}")
    return drawn.svg(y + 16)
