"""Hooks that are injected as containers are created, against a Go plugin made of podman's package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.bench.arena import FRESH, IDLE, Arena, recorded
from tests.bench.figures import Bench, Goal, Row, Times
from tests.peers.build import peer
from tests.peers.hook_cases import PACKAGE

PODMAN = "podman"
COUNTS = {0: 100, 1: 100, 10: 100, 100: 30, 1000: 6}  # hooks, and the containers of one turn
GOALS = {10: Goal(0.12), 100: Goal(0.025), 1000: Goal(0.015)}
MATCHING = 7
ARGS = f"/usr/bin/app-{MATCHING}"
# Keys, values and commands of the hooks' patterns; {} is the hook's number.
KINDS = {
    "literals": (r"^io\.example\.hook-{}$", "^(true|yes)$", "^/usr/bin/app-{}$"),
    "expressions": (r"^io\.example\.[a-z]+-{}(\..*)?$", "^(true|yes|on-{})\\b", "^(/usr)?/bin/app-{}(\\.sh)?$"),
}


def run(bench: Bench) -> Iterator[Row]:
    """Yield a row for each kind and number of hooks."""
    for kind in KINDS:
        for count, block in COUNTS.items():
            yield creation(bench, kind, count, block)


def notes() -> dict[str, str]:
    """36 of them, as a container under containerd has."""
    found = {f"io.kubernetes.cri.sandbox-{number}": f"{number:064x}" for number in range(20)}
    found |= {f"example.com/team-{number}.note": f"value {number}" for number in range(15)}
    return {**found, f"io.example.hook-{MATCHING}": "true"}


def files(kind: str, count: int) -> list[tuple[bytes, bytes]]:
    return [(b"%d.json" % number, content(kind, number)) for number in range(MATCHING, MATCHING + count)]


def content(kind: str, number: int) -> bytes:
    key, value, command = (pattern.replace("{}", str(number)) for pattern in KINDS[kind])
    hook = {"path": "/bin/true", "args": ["true"], "timeout": 5}
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


def launch(arena: Arena, hooks: Path) -> None:
    """Launch the adapter, and the plugin made of podman's package, for the same hooks."""
    settings = {"legacy": arena.chain(FRESH, []), "hooks": {"enabled": True, "directories": [str(hooks)]}}
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
