"""`v010-adapter demo` as a terminal shows it, from demo.txt: `python -m docs.pictures record` records it anew."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from docs.drawing import MONO, Picture

RECORDING = Path(__file__).with_suffix(".txt")
TITLE = "A terminal that shows v010-adapter demo"
DESCRIPTION = "The output of a run, as it was:"
COLUMNS, WIDTH, LINE, LEFT = 80, 8.4, 18, 16
"""The terminal's columns, the width of one, the height of a line, and the margins, in pixels."""
STYLES = {"": "ink", "1": "ink", "2": "faint", "31": "red", "32": "green", "33": "amber"}
"""Colours for what the terminal is told (select graphic rendition)."""
STYLED = re.compile(r"\033\[(\d+)m(.*?)\033\[0m|([^\033]+)")


def record() -> str:
    """Runs the demo at a terminal; returns what it prints."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TMPDIR": "/tmp"}  # noqa: S108 - others are longer
    words = [str(Path(sys.executable).with_name("v010-adapter")), "demo", "-color", "always"]
    ours, theirs = os.openpty()
    told = b""
    with subprocess.Popen(words, env=environment, stdout=theirs) as process, os.fdopen(ours, "rb", 0) as terminal:  # noqa: S603
        os.close(theirs)
        with suppress(OSError):  # how a terminal says that the other end is closed
            while True:
                told += terminal.read(1 << 16)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return told.decode().replace("\r\n", "\n")


def picture() -> str:
    """Returns the picture."""
    lines = RECORDING.read_text().splitlines()
    plain = ["".join(text or rest for _, text, rest in STYLED.findall(line)) for line in lines]
    width = round(2 * LEFT + max(COLUMNS, *map(len, plain)) * WIDTH)
    drawn = Picture(TITLE, "\n".join((DESCRIPTION, *plain)), width, size=14, font=MONO)
    drawn.text(LEFT, 28, "$ v010-adapter demo", more='font-weight="bold"')
    for number, line in enumerate(lines, 2):
        column = 0
        for style, text, rest in STYLED.findall(line):
            shown = text or rest
            bold = ' font-weight="bold"' if style == "1" else ""
            if shown.strip():
                # The cells of a terminal have one width, whatever font the reader has.
                fit = f'textLength="{len(shown) * WIDTH:g}"{bold}'
                drawn.text(LEFT + column * WIDTH, 10 + number * LINE, shown, STYLES[style], fit)
            column += len(shown)
    return drawn.svg((len(lines) + 2) * LINE + 8)
