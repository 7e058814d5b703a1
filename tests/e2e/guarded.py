"""The bad day of an adapter that the runtime launches: killed, held back while it joins again, its runtime restarted.

Afterwards each create has had its one delete.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.e2e.checks import Call
from tests.e2e.launched import Launched
from tests.e2e.pod import CONTAINER, STATE, UNHURRIED, Cri, until
from tests.e2e.runtimes import Runtime

Calls = Callable[[], dict[str, list[Call]]]  # returns the runs of each legacy plugin so far
Times = Collection[tuple[int, int]]  # how many creates and deletes are right
KINDS = "pod", "container"
PODS = 20
SLOW = STATE / "slow"  # while this file exists, the plugin `sleeper` takes longer than the runtime waits
SLEEPER = f"""#!/bin/sh
[ -e {SLOW} ] && sleep 5
echo '{{"plugin": "sleeper", "version": "0.1"}}'
"""
SETTINGS = "legacy: {onFailure: ignore, config: %s}\n"
EXPECTED = ("the process before this one was killed by signal 9", "no result within 1.")
"""Errors in the log that are the faults of this run."""
ASKED = "asked to end"
STAYS = {"command": ["/bin/sh", "-c", f"trap 'echo {ASKED}' TERM; while :; do sleep 1000000 & wait $!; done"]}
"""A container that does not end on SIGTERM."""


def play(cri: Cri, adapter: Launched, runtime: Runtime, calls: Calls) -> Iterator[str]:
    pods = Pods(cri)
    for name in ("ends-soon", "ends-after-the-runtime", "ends-last"):
        pods.start(name)
    pods.start("stays", image={"image": UNHURRIED}, **STAYS)
    names = [f"burst{number}" for number in range(PODS)]
    burst(pods, names, calls, adapter.kill)
    adapter.wait_until_registered()
    _join_during_a_grace_period(cri, pods, adapter)
    pods.end("ends-soon")  # not before a kill: a delete that is under way then may run twice
    SLOW.touch()
    pods.start("waits-for-nobody")  # the chains of its creates go on after the answers
    SLOW.unlink()
    until(lambda: has_run(calls, "create", pods.ids["waits-for-nobody"]), "the late creates")
    runtime.stop()
    runtime.start()
    adapter.wait_until_registered()
    pods.end("ends-after-the-runtime")
    runtime.kill()
    runtime.start()
    adapter.wait_until_registered()
    pods.start("starts-after-the-runtime")
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(pods.end, list(pods.running)))
    yield from finish(calls, pods, names)


def _join_during_a_grace_period(cri: Cri, pods: Pods, adapter: Launched) -> None:
    """Kills the adapter while the runtime waits for a container's end. Some runtimes let no plugin join meanwhile."""
    pid = cri.pid("inspect", pods.ids["stays"][1])
    output = cri.folder / "logs/stays" / str(CONTAINER["log_path"])
    with ThreadPoolExecutor(1) as pool:
        stop = pool.submit(pods.end, "stays", grace=60)
        until(lambda: ASKED in output.read_text(), "the container to be asked to end")
        adapter.kill()
        adapter.wait_until_registered_or_held_back()
        os.kill(pid, signal.SIGKILL)
        stop.result()
    adapter.wait_until_registered()


class Pods:
    def __init__(self, cri: Cri) -> None:
        self._cri = cri
        self.ids: dict[str, tuple[str, str]] = {}
        """The ids of pod and container, by the pod's name; also of pods that have ended."""
        self.running: list[str] = []

    def start(self, name: str, **more: object) -> None:
        pod = self._cri.run_pod(name)
        id_ = self._cri.create(pod, **more)
        self._cri("start", id_)
        self.ids[name] = pod.id, id_
        self.running.append(name)

    def end(self, name: str, grace: int = 0) -> None:
        pod, container = self.ids[name]
        self.running.remove(name)
        self._cri("stop", "--timeout", str(grace), container)
        self._cri("rm", container)
        self._cri.end_pod(pod)


def burst(pods: Pods, names: Sequence[str], calls: Calls, kill: Callable[[], None]) -> None:
    """Starts pods in parallel, and kills the adapter when it has run the first plugin for them."""
    before = len(calls()["witness"])
    with ThreadPoolExecutor(len(names)) as pool:
        starts = [pool.submit(pods.start, name) for name in names]
        until(lambda: len(calls()["witness"]) > before, "a create of the burst")
        kill()
        for start in starts:
            start.result()


def has_run(calls: Calls, state: str, ids: tuple[str, ...] | set[str]) -> bool:
    """Whether the last plugin of the chain has run in this state for these ids."""
    return {*ids} <= {call.request["id"] for call in calls()["witness"] if call.key[0] == state}


def finish(calls: Calls, pods: Pods, burst: Sequence[str]) -> Iterator[str]:
    """Waits for the deletes of all pods; yields, in sentences, what plugins have not had as they should."""
    created = {call.request["id"] for call in calls()["witness"] if call.key[0] == "create"}
    until(lambda: has_run(calls, "delete", created), "the deletes of all pods")
    # A plugin that was started and not fed when the adapter was killed gets a delete, too.
    yield from unequal(calls, pods, KINDS, dict.fromkeys(burst, ((1, 1), (0, 0), (0, 1))))


def unequal(calls: Calls, pods: Pods, kinds: Sequence[str], right: Mapping[str, Times]) -> Iterator[str]:
    """Yields where plugins have not had one create and one delete, or what is right for a pod of that name."""
    for plugin, of_plugin in calls().items():
        count = Counter((call.request["id"], call.key[0]) for call in of_plugin)
        for name, ids in pods.ids.items():
            for kind in kinds:
                id_ = ids[KINDS.index(kind)]
                times = count[id_, "create"], count[id_, "delete"]
                if times not in right.get(name, [(1, 1)]):
                    yield f"{plugin}, the {kind} of {name}: {times[0]} creates, {times[1]} deletes"
