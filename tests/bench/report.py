"""The report: a table for people, and JSON. At its head is the machine."""

from __future__ import annotations

import json
import os
import platform
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from math import isinf
from pathlib import Path

from deploy.interpreter import shortcoming
from tests.bench.figures import Goal, Row, Times

WIDTHS = (50, 18, 9, 18, 18, 17, 13, 16)
HEAD = ("", "way", "samples", "ours", "theirs", "ratio", "goal", "floor")

OPTIMISED = "optimised by a profile"


def machine() -> Mapping[str, object]:
    """What was measured on and when, how busy it was before, and with which interpreter."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": model,
        "cpus": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", "?"),
        "python": f"{platform.python_version()} {shortcoming(sysconfig.get_config_vars()) or OPTIMISED}",
    }


def table(about: Mapping[str, object], rows: Sequence[Row], missing: Sequence[str]) -> Iterator[str]:
    """Yield the report for people; rows stand by group."""
    yield ", ".join(f"{name} {value}" for name, value in about.items())
    if not _representative(about):
        yield f"not representative: python {about['python']}"
    yield "p50 / p99 of the samples; ratio: ours to theirs; floor: what the same takes that does nothing"
    groups = list(dict.fromkeys(row.group for row in rows))
    for group, found in groupby(sorted(rows, key=lambda row: groups.index(row.group)), lambda row: row.group):
        yield ""
        yield _line(group, *HEAD[1:])
        yield from (f"{_row(row)}  {verdict(about, row)}".rstrip() for row in found)
    yield ""
    yield from (f"not measured: {reason}" for reason in missing)


def _representative(about: Mapping[str, object]) -> bool:
    return str(about["python"]).endswith(OPTIMISED)


def verdict(about: Mapping[str, object], row: Row) -> str:
    """Say by how much a goal is met or missed; nobody has an interpreter that is not optimised."""
    if row.excess is None:
        return ""
    if not _representative(about):
        return "not representative"
    return f"{'met' if row.met else 'MISSED'} by {abs(row.excess):.0%}"


def _row(row: Row) -> str:
    return _line(
        row.case, row.way, str(row.samples), *map(_pair, (row.ours, row.theirs, row.ratio, row.goal, row.floor))
    )


def _line(first: str, *others: str) -> str:
    return f"{first:<{WIDTHS[0]}}" + "".join(f"{text:>{width}}" for text, width in zip(others, WIDTHS[1:], strict=True))


def _pair(times: Times | Goal | None) -> str:
    """Both numbers, or one where they are the same or where p99 has no goal."""
    both = dict.fromkeys((times.p50, times.p99)) if times else ()
    return " / ".join(_number(each) for each in both if not isinf(each))


def _number(value: float) -> str:
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2 if value >= 0.1 else 4
    return f"{value:.{digits}f}"


def write(directory: Path, about: Mapping[str, object], rows: Sequence[Row], missing: Sequence[str]) -> None:
    """Write report.txt and report.json to a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "report.txt").write_text("".join(f"{line}\n" for line in table(about, rows, missing)))
    found = [{**asdict(row), "ratio": row.ratio and asdict(row.ratio), "met": row.met} for row in rows]
    (directory / "report.json").write_text(json.dumps({"machine": about, "rows": found, "missing": missing}, indent=1))
