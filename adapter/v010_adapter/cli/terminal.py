"""What people at a terminal get besides: lines that fit into it, colours for problems, and messages about slow steps.

A width is a number of columns: a character takes one of them, two, or none.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from nri.text import printable

QUIET_TIME = 2.0
"""Seconds that a step may take without a message."""
PROGRESS_TIME = 0.2
"""Seconds between two looks of a progress line."""
CLEARED = "\r\033[K"
USUAL_WIDTH = 80
"""The width of a terminal that does not know it, as a serial console."""
INDENT = 4
"""How much later lines of a text are indented."""
LABEL = 9
"""The width of a label at the begin of a line, as `ok` in `check`."""
GAP = "  "
"""What is between two columns of a table."""
NAME_WIDTH, TEXT_WIDTH = 8, 32
"""The smallest width of a shortened name, and of a text beside the other cells of its row."""
EMPTY = "", "-", "0"
"""Cells that tell nothing: where there is no room, a column of them is left out."""
RED, GREEN, YELLOW, DIM, BOLD = 31, 32, 33, 2, 1
WHEN = AUTO, ALWAYS, NEVER = "auto", "always", "never"
_WORDS = {"PROBLEM": RED, "BAD": RED, "FAULT": RED, "FAILED": RED, "unknown": YELLOW, "not known": YELLOW}
_FIRST = re.compile(rf"^( *)({'|'.join(_WORDS)})\b")


def show(*lines: str, out: TextIO | None = None, paint: Callable[[str], str] | None = None) -> None:
    """Prints lines to stdout or to `out`, without control characters. `paint` then adds the colours to a line."""
    for text in map(printable, lines):
        print(paint(text) if paint else text, file=out, flush=True)


def show_json(value: Any, indent: int | None = 2) -> None:
    """Prints a value as JSON in ASCII, which escapes all control characters."""
    print(json.dumps(value, indent=indent), flush=True)


def are_wanted(out: TextIO, when: str = AUTO) -> bool:
    """Whether `out` gets colours. With `auto`, terminals do, unless NO_COLOR is set (no-color.org) or TERM is dumb."""
    if when != AUTO:
        return when == ALWAYS
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width(out: TextIO) -> int:
    """Returns the width of a terminal, which COLUMNS overrides. Elsewhere, lines have no limit: scripts read them."""
    columns = os.environ.get("COLUMNS", "")
    try:
        if out.isatty() and columns.isdecimal() and int(columns):
            return int(columns)
        return os.get_terminal_size(out.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):  # no terminal, or closed
        return sys.maxsize


def width_of(text: str) -> int:
    """Returns the width of a printable text."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):  # a mark on the character before it
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def cut(text: str, room: int) -> str:
    """Returns a text that is at most `room` wide: of a wider one, the end is left out."""
    return text if width_of(text) <= room else f"{_beginning(text, room - 1)}…"


def shortened(text: str, room: int) -> str:
    """Returns a text that is at most `room` wide: of a wider one, the middle is left out."""
    if width_of(text) <= room:
        return text
    end = (room - 1) * 2 // 3  # the end of a path tells more
    return f"{_beginning(text, room - 1 - end)}…{_beginning(text[::-1], end)[::-1]}"


def _beginning(text: str, room: int) -> str:
    for place, character in enumerate(text):
        room -= _width(character)
        if room < 0:
            return text[:place]
    return text


def wrapped(line: str, room: int, more: int = INDENT) -> list[str]:
    """Returns a line as lines that are at most `room` wide, broken between words; later ones are indented by `more`.

    A word that is wider than a line, as a long path, is shortened.
    """
    if width_of(line) <= room:
        return [line]
    words = line.lstrip(" ")
    leading = min(len(line) - len(words), room // 2)
    indent = " " * min(leading + more, room // 2)
    lines, last = [], " " * leading
    for word in re.findall(" *[^ ]+", words):
        rest = room - width_of(last)
        is_too_wide = width_of(word.lstrip(" ")) > room - len(indent)
        if last.strip(" ") and width_of(word) > rest and not (is_too_wide and rest > room // 2):
            lines.append(last)
            last = indent + shortened(word.lstrip(" "), room - len(indent))
        else:
            last += shortened(word, rest)
    return [*lines, last]


def fitted(lines: Iterable[str], out: TextIO, more: int = INDENT) -> list[str]:
    """Returns printable lines that fit into `out`, later ones indented by `more`."""
    room = width(out)
    return [part for line in lines for part in wrapped(printable(line), room, more)]


def table(
    rows: Iterable[Sequence[object]], room: int, *, names: int = 1, text: bool = False, has_head: bool = True
) -> Iterator[list[str]]:
    """Yields the lines of each row of a table that is at most `room` wide. Columns are as wide as their content.

    The first columns are `names`; the others are numbers, and with `text` the last one is a text. Where there is no
    room, columns that tell nothing are left out, a text is below its row, and names are shortened.
    """
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    texts = [row.pop() if text else "" for row in cells]
    beside = min(max(map(width_of, texts), default=0), TEXT_WIDTH) + len(GAP) if text else 0
    columns = list(zip(*cells, strict=True))
    if _whole(widths := _widths(columns)) + beside > room:
        kept = [place for place, one in enumerate(columns) if any(cell not in EMPTY for cell in one[has_head:])]
        names = sum(place < names for place in kept)
        cells = [[row[place] for place in kept] for row in cells]
        widths = [widths[place] for place in kept]
    is_beside = _whole(widths) + beside <= room
    while _whole(widths) > room and max(widths[:names], default=0) > NAME_WIDTH:
        widths[widths.index(max(widths[:names]))] -= 1
    left = _whole(widths) + len(GAP)
    for row, told in zip(cells, texts, strict=True):
        shown = [shortened(cell, each) for cell, each in zip(row, widths, strict=True)]
        spaces = [" " * (each - width_of(cell)) for cell, each in zip(shown, widths, strict=True)]
        pairs = enumerate(zip(shown, spaces, strict=True))
        line = GAP.join(cell + space if place < names else space + cell for place, (cell, space) in pairs)
        if told and is_beside:
            first, *more = wrapped(told, room - left, 0)
            yield [f"{line}{GAP}{first}", *(" " * left + one for one in more)]
        else:
            yield [line.rstrip(" "), *(wrapped(" " * INDENT + told, room, 0) if told else ())]


def _widths(columns: Iterable[Sequence[str]]) -> list[int]:
    return [max(map(width_of, column)) for column in columns]


def _whole(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def painted(text: str, style: int) -> str:
    return f"\033[{style}m{text}\033[0m"


def by_word(line: str) -> str:
    """Returns a printable line, in which the first word is coloured if it reports a problem."""
    return _FIRST.sub(lambda found: found[1] + painted(found[2], _WORDS[found[2]]), line)


@contextmanager
def announce_if_slow(doing: str) -> Iterator[None]:
    """Prints the step once, if it takes longer than QUIET_TIME and stderr is a terminal."""
    timer = threading.Timer(QUIET_TIME, show, (f"{doing} ...",), {"out": sys.stderr})
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def progress(doing: str) -> Iterator[Callable[..., None]]:
    """Yields a function that shows how much is done of how much, in a line of stderr if that is a terminal.

    Its third argument, if there is one, is what is done now: such a line is always shown.
    """
    shown = 0.0

    def show_line(done: object, total: object, what: str = "") -> None:
        nonlocal shown
        if what or time.monotonic() - shown > PROGRESS_TIME:
            shown = time.monotonic()
            ending = f": {what}" if what else ""
            line = cut(printable(f"{doing}: {done} of {total}{ending}"), width(sys.stderr) - 1)
            print(f"{CLEARED}{line}", end="", file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        yield lambda done, total, what="": None
        return
    try:
        yield show_line
    finally:
        print(CLEARED, end="", file=sys.stderr, flush=True)
