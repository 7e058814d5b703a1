"""Matching and reading hooks against podman's package, and hostile ones: `python -m tests.bench_hooks`.

Both do the same work in turn, so that what else the machine does hits both alike: what counts are ratios.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from adapter.hooks.inject import adjustment
from adapter.hooks.match import Facts, Matcher, Named
from adapter.hooks.model import Hook, When, parse
from tests.peers.hook_cases import Case, Package

COUNTS = {10: 200, 100: 40, 1000: 8}  # hooks, and how often upstream matches them in one round
GOALS = {10: 0.12, 100: 0.015, 1000: 0.002}  # for all of CreateContainer
LOAD_GOAL = 1.0
HOSTILE_GOAL = 50  # milliseconds
COMMAND = "/usr/bin/app-7"
# Keys, values and commands of the hooks' patterns; {} is the hook's number. Hook 7 matches.
KINDS = {
    "literals": (r"^io\.example\.hook-{}$", "^(true|yes)$", "^/usr/bin/app-{}$"),
    "expressions": (r"^io\.example\.[a-z]+-{}(\..*)?$", "^(true|yes|on-{})\\b", "^(/usr)?/bin/app-{}(\\.sh)?$"),
}


@dataclass(frozen=True)
class Line:
    """Times of one thing, theirs and ours in microseconds, p50 and p99, with their ratio and the goal for it."""

    what: str
    ours: tuple[float, float]
    theirs: tuple[float, float]
    goal: float

    @property
    def ratio(self) -> tuple[float, float]:
        return self.ours[0] / self.theirs[0], self.ours[1] / self.theirs[1]


@dataclass(frozen=True)
class Hostile:
    """The longest of a few matches, in milliseconds of processor time, for what else runs here is not the question."""

    what: str
    longest: float


def notes() -> dict[str, str]:
    """36 of them, as a container under containerd has."""
    found = {f"io.kubernetes.cri.sandbox-{number}": f"{number:064x}" for number in range(20)}
    found |= {f"example.com/team-{number}.note": f"value {number}" for number in range(15)}
    return {**found, "io.example.hook-7": "true"}


def files(kind: str, count: int) -> list[tuple[bytes, bytes]]:
    key, value, command = KINDS[kind]

    def content(number: int) -> bytes:
        when = {
            "annotations": {key.replace("{}", str(number)): value.replace("{}", str(number))},
            "commands": [command.replace("{}", str(number))],
        }
        hook = {"path": "/bin/true", "args": ["true"], "timeout": 5}
        return json.dumps({"version": "1.0.0", "hook": hook, "when": when, "stages": ["createRuntime"]}).encode()

    return [(b"%d.json" % number, content(number)) for number in range(count)]


def percentiles(samples: Sequence[float]) -> tuple[float, float]:
    ranked = sorted(samples)
    return ranked[len(ranked) // 2], ranked[min(len(ranked) * 99 // 100, len(ranked) - 1)]


def timed(what: Callable[[], object], times: int) -> list[float]:
    """Microseconds of each."""
    samples = []
    for _ in range(times):
        start = time.perf_counter_ns()
        what()
        samples.append((time.perf_counter_ns() - start) / 1000)
    return samples


def load(paths: Sequence[Path]) -> Matcher:
    return Matcher(Named(path.name, str(path), parse(path.read_bytes())) for path in paths)


def compare(package: Package, kind: str, count: int, rounds: int) -> Iterator[Line]:
    """Match a container, and read all files, in turn."""
    content, facts = files(kind, count), Facts(notes(), COMMAND, False)
    case = Case([content], facts.annotations, [COMMAND]).encode()
    inject: tuple[list[float], list[float]] = [], []
    read: tuple[list[float], list[float]] = [], []
    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name, file.decode()) for file, _ in content]
        for path, (_, text) in zip(paths, content, strict=True):
            path.write_bytes(text)
        matcher = load(paths)
        matcher.prepare()
        gc.collect()
        gc.freeze()  # as the daemon does
        assert [named.file for named in matcher.match(facts)] == ["7.json"]
        for _ in range(rounds):
            inject[0].extend(timed(lambda: adjustment(matcher.match(facts)), 500))
            read[0].extend(timed(lambda: load(paths), 5))
            answer = package.ask(**case, times=COUNTS[count])
            assert len(answer["matched"]) == 1, answer
            inject[1].extend(ns / 1000 for ns in answer["inject"])
            read[1].extend(ns / 1000 for ns in answer["load"])
    yield Line(f"match with {count} hooks, {kind}", percentiles(inject[0]), percentiles(inject[1]), GOALS[count])
    yield Line(f"read {count} files, {kind}", percentiles(read[0]), percentiles(read[1]), LOAD_GOAL)


def hostile() -> Iterator[Hostile]:
    """Hostile patterns, each beside 1000 good hooks, and annotations."""
    logging.disable()
    chance = random.Random(1)  # noqa: S311 - the same each time
    long = {"big": "".join(chance.choices("ab", k=1 << 20))}
    many = {f"k{number}": "".join(chance.choices("ab", k=50)) for number in range(10_000)}
    good = [Named(name.decode(), "", parse(text)) for name, text in files("expressions", 1000)]
    for pattern in ("(x+x+)+y", "[ab]*a[ab]{20}", "(a|b)*a(a|b){100}", ".{0,1000}x", "\\pL{10}7", "(a{0,30}){0,30}c"):
        when = When(annotations=((".*", pattern),))
        bad = Named("bad.json", "", Hook("/bin/true", (), (), None, when, (), ""))
        for what, texts in (("an annotation of 1 MiB", long), ("10 000 annotations", many)):
            matcher, facts = Matcher([*good, bad]), Facts({**notes(), **texts}, COMMAND, False)
            matcher.prepare()
            yield Hostile(f"{pattern} and {what}", longest(matcher, facts))


def longest(matcher: Matcher, facts: Facts) -> float:
    samples = []
    for _ in range(5):
        start = time.thread_time()
        assert "7.json" in [named.file for named in matcher.match(facts)]
        samples.append((time.thread_time() - start) * 1000)
    return max(samples)


def table(lines: Sequence[Line], found: Sequence[Hostile]) -> Iterator[str]:
    yield f"{'µs: p50 / p99':<36}{'ours':>20}{'podman':>22}{'ratio':>18}{'goal':>8}"
    for line in lines:
        numbers = f"{pair(line.ours, 1):>20}{pair(line.theirs, 1):>22}{pair(line.ratio, 4):>18}{line.goal:>8}"
        yield f"{line.what:<36}{numbers}  {verdict(max(line.ratio) <= line.goal)}"
    yield ""
    yield f"{'beside 1000 hooks, ms of processor: longest of 5':<60}{'ours':>8}{'goal':>8}"
    for each in found:
        yield f"{each.what:<60}{each.longest:>8.1f}{HOSTILE_GOAL:>8}  {verdict(each.longest <= HOSTILE_GOAL)}"


def pair(numbers: tuple[float, float], digits: int) -> str:
    return f"{numbers[0]:.{digits}f} / {numbers[1]:.{digits}f}"


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench_hooks", description=__doc__)
    parser.add_argument("-o", dest="format", choices=("table", "json"), default="table")
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args(arguments)
    package = Package()
    lines = [line for kind in KINDS for count in COUNTS for line in compare(package, kind, count, options.rounds)]
    package.close()
    found = list(hostile())
    report: Mapping[str, object] = {
        "lines": [{**asdict(line), "ratio": line.ratio} for line in lines],
        "hostile": [asdict(each) for each in found],
    }
    print(json.dumps(report, indent=2) if options.format == "json" else "\n".join(table(lines, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
