"""How fast and how large the adapter is, against a plugin made of upstream's stub and client: `python -m tests.bench`.

One Go runtime launches both and plays every event to one, then to the other, in changing order, so that what else the
machine does hits both alike: what counts are ratios. Beside them stands the floor, what the machine itself takes.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from tests import bench_adjusting, bench_hooks
from tests.peers.build import PeerBroken, PeerMissing, c_program, peer
from tests.peers.harness import COMMAND, GoRuntime, golden

OURS, REFERENCE = "ours", "reference"
MEGABYTE = 1_000_000
MEMORY_GOAL = 24  # megabytes
START_GOAL = 5  # bare interpreter starts


@dataclass(frozen=True)
class Scenario:
    """Legacy plugins that run for every event, and how much of the reference's time we may take."""

    name: str
    plugins: Sequence[Path]
    p50_goal: float
    p99_goal: float


@dataclass(frozen=True)
class Times:
    """Microseconds of many events or rounds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Times:
        """Sum up samples."""
        return cls(percentile(samples, 50), percentile(samples, 99))


@dataclass(frozen=True)
class Latency:
    """StartContainer in one scenario. `ratios` are of all events, `rounds` the medians of the rounds' own ratios."""

    scenario: str
    events: int
    ours: Times
    reference: Times
    floor: Times
    ratios: Times
    rounds: Times
    goals: Times


@dataclass(frozen=True)
class Start:
    """From exec to registered and synchronized, milliseconds; `multiple` is ours in bare starts of the interpreter."""

    ours: float
    reference: float
    interpreter: float
    multiple: float
    goal: float


@dataclass(frozen=True)
class Memory:
    """Megabytes after the events, all processes of a plugin together; shared memory counts once (PSS)."""

    ours: float
    reference: float
    goal: float


@dataclass(frozen=True)
class Report:
    """Everything that was measured, and what could not be."""

    latencies: Sequence[Latency]
    start: Start
    memory: Memory
    hooks: bench_hooks.Report
    adjusting: bench_adjusting.Report
    missing: Sequence[str]


def percentile(samples: Sequence[float], percent: int) -> float:
    return sorted(samples)[min(len(samples) * percent // 100, len(samples) - 1)]


def scenarios() -> tuple[list[Scenario], list[str]]:
    go = peer("plugin")
    found, missing = [Scenario("no legacy plugin", [], 0.7, 0.8)], []
    try:
        c = c_program("plugin")
        found += [Scenario("one C plugin", [c], 0.85, 0.9), Scenario("three C plugins", [c] * 3, 0.8, 0.9)]
    except PeerMissing as reason:
        missing.append(f"C plugins: {reason}")
    found.insert(2, Scenario("one Go plugin", [go], 0.92, 0.9))
    return found, missing


class Arena:
    """One scenario's directory: the legacy plugins, and both adapters' configurations for them."""

    def __init__(self, directory: Path, scenario: Scenario) -> None:
        self.directory = directory
        names = [f"plugin{n}" for n in range(len(scenario.plugins))]
        (directory / "bin").mkdir()
        for name, program in zip(names, scenario.plugins, strict=True):
            (directory / "bin" / name).symlink_to(program)
        conf, path = directory / "conf.json", directory / "bin"
        conf.write_text(json.dumps({"version": "0.1", "plugins": [{"type": name} for name in names]}))
        self._configs = {
            OURS: (COMMAND, f"legacy: {{config: {conf}, path: [{path}]}}\nhooks: {{enabled: false}}\n"),
            REFERENCE: (peer("reference"), json.dumps({"config": str(conf), "path": str(path)})),
        }

    def launch(self, runtime: GoRuntime, who: str, host: str, *, configured: bool = True) -> float:
        """Return the microseconds from exec to synchronized."""
        program, config = self._configs[who]
        if not configured:
            config = ""
        runtime.open(program, config, name=f"00-{who}", host=host)
        started = runtime.play("start", host=host)
        assert started.names == [f"00-{who}"], started
        return started.us


def measure_latency(runtime: GoRuntime, arena: Arena, scenario: Scenario, rounds: int, events: int) -> Latency:
    recorded = next(r for r in golden("containerd-2.4.2") if r.event == "StartContainer")
    samples: dict[str, list[list[float]]] = {OURS: [], REFERENCE: []}
    floors: list[float] = []
    for number in range(rounds + 1):
        reply = runtime.play(
            "compare",
            hosts=[OURS, REFERENCE],
            event=recorded.event,
            pod=recorded.pod,
            container=recorded.container,
            repeat=events,
        )
        assert not reply.error, reply.error
        if number:  # the first warms up
            for who, times in reply.samples.items():
                samples[who].append(list(times))
            floors += floor(scenario, events)
    whole = {who: Times.of([us for round_ in all_rounds for us in round_]) for who, all_rounds in samples.items()}
    each = [ratio(Times.of(a), Times.of(b)) for a, b in zip(samples[OURS], samples[REFERENCE], strict=True)]
    return Latency(
        scenario.name,
        rounds * events,
        whole[OURS],
        whole[REFERENCE],
        Times.of(floors),
        ratio(whole[OURS], whole[REFERENCE]),
        Times(median(r.p50 for r in each), median(r.p99 for r in each)),
        Times(scenario.p50_goal, scenario.p99_goal),
    )


def ratio(a: Times, b: Times) -> Times:
    return Times(a.p50 / b.p50, a.p99 / b.p99)


def floor(scenario: Scenario, count: int) -> list[float]:
    """Microseconds of what a scenario cannot do without: its plugins' processes, or a round trip on a socket."""
    if not scenario.plugins:
        return bare("socket", count)
    runs = [bare("spawn", count, program) for program in scenario.plugins]
    return [sum(each) for each in zip(*runs, strict=True)]


def bare(what: str, count: int, *command: Path | str) -> list[float]:
    try:
        program = c_program("floor")
    except PeerMissing:
        return [0.0]
    told = subprocess.run([program, what, str(count), *command], capture_output=True, text=True, check=True)
    return [int(line) / 1000 for line in told.stdout.split()]


def measure_start(directory: Path, times: int) -> Start:
    """Start all three in turn; medians."""
    samples: dict[str, list[float]] = {OURS: [], REFERENCE: [], "interpreter": []}
    arena = Arena(directory, Scenario("start", [], 1, 1))
    with GoRuntime(directory) as runtime:
        for number in range(times):
            for who in (OURS, REFERENCE):
                # Without a configuration of its own, as on most nodes: reading YAML costs a quarter more.
                host = f"{who}{number}"
                samples[who].append(arena.launch(runtime, who, host, configured=who != OURS))
                # Without its connection ours would try to join again, as long as the runtime lives.
                process = os.pidfd_open(runtime.play("plugins", host=host).plugins[0].pid)
                signal.pidfd_send_signal(process, signal.SIGTERM)
                select.select([process], [], [])
                os.close(process)
                runtime.play("stop", host=host)
            samples["interpreter"] += bare("spawn", 1, sys.executable, "-c", "pass")
    ours, reference, python = (median(samples[who]) / 1000 for who in (OURS, REFERENCE, "interpreter"))
    return Start(ours, reference, python, ours / python if python else 0, START_GOAL)


def resident(pid: int) -> float:
    """Megabytes of a process and those it has started; shared memory counts once (PSS)."""
    sizes = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kibibytes = next(int(line.split()[1]) for line in sizes if line.startswith("Pss:"))
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return sum(map(resident, children), start=kibibytes * 1024 / MEGABYTE)


def run(rounds: int, events: int, starts: int, hook_rounds: int, say: Callable[[str], None]) -> Report:
    found, missing = scenarios()
    latencies = []
    memory = Memory(0, 0, MEMORY_GOAL)
    for scenario in found:
        say(f"{scenario.name} …")
        with tempfile.TemporaryDirectory() as name, GoRuntime(Path(name)) as runtime:
            arena = Arena(Path(name), scenario)
            for who in (OURS, REFERENCE):
                arena.launch(runtime, who, who)
            latencies.append(measure_latency(runtime, arena, scenario, rounds, events))
            pids = {who: runtime.play("plugins", host=who).plugins[0].pid for who in (OURS, REFERENCE)}
            now = Memory(resident(pids[OURS]), resident(pids[REFERENCE]), MEMORY_GOAL)
            memory = max(memory, now, key=lambda m: m.ours)
    say("starts …")
    with tempfile.TemporaryDirectory() as name:
        start = measure_start(Path(name), starts)
    hooks = bench_hooks.run(hook_rounds, resident, say)
    return Report(latencies, start, memory, hooks, bench_adjusting.run(rounds, events, say), missing)


def table(report: Report) -> Iterator[str]:
    yield "StartContainer, µs: p50 / p99"
    yield row("", "ours", "reference", "ratio", "rounds' median", "goal", "floor", "")
    for found in report.latencies:
        met = found.ratios.p50 <= found.goals.p50 and found.ratios.p99 <= found.goals.p99
        ratios = (pair(times, 2) for times in (found.ratios, found.rounds, found.goals))
        yield row(found.scenario, pair(found.ours), pair(found.reference), *ratios, pair(found.floor), verdict(met))
    yield ""
    yield row("", "ours", "reference", "interpreter", "multiple", "goal", "", "")
    s = report.start
    columns = (f"{s.ours:.1f}", f"{s.reference:.1f}", f"{s.interpreter:.1f}", f"{s.multiple:.2f}", f"{s.goal:.0f}")
    yield row("exec to registered, ms", *columns, "", verdict(s.multiple <= s.goal))
    m = report.memory
    columns = (f"{m.ours:.1f}", f"{m.reference:.1f}", "", "", f"{m.goal:.0f}")
    yield row("memory after it, MB", *columns, "", verdict(m.ours <= m.goal))
    yield ""
    yield f"{report.latencies[0].events} events per line. The floor of events: the same plugins by vfork, exec and wait"
    yield "alone; without plugins a byte there and back over a unix socket."
    yield ""
    yield from bench_hooks.table(report.hooks)
    yield ""
    yield from bench_adjusting.table(report.adjusting)
    yield from (f"not measured: {reason}" for reason in report.missing)


def row(*columns: str) -> str:
    return f"{columns[0]:<23}" + "".join(f"{column:>16}" for column in columns[1:-1]) + f"  {columns[-1]}"


def pair(times: Times, digits: int = 0) -> str:
    return f"{times.p50:.{digits}f} / {times.p99:.{digits}f}"


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("-o", dest="format", choices=("table", "json"), default="table")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--events", type=int, default=400, help="per round")
    parser.add_argument("--starts", type=int, default=21)
    parser.add_argument("--hook-rounds", type=int, default=10)
    options = parser.parse_args(arguments)

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    try:
        report = run(options.rounds, options.events, options.starts, options.hook_rounds, say)
    except (PeerMissing, PeerBroken) as reason:
        print(f"cannot measure: {reason}", file=sys.stderr)
        return 1
    print(json.dumps(asdict(report), indent=2) if options.format == "json" else "\n".join(table(report)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
