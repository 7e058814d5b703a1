"""Three adapters beside each other, which end in all ways while pods live and die."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from threading import Thread

from tests.e2e.pod import HarnessError as Finding

from .node import STEPS, Node
from .rows import Traffic, ends

ENDS, CONTAINERS = 12, 100
KILL, STOP, TERMINATE, INTERRUPT = signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT


class Adapter:
    """One of three. `process` is None for the one that the runtime has launched, as long as that lives."""

    def __init__(self, node: Node, index: str) -> None:
        self.node, self.index = node, index
        self.process = node.externals[-1] if node.externals else None
        self._has_first_server = True

    def is_joined(self) -> bool:
        of_runtime = self.node.launched if self._has_first_server else self.node.server
        return (self.process.pid if self.process is not None else of_runtime) in self.node.joined()

    def end(self, how: signal.Signals) -> None:
        """Ends it, and sees to it that another follows: a guard does so for a server that is killed or stopped."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
        else:
            is_servers = how in {KILL, STOP}
            pid = self.node.server if is_servers else self.node.guard
            pidfd = os.pidfd_open(pid)
            os.kill(pid, how)
            has_ended = select.select([pidfd], [], [], 60)[0]
            os.close(pidfd)
            if not has_ended:
                raise Finding(f"{how.name} does not end process {pid}")
            if is_servers:
                self._has_first_server = False
                return
        self.node.start_external(self.index)
        self.process = self.node.externals[-1]


class WatchedTraffic(Traffic):
    """Traffic of which is known when the creates were under way."""

    def __init__(self, node: Node, rng: random.Random) -> None:
        super().__init__(node, rng)
        self.creates: dict[str, tuple[float, float]] = {}

    def _advance(self, number: int) -> None:
        event, life, begin = STEPS[self._open[number]], self.lives[number], time.monotonic()
        super()._advance(number)
        if event in {"RunPodSandbox", "StartContainer"}:
            of = life.pod if event == "RunPodSandbox" else life.container
            self.creates[of["id"]] = begin, time.monotonic()


def three(node: Node, seed: int) -> str:
    """No create is lost but those under way at a kill, and none runs twice."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    adapters = [Adapter(node, "00")]
    for index in ("01", "02"):
        node.start_external(index)
        adapters.append(Adapter(node, index))
    traffic, kills = WatchedTraffic(node, rng), list[float]()

    def are_joined() -> bool:
        return all(adapter.is_joined() for adapter in adapters)

    def end(adapter: Adapter, how: signal.Signals, pause: float) -> None:
        select.select([], [], [], pause)
        if how in {KILL, STOP}:
            kills.append(time.monotonic())
        adapter.end(how)

    node.until(are_joined, "three adapters")
    for number in range(ENDS):
        adapter, how = rng.choice(adapters), rng.choice([KILL, TERMINATE, STOP])
        if how is STOP and adapter.process is not None:  # nobody replaces it
            how = INTERRUPT if number % 2 else KILL
        ender = Thread(target=end, args=(adapter, how, rng.uniform(0, 0.05)))
        ender.start()
        while ender.is_alive() or len(traffic.lives) < (number + 1) * CONTAINERS // ENDS:
            traffic.step()
        ender.join()
        node.until(are_joined, f"three adapters after {how.name}")
    traffic.finish()
    notes = node.notes()
    lost = [id_ for id_ in traffic.creates if not notes[f"create:{id_}"]]
    figures = ends(node, *traffic.lives, kills=len(kills))
    for id_ in lost:
        begin, end_ = traffic.creates[id_]
        if not any(begin <= kill <= end_ for kill in kills):
            raise Finding(f"{figures}; lost though no kill was near: {id_}")
    return f"{traffic.events} events, {len(kills)} kills of {ENDS} ends, {figures}, {len(lost)} creates lost to kills"
