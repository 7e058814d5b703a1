"""The report of `check`, as text or as JSON."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from v010_adapter.cli import terminal
from v010_adapter.cli.arguments import count
from v010_adapter.cli.terminal import show, show_json
from v010_adapter.errors import ConfigError

OK, NOTE, PROBLEM = "ok", "note", "problem"


class Item(NamedTuple):
    """One result: its status, its message and its place. A line or column of 0 means none."""

    status: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Returns `FILE:LINE:COLUMN: MESSAGE`, as far as known."""
        place = ":".join([self.file, *(str(number) for number in (self.line, self.column) if number)])
        return f"{place}: {self.message}" if self.file else self.message


def problem(error: ConfigError) -> Item:
    """Returns the result for an error, whose place may be a file with a line, or with a line and a column."""
    file, *numbers = re.split(r":(\d+)(?::(\d+))?$", error.place)
    return Item(PROBLEM, error.reason, file, *(int(number or 0) for number in numbers[:2]))


Report = Mapping[str, Sequence[Item]]
"""The results by part of the configuration."""


def problems(report: Report) -> int:
    return sum(entry.status == PROBLEM for entries in report.values() for entry in entries)


def write_json(report: Report) -> None:
    """Prints one object: `checks` has the known fields of each result, `problems` is the number of problems."""
    entries = [(part, entry._asdict()) for part, of_part in report.items() for entry in of_part]
    checks = [{"part": part, **{name: value for name, value in entry.items() if value}} for part, entry in entries]
    show_json({"checks": checks, "problems": problems(report)})


def write_text(report: Report, paint: Callable[[str], str] | None = None) -> None:
    """Prints each result under the name of its part, and a summary. A part without results is omitted."""
    for part, entries in report.items():
        if entries:
            show(part)
        for entry in entries:
            status = entry.status.upper() if entry.status == PROBLEM else entry.status
            show(*terminal.fitted([f"  {status:7}  {entry}"], sys.stdout, terminal.LABEL), paint=paint)
    number = problems(report)
    show(count(number, "problem") if number else "no problems")
