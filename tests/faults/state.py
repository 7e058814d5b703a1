"""What becomes of the state directory: full, removed, and with as much in it as pods can write."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from adapter.legacy.config import Entry
from adapter.legacy.request import of_container
from adapter.nri import api
from adapter.owed import records
from tests.e2e.pod import HarnessError as Finding

from .node import STEPS, Life, Node
from .rows import Traffic, ends

EVENTS, CONTAINERS = 300, 500


@contextmanager
def small_disk(state: Path) -> Iterator[None]:
    """A file system of its own over the state directory: the adapter finds that another has come in its place."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "faults", state], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", state], check=True)


def disk_full(node: Node) -> str:
    if os.geteuid():
        return "skipped: only root can mount a small disk"
    state, traffic, last = node.directory / "state", Traffic(node, random.Random(0)), Life.make("last")  # noqa: S311
    while traffic.events < EVENTS // 10:
        traffic.step()
    with small_disk(state):
        traffic.step()
        with suppress(OSError), (state / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
        while traffic.events < EVENTS:
            traffic.step()
        (state / "filler").unlink()
        node.plays(last, *STEPS[:2])
        notes = node.notes()
        created = {request.removeprefix("create:") for request in notes if request.startswith("create:")}
        if node.owed() != (owed := {id_ for id_ in created if not notes[f"delete:{id_}"]}):
            raise Finding(f"the journal has {node.owed()}, owed are {owed}")
        node.kill()
        node.rejoins()
        traffic.finish()
        node.plays(last, *STEPS[2:])
        return ends(node, last, *traffic.lives)


def directory_removed(node: Node) -> str:
    """An adapter that is started then waits: nothing runs twice."""
    life, other = Life.make("a"), Life.make("b")
    node.plays(life, *STEPS[:2])
    shutil.rmtree(node.directory / "state")
    node.plays(other, "RunPodSandbox")
    node.start_external("01")
    node.names = ["00-v010-adapter", "01-v010-adapter"]
    node.until(lambda: node.runtime.play("plugins").names == node.names, "the second adapter")
    node.plays(other, "StartContainer")
    for each in (life, other):
        node.plays(each, *STEPS[2:])
    return ends(node, life, other)


def journal_at_its_bound(node: Node) -> str:
    """The first events of an adapter that finds all that many pods can write."""
    life, other = Life.make("a"), Life.make("b")
    node.plays(life, *STEPS[:2])
    labels = {"x": '"' * (records.MOST_KEPT // 2 - 100)}
    with (node.directory / "state/journal").open("ab") as journal:
        for number in range(CONTAINERS):
            full = Life.make(f"full-{number}")
            full.container.update(state="CONTAINER_RUNNING")
            node.lives.append(full)
            target = of_container(
                api.Container(id=full.container["id"]), api.PodSandbox(id=full.pod["id"], labels=labels)
            )
            journal.write(records.created(target, Entry("legacy-fp", 0, "0.1", None), is_first=True))
        size = journal.tell()
    node.kill()
    node.rejoins()
    node.plays(life, *STEPS[2:])
    node.plays(other, *STEPS)
    return f"{size >> 20} MiB, {ends(node, life, other)}"
