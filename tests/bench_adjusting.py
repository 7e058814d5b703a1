"""Adjusting containers with one-shot programs against a Go daemon: `python -m tests.bench` shows it with the rest.

As there, one Go runtime launches both plugins and plays every event to one, then to the other. What counts are ratios.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapter import oci
from adapter.nri import api
from tests.bench_hooks import percentiles
from tests.peers.build import PeerMissing, c_program, peer
from tests.peers.harness import COMMAND, GoRuntime, golden

OURS, THEIRS = "ours", "theirs"
SAMPLE = Path(__file__).resolve().parents[1] / "legacy-plugins" / "ulimit-adjuster"
PLUGIN = {"type": "adjusting", "conf": {"allow": "everything"}}
LIMITS = [{"type": "nofile", "hard": 4096, "soft": 1024}]
CONVERSION_GOAL = 500  # microseconds
CONTENT = (40, 100, 30)  # mounts, variables, annotations


@dataclass(frozen=True)
class Line:
    """CreateContainer in microseconds, p50 and p99, with their ratio."""

    what: str
    samples: int
    ours: tuple[float, float]
    theirs: tuple[float, float]
    ratio: tuple[float, float]


@dataclass(frozen=True)
class Report:
    """Everything that was measured; `conversion` is spec_from and adjustment of a large container, microseconds."""

    lines: Sequence[Line]
    conversion: float
    goal: float
    missing: Sequence[str]


def run(rounds: int, events: int, say: Callable[[str], None]) -> Report:
    """Measures it all."""
    lines, missing = [], []
    for what, program, stage in (
        ("a C plugin", "ulimits", ""),
        ("the sample in Python", "", ""),
        ("a precreate hook in C", "precreate", "precreate"),
    ):
        say(f"adjusting: {what} …")
        try:
            path = c_program(program) if program else SAMPLE
        except PeerMissing as reason:
            missing.append(f"{what}: {reason}")
            continue
        lines.append(measure(what, path, stage, rounds, events if program else events // 4))
    return Report(lines, conversion(), CONVERSION_GOAL, missing)


def measure(what: str, program: Path, stage: str, rounds: int, events: int) -> Line:
    """Creates containers with the Go daemon and with our one-shot program, in turn."""
    with tempfile.TemporaryDirectory() as name, GoRuntime(Path(name)) as runtime:
        directory = Path(name)
        (directory / "bin").mkdir()
        (directory / "bin" / "adjusting").symlink_to(program)
        conf, hooks = directory / "conf.json", directory / "hooks.d"
        hooks.mkdir()
        conf.write_text(json.dumps({"version": "0.1", "plugins": [] if stage else [PLUGIN]}))
        if stage:
            hook = {"version": "1.0.0", "hook": {"path": str(program)}, "when": {"always": True}, "stages": [stage]}
            (hooks / "hook.json").write_text(json.dumps(hook))
        settings = {
            "legacy": {
                "config": str(conf),
                "path": [str(directory / "bin")],
                "plugins": {"adjusting": {"events": ["CreateContainer"]}},
            },
            "hooks": {"enabled": bool(stage), "precreate": True, "directories": [str(hooks)]},
        }
        config = "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())  # more keys follow it
        _launch(runtime, OURS, COMMAND, config)
        _launch(runtime, THEIRS, peer("adjuster"), "")
        for host in (OURS, THEIRS):
            reply = runtime.play("event", host=host, **_creation())
            assert {"rlimits", "env"} & (reply.adjust or {}).keys(), (host, reply)
        samples: dict[str, list[float]] = {OURS: [], THEIRS: []}
        for number in range(rounds + 1):
            reply = runtime.play("compare", hosts=[OURS, THEIRS], repeat=events, **_creation())
            assert not reply.error, reply.error
            for host, times in reply.samples.items() if number else ():  # the first warms up
                samples[host] += times
    (a, b), (c, d) = (percentiles(samples[host]) for host in (OURS, THEIRS))
    return Line(what, len(samples[OURS]), (a, b), (c, d), (a / c, b / d))


def _launch(runtime: GoRuntime, host: str, program: Path, config: str) -> None:
    runtime.open(program, config, name=f"00-{host}", host=host, runtime=("containerd", "2.4.2"))
    started = runtime.play("start", host=host)
    assert started.names == [f"00-{host}"], started


def _creation() -> Mapping[str, Any]:
    found = next(each for each in golden("containerd-2.4.2") if each.event == "CreateContainer")
    container = found.container or {}
    key = f"ulimits.noderesource.dev/container.{container['name']}"
    pod = {**found.pod, "annotations": {**found.pod["annotations"], key: json.dumps(LIMITS)}}
    return {"event": "CreateContainer", "pod": pod, "container": container}


def conversion(rounds: int = 300) -> float:
    """Microseconds to make the spec of a large container, and the adjustment to an edited one; median."""
    mounts, variables, annotations = CONTENT
    container = api.Container(
        id="c",
        args=["sleep", "1"],
        env=[f"VARIABLE_{n}=value {n}" for n in range(variables)],
        annotations={f"example.com/note-{n}": f"value {n}" for n in range(annotations)},
        mounts=[
            api.Mount(destination=f"/data/{n}", type="bind", source=f"/srv/{n}", options=["rbind", "ro"])
            for n in range(mounts)
        ],
    )
    pod = api.PodSandbox(id="p")
    before = oci.spec_from(pod, container)
    after = oci.merged(before, {"process": {"env": ["VARIABLE_7=x", "NEW=y"]}, "annotations": {"a": "b"}})
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        oci.adjustment(oci.spec_from(pod, container), after)
        taken.append((time.perf_counter() - start) * 1e6)
    return sorted(taken)[rounds // 2]


def table(report: Report) -> Iterator[str]:
    """Yields the report for people."""
    yield "CreateContainer that is adjusted, µs: p50 / p99, against a Go daemon that does the same"
    for line in report.lines:
        numbers = (_pair(line.ours), _pair(line.theirs), _pair(line.ratio, 2))
        yield f"{line.what:<39}" + "".join(f"{number:>16}" for number in numbers) + f"  {line.samples} events"
    met = "met" if report.conversion <= report.goal else "MISSED"
    what = "spec_from and adjustment, large container"
    yield f"{what:<41}{report.conversion:>14.0f} µs   goal {report.goal:.0f}  {met}"
    yield from (f"not measured: {reason}" for reason in report.missing)


def _pair(times: tuple[float, float], digits: int = 0) -> str:
    return f"{times[0]:.{digits}f} / {times[1]:.{digits}f}"
