"""Injecting hooks against a Go plugin made of podman's package: `python -m tests.bench` shows it with the rest.

As there, one Go runtime launches both plugins and plays every event to one, then to the other; what is measured within
a process is done in turn. What counts are ratios.
"""

from __future__ import annotations

import gc
import json
import logging
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from adapter.hooks.directory import Directories
from adapter.hooks.match import Facts, Matcher, Named
from adapter.hooks.model import parse
from tests.peers.build import peer
from tests.peers.harness import COMMAND, GoRuntime, golden
from tests.peers.hook_cases import PACKAGE, Case, Package

OURS, THEIRS = "ours", "theirs"
COUNTS = {10: 100, 100: 30, 1000: 6}  # hooks, and how many containers are created in one round
GOALS = {10: 0.12, 100: 0.025, 1000: 0.015}
MANY = 1000
LOAD_GOAL = 2.5
MEMORY_GOAL = 28  # megabytes
USUAL = 20
TEN_THOUSAND = "10 000 annotations"
HOSTILE_GOALS = {  # milliseconds
    (USUAL, "one annotation"): 60,
    (USUAL, "one that matches keys"): 60,
    (USUAL, "a long key"): 60,
    (USUAL, "1 000 annotations"): 60,
    (USUAL, TEN_THOUSAND): 120,
}
ARGS = "/usr/bin/app-7"
# Keys, values and commands of the hooks' patterns; {} is the hook's number. Hook 7 matches.
KINDS = {
    "literals": (r"^io\.example\.hook-{}$", "^(true|yes)$", "^/usr/bin/app-{}$"),
    "expressions": (r"^io\.example\.[a-z]+-{}(\..*)?$", "^(true|yes|on-{})\\b", "^(/usr)?/bin/app-{}(\\.sh)?$"),
}


@dataclass(frozen=True)
class Line:
    """Times of one thing, ours and theirs in microseconds, p50 and p99, with their ratio and the goal for it."""

    what: str
    samples: int
    ours: tuple[float, float]
    theirs: tuple[float, float]
    ratio: tuple[float, float]
    goal: float

    @classmethod
    def of(cls, what: str, ours: Sequence[float], theirs: Sequence[float], goal: float) -> Line:
        (a, b), (c, d) = percentiles(ours), percentiles(theirs)
        return cls(what, len(theirs), (a, b), (c, d), (a / c, b / d), goal)


@dataclass(frozen=True)
class Hostile:
    """The longest of a few matches, in milliseconds of processor time, for what else runs here is not the question."""

    what: str
    longest: float
    goal: float | None


@dataclass(frozen=True)
class Memory:
    """Resident megabytes with both bridges in use: one adapter, or upstream's two plugins."""

    ours: float
    theirs: float


@dataclass(frozen=True)
class Report:
    """Everything that was measured."""

    lines: Sequence[Line]
    memory: Memory
    hostile: Sequence[Hostile]


def notes() -> dict[str, str]:
    """36 of them, as a container under containerd has."""
    found = {f"io.kubernetes.cri.sandbox-{number}": f"{number:064x}" for number in range(20)}
    found |= {f"example.com/team-{number}.note": f"value {number}" for number in range(15)}
    return {**found, "io.example.hook-7": "true"}


def files(kind: str, count: int) -> list[tuple[bytes, bytes]]:
    return [(b"%d.json" % number, content(kind, number)) for number in range(count)]


def content(kind: str, number: int, argument: str = "true") -> bytes:
    key, value, command = (pattern.replace("{}", str(number)) for pattern in KINDS[kind])
    hook = {"path": "/bin/true", "args": [argument], "timeout": 5}
    when = {"annotations": {key: value}, "commands": [command]}
    return json.dumps({"version": "1.0.0", "hook": hook, "when": when, "stages": ["createRuntime"]}).encode()


def write(directory: Path, kind: str, count: int) -> Path:
    directory.mkdir()
    for name, text in files(kind, count):
        (directory / name.decode()).write_bytes(text)
    return directory


def percentiles(samples: Sequence[float]) -> tuple[float, float]:
    ranked = sorted(samples)
    return ranked[len(ranked) // 2], ranked[min(len(ranked) * 99 // 100, len(ranked) - 1)]


class Rivals:
    """A Go runtime with the adapter, and one with their plugin, for the same hooks."""

    def __init__(self, runtime: GoRuntime, hooks: Path, legacy: Path) -> None:
        self._runtime = runtime
        chain = f"legacy: {{config: {legacy}/conf.json, path: [{legacy}]}}\n"
        self.launch(OURS, COMMAND, f"{chain}hooks: {{enabled: true, directories: [{hooks}]}}\n")
        self.launch(THEIRS, peer("hookplugin", PACKAGE), json.dumps({"directories": [str(hooks)]}))

    def launch(self, host: str, program: Path, config: str) -> None:
        """Has the runtime launch a plugin in a host of its own."""
        # On a busy machine theirs may take longer than runtimes wait.
        self._runtime.open(program, config, name=f"00-{host}", host=host, request_timeout_ms=60_000)
        started = self._runtime.play("start", host=host)
        assert started.names == [f"00-{host}"], started

    def create(self, count: int) -> Mapping[str, Sequence[float]]:
        """Returns microseconds of containers' creation, by plugin; both inject the hook that matches."""
        for host in (OURS, THEIRS):
            reply = self._runtime.play("event", host=host, **recorded("CreateContainer"))
            assert reply.adjust, (host, reply)
            assert len(reply.adjust["hooks"]["create_runtime"]) == 1, reply.adjust
        return self.play("CreateContainer", count, OURS, THEIRS)

    def play(self, event: str, count: int, *hosts: str) -> Mapping[str, Sequence[float]]:
        """Returns microseconds of events, by plugin."""
        reply = self._runtime.play("compare", hosts=hosts, repeat=count, **recorded(event))
        assert not reply.error, reply.error
        return reply.samples

    def pid(self, host: str) -> int:
        """Returns the process of a host's plugin."""
        return self._runtime.play("plugins", host=host).plugins[0].pid


def recorded(event: str) -> Mapping[str, object]:
    """An event of a container with 36 annotations that one hook matches."""
    found = next(each for each in golden("containerd-2.4.2") if each.event == event)
    container = {**(found.container or {}), "annotations": notes(), "args": [ARGS]}
    return {"event": event, "pod": {**found.pod, "annotations": {}}, "container": container}


def latencies(rounds: int, say: Callable[[str], None]) -> Iterator[Line]:
    """Containers created through the Go runtime."""
    for kind in KINDS:
        for count, times in COUNTS.items():
            say(f"{count} hooks, {kind} …")
            with tempfile.TemporaryDirectory() as name, GoRuntime(Path(name)) as runtime:
                rivals = Rivals(runtime, write(Path(name, "hooks.d"), kind, count), Path(name))
                rivals.create(times)  # warms up
                played = [rivals.create(times) for _ in range(rounds)]
            ours, theirs = ([us for samples in played for us in samples[host]] for host in (OURS, THEIRS))
            yield Line.of(f"CreateContainer, {count} hooks, {kind}", ours, theirs, GOALS[count])


def changes(kind: str, rounds: int) -> Iterator[Line]:
    """What changes of files take until the next container has its hooks, in turn with podman's package.

    Theirs compiles all patterns when it reads, to see that they are good, and again for every container.
    """
    facts = Facts(notes(), ARGS, has_bind_mounts=False)
    case = Case([files(kind, MANY)], facts.annotations, [ARGS]).encode()
    read: list[float] = []
    all_new: list[float] = []
    one_new: list[float] = []
    theirs: list[Mapping[str, Sequence[int]]] = []
    package = Package()
    with tempfile.TemporaryDirectory() as name:
        directory = write(Path(name, "hooks.d"), kind, MANY)
        for number in range(rounds):
            read += timed(lambda: Directories([str(directory)]).current(), 3)
            all_new += timed(lambda: reload(directory, facts), 3)
            one_new += change(directory, kind, facts, number)
            theirs.append(package.ask(**case, times=3))
    package.close()
    loads, matches = ([ns / 1000 for answer in theirs for ns in answer[what]] for what in ("load", "inject"))
    both = [load + match for load, match in zip(loads, matches, strict=True)]
    yield Line.of(f"read {MANY} files, {kind}", read, loads, LOAD_GOAL)
    yield Line.of(f"read {MANY} files and match, {kind}", all_new, both, LOAD_GOAL)
    yield Line.of(f"read 1 of {MANY} and match, {kind}; theirs: match", one_new, matches, LOAD_GOAL)


def reload(directory: Path, facts: Facts) -> None:
    """Read everything, up to the first container's hooks."""
    directories = Directories([str(directory)])
    assert [named.file for named in directories.current().match(facts)] == ["7.json"]


def change(directory: Path, kind: str, facts: Facts, number: int) -> list[float]:
    """Microseconds that the first container waits after one file was changed."""
    directories = Directories([str(directory)])
    directories.current().match(facts)
    gc.collect()
    gc.freeze()  # as the daemon does
    samples = []
    for again in range(3):
        (directory / "7.json").write_bytes(content(kind, 7, argument=f"{number}.{again}"))
        read = directories.files_read
        samples += timed(lambda: directories.current().match(facts), 1)
        assert directories.files_read - read < MANY // 10, "the others were read too"
        [named] = directories.current().match(facts)
        assert named.hook.args == (f"{number}.{again}",)
    gc.unfreeze()
    return samples


def timed(what: Callable[[], object], times: int) -> list[float]:
    """Microseconds of each."""
    samples = []
    for _ in range(times):
        start = time.perf_counter_ns()
        what()
        samples.append((time.perf_counter_ns() - start) / 1000)
    return samples


def memory(resident: Callable[[int], float]) -> Memory:
    """Resident memory after containers were created and started, with hooks and a legacy plugin."""
    with tempfile.TemporaryDirectory() as name, GoRuntime(Path(name)) as runtime:
        legacy = Path(name)
        (legacy / "plugin").symlink_to(peer("plugin"))
        (legacy / "conf.json").write_text(json.dumps({"version": "0.1", "plugins": [{"type": "plugin"}]}))
        rivals = Rivals(runtime, write(legacy / "hooks.d", "expressions", 10), legacy)
        reference = json.dumps({"config": str(legacy / "conf.json"), "path": name})
        rivals.launch("reference", peer("reference"), reference)
        rivals.create(100)
        rivals.play("StartContainer", 100, OURS, "reference")
        found = {host: resident(rivals.pid(host)) for host in (OURS, THEIRS, "reference")}
    return Memory(found[OURS], found[THEIRS] + found["reference"])


def hostile() -> Iterator[Hostile]:
    """Annotations of 256 KiB, in several shapes."""
    logging.disable()
    good = [Named(name.decode(), "", parse(text)) for name, text in files("expressions", MANY)]
    for count in (USUAL, MANY):
        matcher = Matcher(good[:count])
        for what, texts in shapes().items():
            facts = Facts({**notes(), **texts}, ARGS, has_bind_mounts=False)
            yield Hostile(f"{count} hooks, {what}", longest(matcher, facts), HOSTILE_GOALS.get((count, what)))
    logging.disable(logging.NOTSET)


def shapes() -> dict[str, dict[str, str]]:
    """256 KiB, as much as Kubernetes lets a pod have, in several shapes."""
    chance = random.Random(1)  # noqa: S311 - the same each time
    size = 256 << 10
    return {
        "one annotation": {"big": "".join(chance.choices("ab", k=size))},
        "one that matches keys": {"io.example.hook-8": "true yes on- " * (size // 13)},
        "a long key": {"io.example." * (size // 11): ""},
        "1 000 annotations": {f"io.example.note-{n}": "".join(chance.choices("ab", k=230)) for n in range(1000)},
        TEN_THOUSAND: {f"io.example.x-{n}": "".join(chance.choices("ab", k=7)) for n in range(10_000)},
    }


def longest(matcher: Matcher, facts: Facts) -> float:
    samples = []
    for _ in range(5):
        start = time.thread_time()
        assert "7.json" in [named.file for named in matcher.match(facts)]
        samples.append((time.thread_time() - start) * 1000)
    return max(samples)


def run(rounds: int, resident: Callable[[int], float], say: Callable[[str], None]) -> Report:
    """Measures everything; `resident` tells the megabytes of a process. Raises PeerMissing, PeerBroken."""
    lines = list(latencies(rounds, say))
    say("reading hooks …")
    lines += (line for kind in KINDS for line in changes(kind, rounds))
    return Report(lines, memory(resident), list(hostile()))


def table(report: Report) -> Iterator[str]:
    yield f"{'hooks, µs: p50 / p99':<62}{'ours':>18}{'podman':>22}{'ratio':>18}{'goal':>8}"
    for line in report.lines:
        numbers = f"{pair(line.ours):>18}{pair(line.theirs):>22}{pair(line.ratio, 4):>18}{line.goal:>8}"
        yield f"{line.what:<62}{numbers}  {verdict(line.ratio[0] <= line.goal)}"
    held = report.memory
    yield (
        f"{'memory with both bridges, MB; theirs: two plugins':<62}{held.ours:>18.1f}{held.theirs:>22.1f}"
        f"{held.ours / held.theirs:>18.2f}{MEMORY_GOAL:>8}  {verdict(held.ours <= MEMORY_GOAL)}"
    )
    yield ""
    yield f"{'256 KiB of annotations, ms of processor: longest of 5':<62}{'ours':>18}{'goal':>48}"
    for each in report.hostile:
        judged = "" if each.goal is None else f"{each.goal:>48}  {verdict(each.longest <= each.goal)}"
        yield f"{each.what:<62}{each.longest:>18.1f}{judged}"


def pair(numbers: tuple[float, float], digits: int = 0) -> str:
    return f"{numbers[0]:.{digits}f} / {numbers[1]:.{digits}f}"


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"
