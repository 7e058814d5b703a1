"""`simulate -pods`: its arguments, and what it prints of a load."""

from __future__ import annotations

import math
import re
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from nri.testing.flavour import Flavour
from nri.testing.load import Figures, Load
from v010_adapter.cli import terminal
from v010_adapter.cli.arguments import FINDINGS, FINE, Parser, count, paint
from v010_adapter.cli.simulate.play import Play
from v010_adapter.cli.terminal import show, show_json

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
HEAD = ["event", "answers", "p50 ms", "p90 ms", "p99 ms", "max ms"]


def add_flags(parser: Parser) -> None:
    text = "a load: play so many pods at once, with 0 to 10 containers each, and measure the answers"
    parser.flag("pods", text, metavar="N", type=_number, default=0)
    parser.flag("repeat", "rounds of -pods (1)", metavar="N", type=_number, default=1)
    parser.flag("rate", "pods that start in a second (all at once)", metavar="R", type=_rate, default=0)
    text = "a number that decides on the pods of a load: the same number makes the same pods (0)"
    parser.flag("seed", text, metavar="N", type=int, default=0)
    text = "exit code 1 if p99 of an event is longer, as 20ms"
    parser.flag("max-p99", text, metavar="TIME", type=duration, default=math.inf)


def given(options: Namespace) -> bool:
    """Whether one of the flags is there that belong to -pods."""
    return (options.repeat, options.rate, options.seed, options.max_p99) != (1, 0, 0, math.inf)


def main(play: Play, flavour: Flavour, options: Namespace, _: object) -> int:
    """Plays the load, prints what it came to, and returns the exit code."""
    with terminal.progress("pods") as progress:
        load = play.load(
            pods=options.pods, repeat=options.repeat, rate=options.rate, seed=options.seed, progress=progress
        )
    problems = play.problems + load.problems(options.max_p99)
    if options.output == "json":
        runtime = f"{flavour.name}/{flavour.version.removeprefix('v')}"
        show_json({"runtime": runtime, "seed": options.seed, **asdict(load), "problems": problems}, indent=None)
    else:
        lines = [*_lines(load, flavour), *(f"PROBLEM: {one}" for one in problems)]
        show(*terminal.fitted(lines, sys.stdout), paint=paint(options))
    return FINDINGS if problems else FINE


def _lines(load: Load, flavour: Flavour) -> Iterator[str]:
    yield f"{flavour.name} {flavour.version}, NRI {flavour.nri}"
    yield f"{count(load.pods, 'pod')}, {count(load.containers, 'container')}, {count(load.events, 'event')}"
    for name in dict.fromkeys((*(one.plugin for one in load.figures), *load.usage)):
        yield ""
        if used := load.usage.get(name):
            memory = f"{used.memory / 1e6:.1f} MB of memory, processes: {used.processes}"
            yield f"{name}: {used.cpu:.2f} s of processor time, {memory}"
        else:
            yield name
        yield from _table([one for one in load.figures if one.plugin == name], flavour)
    yield ""
    each, turns = load.waited / max(load.pods, 1), load.waited - load.answered
    parts = f"{turns:.1f} s for their turn, {load.answered:.1f} s for answers"
    yield f"the pods waited {load.waited:.1f} s in all, {each:.1f} s each: {parts}"


def _table(figures: Sequence[Figures], flavour: Flavour) -> Iterator[str]:
    """Yields the figures of a plugin, a line for each event."""
    rows: list[list[object]] = [[*HEAD, f"p99 of {flavour.request_timeout:g} s", "late", "errors"]]
    for one in figures:
        times = (f"{time * 1000:.2f}" for time in (one.p50, one.p90, one.p99, one.max))
        rows.append([one.event, one.answers, *times, f"{one.share:.1%}", one.lates, one.errors])
    margin = "  "
    if figures:
        yield from (margin + line for [line] in terminal.table(rows, terminal.width(sys.stdout) - len(margin)))


def _number(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text):
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to 99999")
    return int(text)


def _rate(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?", text):
        raise ArgumentTypeError(f"{text!r} is not a number of pods such as 0.5")
    return float(text)


def duration(text: str) -> float:
    """Reads a time such as 20ms. Raises ArgumentTypeError."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s)", text)
    if not found:
        raise ArgumentTypeError(f"{text!r} is no time such as 20ms")
    return float(found[1]) * UNITS[found[2]]
