"""The report: a table for people, JSON, and a chart for the documentation. At its head is the machine."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from math import isinf
from pathlib import Path

from tests.bench.events import BACK_TO_BACK, PACED
from tests.bench.figures import Goal, Row, Times
from tests.bench.pods import COUNTS, LAST

WIDTHS = (52, 18, 9, 18, 18, 17, 15, 15)
DRAWN = (PACED, BACK_TO_BACK, f"{max(COUNTS)} {LAST}")
HEAD = ("", "way", "samples", "ours", "theirs", "ratio", "goal", "floor")


def machine() -> Mapping[str, object]:
    """What was measured on, and how busy it was before."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    return {
        "cpu": model,
        "cpus": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def table(about: Mapping[str, object], rows: Sequence[Row], missing: Sequence[str]) -> Iterator[str]:
    """Yield the report for people; rows stand by group."""
    yield ", ".join(f"{name} {value}" for name, value in about.items())
    yield "p50 / p99 of the samples; ratio: ours to theirs; floor: what the same takes that does nothing"
    groups = list(dict.fromkeys(row.group for row in rows))
    for group, found in groupby(sorted(rows, key=lambda row: groups.index(row.group)), lambda row: row.group):
        yield ""
        yield _line(group, *HEAD[1:])
        yield from map(_row, found)
    yield ""
    yield from (f"not measured: {reason}" for reason in missing)


def _row(row: Row) -> str:
    pairs = map(_pair, (row.ours, row.theirs, row.ratio, row.goal, row.floor))
    verdict = {True: "met", False: "MISSED", None: ""}[row.met]
    return f"{_line(row.case, row.way, str(row.samples), *pairs)}  {verdict}".rstrip()


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


def draw(directory: Path, rows: Sequence[Row]) -> None:
    """Write chart.svg to a directory, if there is something to draw."""
    drawn = [row for row in rows if row.group in DRAWN]
    if drawn:
        _chart(drawn, directory / "chart.svg")


def _chart(rows: Sequence[Row], path: Path) -> None:
    """Draw ratios to the reference: a dot is p50, its line ends at p99."""
    import matplotlib  # noqa: PLC0415 - a second, and only here

    matplotlib.use("svg")
    # Text stays text, and the same figures make the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bench", "font.size": 9})
    from matplotlib import pyplot  # noqa: PLC0415 - after it is told what to draw with

    groups = list(dict.fromkeys(row.group for row in rows))
    ways = list(dict.fromkeys(row.way for row in rows))
    heights = [len({row.case for row in rows if row.group == group}) for group in groups]
    figure, plots = pyplot.subplots(
        len(groups), sharex=True, squeeze=False, figsize=(8, 0.9 * len(groups) + 0.22 * sum(heights)),
        height_ratios=heights, layout="constrained",
    )  # fmt: skip
    for group, plot in zip(groups, plots[:, 0], strict=True):
        own = [row for row in rows if row.group == group]
        cases = list(dict.fromkeys(row.case for row in own))
        for number, way in enumerate(ways):
            found = [row for row in own if row.way == way and row.ratio]
            places = [cases.index(row.case) + 0.25 * (number - (len(ways) - 1) / 2) for row in found]
            p50, p99 = ([getattr(row.ratio, which) for row in found] for which in ("p50", "p99"))
            plot.hlines(places, p50, p99, color=f"C{number}", alpha=0.5)
            plot.plot(p50, places, "o", color=f"C{number}", markersize=4, label=way)
        plot.axvline(1, color="grey", linewidth=1)
        plot.set_yticks(range(len(cases)), cases)
        plot.invert_yaxis()
        plot.set_title(group.rpartition(",")[0], loc="left", fontsize=10)
    plots[0, 0].legend(loc="upper right")
    plots[-1, 0].set_xlim(left=0)
    plots[-1, 0].set_xlabel("ratio to upstream's adapter; a dot is p50, its line ends at p99; left is faster")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
