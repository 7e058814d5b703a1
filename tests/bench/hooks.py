"""Hooks that are injected as containers are created, against a Go plugin made of podman's package; how they load."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory

from adapter.hooks.directory import Directories
from adapter.hooks.facts import Facts
from tests.bench.arena import FRESH, IDLE, REFERENCE, Arena, recorded
from tests.bench.events import MEMORY_GROUP
from tests.bench.figures import Bench, Goal, Row, Times
from tests.peers.build import peer
from tests.peers.hook_cases import PACKAGE, Case, Package

PODMAN = "podman"
COUNTS = {0: 100, 1: 100, 10: 100, 100: 30, 1000: 6}  # hooks, and the containers of one turn
GOALS = {10: Goal(0.12), 100: Goal(0.025), 1000: Goal(0.015)}
LOAD = Goal(2.5)
MEMORY = Goal(28, absolute=True)
MATCHING = 7
MANY = 1000
ARGS = f"/usr/bin/app-{MATCHING}"
# Keys, values and commands of the hooks' patterns; {} is the hook's number.
KINDS = {
    "literals": (r"^io\.example\.hook-{}$", "^(true|yes)$", "^/usr/bin/app-{}$"),
    "expressions": (r"^io\.example\.[a-z]+-{}(\..*)?$", "^(true|yes|on-{})\\b", "^(/usr)?/bin/app-{}(\\.sh)?$"),
}
READING = "hooks, read and matched in the process itself, ms"


def run(bench: Bench) -> Iterator[Row]:
    """Yield rows of creation, of reading and of memory."""
    for kind in KINDS:
        for count, block in COUNTS.items():
            yield creation(bench, kind, count, block)
    for kind in KINDS:
        bench.say(f"{MANY} hooks are read, {kind} …")
        yield from changes(bench, kind)
    yield memory()


def notes() -> dict[str, str]:
    """36 of them, as a container under containerd has."""
    found = {f"io.kubernetes.cri.sandbox-{number}": f"{number:064x}" for number in range(20)}
    found |= {f"example.com/team-{number}.note": f"value {number}" for number in range(15)}
    return {**found, f"io.example.hook-{MATCHING}": "true"}


def files(kind: str, count: int) -> list[tuple[bytes, bytes]]:
    return [(b"%d.json" % number, content(kind, number)) for number in range(MATCHING, MATCHING + count)]


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


def create() -> dict[str, object]:
    """A container with 36 annotations that one hook matches."""
    event = recorded("CreateContainer")
    container = {**event["container"], "annotations": notes(), "args": [ARGS]}
    return {**event, "pod": {**event["pod"], "annotations": {}}, "container": container}


def launch(arena: Arena, hooks: Path, programs: Sequence[Path] = ()) -> None:
    """Launch the adapter, and the plugin made of podman's package, for the same hooks."""
    settings = {"legacy": arena.chain(FRESH, programs), "hooks": {"enabled": True, "directories": [str(hooks)]}}
    arena.launch_ours(FRESH, settings)
    arena.launch(PODMAN, peer("hookplugin", PACKAGE), json.dumps({"directories": [str(hooks)]}))


def creation(bench: Bench, kind: str, count: int, block: int) -> Row:
    """Containers created through the Go runtime."""
    bench.say(f"{count} hooks, {kind} …")
    with Arena() as arena:
        launch(arena, write(arena.directory / "hooks.d", kind, count))
        arena.launch(IDLE, peer("idle"))
        samples = arena.compare(bench, 4, (FRESH, PODMAN, IDLE), [create()], block=block)
    ours, theirs, least = (Times.of(samples[side]) for side in (FRESH, PODMAN, IDLE))
    case = f"{count} hooks, {kind}"
    return Row("CreateContainer, hooks, µs", case, FRESH, len(samples[FRESH]), ours, theirs, least, GOALS.get(count))


def changes(bench: Bench, kind: str) -> Iterator[Row]:
    """What changes of files take until the next container has its hooks, in turn with podman's package.

    Theirs compiles all patterns when it reads, to see that they are good, and again for every container.
    """
    facts = Facts(notes(), ARGS, has_bind_mounts=False)
    case = Case([files(kind, MANY)], facts.annotations, [ARGS]).encode()
    all_read: list[float] = []
    one_read: list[float] = []
    loads: list[float] = []
    matches: list[float] = []
    package = Package()
    with TemporaryDirectory() as name:
        directory = write(Path(name, "hooks.d"), kind, MANY)
        for number in bench.rounds(8):
            (directory / f"{MATCHING}.json").write_bytes(content(kind, MATCHING, argument=f"{number}"))
            directories = Directories([str(directory)])
            all_read.append(matching(directories, facts, f"{number}"))
            (directory / f"{MATCHING}.json").write_bytes(content(kind, MATCHING, argument=f"again {number}"))
            one_read.append(matching(directories, facts, f"again {number}"))
            assert directories.files_read < MANY * 11 // 10, "the others were read again"
            answer = package.ask({**case, "times": 1})
            loads += [ns / 1e6 for ns in answer["load"]]
            matches += [ns / 1e6 for ns in answer["inject"]]
    package.close()
    for what, ours, theirs in (
        ("all read, then matched", all_read, [*map(add, loads, matches)]),
        ("one read, then matched; theirs: matched", one_read, matches),
    ):
        yield Row(READING, f"{what}, {kind}", "", len(ours), Times.of(ours), Times.of(theirs), goal=LOAD)


def matching(directories: Directories, facts: Facts, argument: str) -> float:
    """Milliseconds until the hook is found that matches, with this argument."""
    start = time.perf_counter_ns()
    [named] = directories.current().match(facts)
    taken = (time.perf_counter_ns() - start) / 1e6
    assert named.hook.args == (argument,)
    return taken


def memory() -> Row:
    """After containers were created and started: one adapter with both bridges in use, or upstream's two plugins."""
    with Arena() as arena:
        programs = [peer("plugin")]
        launch(arena, write(arena.directory / "hooks.d", "expressions", 10), programs)
        arena.launch_reference(REFERENCE, arena.chain(REFERENCE, programs))
        once = Bench(0, print)
        arena.compare(once, 0, (FRESH, PODMAN), [create()], block=50)
        arena.compare(once, 0, (FRESH, REFERENCE), [recorded("StartContainer")], block=50)
        ours, *two = (arena.memory(side) for side in (FRESH, PODMAN, REFERENCE))
    return Row(MEMORY_GROUP, "hooks and a plugin", FRESH, 1, Times(ours, ours), Times(sum(two), sum(two)), goal=MEMORY)
