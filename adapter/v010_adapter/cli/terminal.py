"""What people at a terminal get besides: colours for words that report a problem, and messages about slow steps."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from nri.text import printable

QUIET_TIME = 2.0
"""Seconds that a step may take without a message."""
PROGRESS_TIME = 0.2
"""Seconds between two looks of a progress line."""
CLEARED = "\r\033[K"
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
    """Returns how many columns a line may have: those of a terminal, or COLUMNS; else there is no limit."""
    return shutil.get_terminal_size((sys.maxsize, 24)).columns if out.isatty() else sys.maxsize


def shortened(text: str, room: int) -> str:
    """Returns a text of at most `room` characters: of a longer one, the middle is left out."""
    if len(text) <= room:
        return text
    end = (room - 1) * 2 // 3  # the end of a path tells more
    return f"{text[: room - 1 - end]}…{text[-end:] if end else ''}"


def wrapped(line: str, room: int) -> list[str]:
    """Returns a line as lines of at most `room` characters, broken between words; later ones are indented."""
    if len(line) <= room:
        return [line]
    indent = " " * (len(line) - len(line.lstrip(" ")))
    wrapper = textwrap.TextWrapper(
        room, initial_indent=indent, subsequent_indent=f"{indent}    ", break_on_hyphens=False, expand_tabs=False
    )
    return wrapper.wrap(line.strip(" ")) or [line]


def painted(text: str, style: int) -> str:
    return f"\033[{style}m{text}\033[0m"


def by_word(line: str) -> str:
    """Returns a printable line, in which the first word is coloured if it reports a problem."""
    return _FIRST.sub(lambda found: found[1] + painted(found[2], _WORDS[found[2]]), line)


@contextmanager
def announce_if_slow(doing: str) -> Iterator[None]:
    """Prints the step once, if it takes longer than QUIET_TIME and stderr is a terminal."""
    timer = threading.Timer(QUIET_TIME, show, (f"{doing} ...",), {"out": sys.stderr})
    timer.daemon = True
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

    def show_line(done: int, total: int, what: str = "") -> None:
        nonlocal shown
        if what or time.monotonic() - shown > PROGRESS_TIME:
            shown = time.monotonic()
            ending = f": {what}" if what else ""
            print(f"{CLEARED}{doing}: {done} of {total}{ending}", end="", file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        yield lambda done, total, what="": None
        return
    try:
        yield show_line
    finally:
        print(CLEARED, end="", file=sys.stderr, flush=True)
