"""What a check found, one thing to a line, for people or as JSON."""

from __future__ import annotations

import json
from itertools import groupby
from typing import NamedTuple, TextIO

from adapter.hooks.file import printable

OK, NOTE, PROBLEM = "ok", "note", "problem"
WORDS = {OK: "ok", NOTE: "note", PROBLEM: "PROBLEM"}


class Entry(NamedTuple):
    """One thing: how it is, the file it is about if any, and where in it (0: nowhere in particular)."""

    status: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Returns it as `FILE:LINE:COLUMN: MESSAGE`, as far as known."""
        place = ":".join([self.file, *(str(number) for number in (self.line, self.column) if number)])
        return f"{place}: {self.message}" if self.file else self.message


Findings = list[tuple[str, Entry]]
"""Entries, each with what part of the configuration it belongs to; those of a part stand together."""


def problems(findings: Findings) -> int:
    """Returns how many problems there are."""
    return sum(entry.status == PROBLEM for _, entry in findings)


def write_json(findings: Findings, out: TextIO) -> None:
    """Writes one object: `checks` with what is known of each thing, and the number of `problems`."""
    checks = [{"part": part, **_known(entry)} for part, entry in findings]
    print(json.dumps({"checks": checks, "problems": problems(findings)}, indent=2), file=out)


def _known(entry: Entry) -> dict[str, object]:
    return {name: value for name, value in entry._asdict().items() if value}


def write_text(findings: Findings, out: TextIO) -> None:
    """Writes a line for each thing under the name of its part, and a summary."""
    for part, of_part in groupby(findings, key=lambda finding: finding[0]):
        print(part, file=out)
        for _, entry in of_part:
            print(f"  {WORDS[entry.status]:7}  {printable(str(entry))}", file=out)
    found = problems(findings)
    print("no problems" if not found else "1 problem" if found == 1 else f"{found} problems", file=out)
