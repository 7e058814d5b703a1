"""A soak: so many containers live and die under one adapter, whose memory, descriptors and files are printed.

python -m tests.faults.soak [CONTAINERS [VERSION OF NRI]]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import deque
from pathlib import Path

from tests.e2e.pod import HarnessError as Finding
from tests.peers.build import NEWEST, c_program

from .node import GoNode, PodLife
from .rows import start

ALIVE = 50
"""So many containers live at a time."""
SAMPLES = 20


def play(node: GoNode, events: tuple[str, ...], life: PodLife) -> None:
    for event in events:
        reply = node.runtime.event(event, life.pod, life.container)
        if reply.error or reply.names != node.names:
            raise Finding(f"{event} of {life.container['id']}: {reply.error!r}, then there are {reply.names}")


def figures(node: GoNode) -> str:
    """What the processes of the adapter take, and what lies in its state directory."""
    pids = node.pids()
    rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids]
    pss = sum(int(line.split()[1]) for text in rollups for line in text.splitlines() if line.startswith("Pss:"))
    descriptors = [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]
    files = sum(len(names) for _, _, names in os.walk(node.directory / "state"))
    return f"PSS {pss} kB, descriptors {descriptors}, {files} files in the state directory"


def soak(node: GoNode, containers: int) -> None:
    count = node.directory / "count"
    (node.directory / "c").symlink_to(c_program("plugin"))
    plugins = [{"type": "c", "conf": {"log": str(count)}}]
    (node.directory / "conf.json").write_text(json.dumps({"version": "0.1", "plugins": plugins}))
    start(node)
    alive: deque[PodLife] = deque()
    for number in range(containers):
        alive.append(PodLife.make(str(number)))
        play(node, ("RunPodSandbox", "CreateContainer", "StartContainer"), alive[-1])
        if len(alive) == ALIVE:
            play(node, ("StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"), alive.popleft())
        if not (number + 1) % max(containers // SAMPLES, 1):
            print(f"{number + 1} containers, {count.stat().st_size} runs: {figures(node)}", flush=True)
    while alive:
        play(node, ("StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"), alive.popleft())
    node.until(lambda: not node.owed(), "that nothing is owed")
    print(f"{count.stat().st_size} runs, log of {len(node.log())} characters: {figures(node)}")


def main(containers: int, version: str = NEWEST) -> None:
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        node = GoNode(Path(directory), "launched", version)
        try:
            soak(node, containers)
        finally:
            node.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, *sys.argv[2:3])
