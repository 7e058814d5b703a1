"""One-shot programs that adjust the containers that are created, against a Go daemon that does the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.bench.arena import IDLE, STAND_BY, WAYS, Arena, recorded
from tests.bench.events import BLOCK, SETTLE
from tests.bench.figures import Bench, Goal, Row, Times
from tests.peers.build import PeerMissing, c_program, peer

DAEMON = "daemon"
SAMPLE = Path(__file__).resolve().parents[2] / "legacy-plugins" / "ulimit-adjuster"
LIMITS = [{"type": "nofile", "hard": 4096, "soft": 1024}]
C, PYTHON, PRECREATE = "a C plugin", "the sample in Python", "a precreate hook in C"
PACES = {"30 ms apart": (30, 40), "back to back": (0, 8)}
GOALS = {("30 ms apart", C, STAND_BY): Goal(2)}


def run(bench: Bench) -> Iterator[Row]:
    """Yield rows of containers that are adjusted."""
    with Arena() as arena:
        arena.launch(DAEMON, peer("adjuster"))
        arena.launch(IDLE, peer("idle"))
        sides = launch(arena, bench)
        for pace, (pause, seconds) in PACES.items():
            bench.say(f"containers are adjusted, {pace} …")
            block = 1 if pause else 2 * BLOCK
            samples = arena.compare(
                bench, seconds, [DAEMON, IDLE, *sides], [creation()], pause_ms=pause, settle_ms=SETTLE, block=block
            )
            theirs, least = (Times.of(samples[side]) for side in (DAEMON, IDLE))
            for side, (case, way) in sides.items():
                times, goal = samples[side], GOALS.get((pace, case, way))
                group = f"CreateContainer that is adjusted, {pace}, µs"
                yield Row(group, case, way, len(times), Times.of(times), theirs, least, goal)


def launch(arena: Arena, bench: Bench) -> Mapping[str, tuple[str, str]]:
    """Launch the adapter once for each program and way; return these by side."""
    sides = {}
    for case, name in ((C, "ulimits"), (PYTHON, ""), (PRECREATE, "precreate")):
        try:
            program = c_program(name) if name else SAMPLE
        except PeerMissing as reason:
            bench.missing.append(f"{case}: {reason}")
            continue
        for way in WAYS:
            side = f"{way}-{name or 'python'}"
            standby = int(way == STAND_BY)
            make = precreate if case == PRECREATE else plugin
            arena.launch_ours(side, make(arena, side, program, standby))
            sides[side] = (case, way)
    return sides


def plugin(arena: Arena, side: str, program: Path, standby: int) -> dict[str, Any]:
    """The settings for a legacy plugin that adjusts."""
    chain = arena.chain(side, [program], {"allow": "everything"})
    return {"legacy": {**chain, "standby": standby, "plugins": {"plugin0": {"events": ["CreateContainer"]}}}}


def precreate(arena: Arena, side: str, program: Path, standby: int) -> dict[str, Any]:
    """The settings for a precreate hook."""
    hooks = arena.directory / f"hooks-{side}"
    hooks.mkdir()
    hook = {"version": "1.0.0", "hook": {"path": str(program)}, "when": {"always": True}, "stages": ["precreate"]}
    (hooks / "hook.json").write_text(json.dumps(hook))
    return {
        "legacy": arena.chain(side, []),
        "hooks": {"enabled": True, "precreate": True, "standby": standby, "directories": [str(hooks)]},
    }


def creation() -> Mapping[str, Any]:
    """A container whose pod asks for limits."""
    event = recorded("CreateContainer")
    key = f"ulimits.noderesource.dev/container.{event['container']['name']}"
    return {**event, "pod": {**event["pod"], "annotations": {**event["pod"]["annotations"], key: json.dumps(LIMITS)}}}
