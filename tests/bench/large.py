"""Containers that are as large as a message allows: what the adapter's processes hold when the events are over."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.json_format import MessageToDict

from tests.bench import hooks
from tests.bench.arena import FRESH, Arena
from tests.bench.events import MEMORY_GROUP
from tests.bench.figures import Bench, Goal, Row, Times
from tests.peers.build import peer
from tests.rig.large import creation

SIZE = 3_700_000
"""Bytes of a container's variables."""
EVENTS = 300
FIRST = 10
"""Events after which the processes have what they need for one."""
GOAL = Goal(1.3)
"""What the rest may add. Garbage of one event has up to 26 MB."""


def run(bench: Bench) -> Iterator[Row]:
    """Yield the rows of hooks alone, and of a legacy plugin at StartContainer."""
    with Arena() as arena:
        directory = hooks.write(arena.directory / "hooks.d", "literals", 1)
        arena.launch_ours(FRESH, {"hooks": {"enabled": True, "directories": [str(directory)]}})
        yield measure(bench, arena, "CreateContainer", "one hook")
    with Arena() as arena:
        arena.launch_ours(FRESH, {"legacy": arena.chain(FRESH, [peer("plugin")])})
        yield measure(bench, arena, "StartContainer", "one Go plugin")


def measure(bench: Bench, arena: Arena, event: str, case: str) -> Row:
    """Return the row of one kind of event: memory after all of them, against that after the first ones."""
    number = max(FIRST + 1, round(EVENTS * bench.effort))
    bench.say(f"{number} large containers, {case} …")
    large = creation("env: many", SIZE)
    pod, container = (MessageToDict(part, preserving_proto_field_name=True) for part in (large.pod, large.container))
    first = 0.0
    for count in range(number):
        ids = {"id": f"c{count}", "pod_sandbox_id": "p"}
        reply = arena.runtime.event(event, pod, {**container, **ids}, host=FRESH)
        assert not reply.error, reply.error
        if count + 1 == FIRST:
            first = arena.memory(FRESH)
    ours = arena.memory(FRESH)
    text = f"{case}, {number} large containers, to {FIRST}"
    return Row(MEMORY_GROUP, text, FRESH, number, Times(ours, ours), Times(first, first), goal=GOAL)
