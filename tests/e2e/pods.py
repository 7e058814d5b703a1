"""Pods that live while the adapter and the runtime are killed and come back: each create has its one delete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.e2e.checks import Call
from tests.e2e.pod import Cri, until

Calls = Callable[[], dict[str, list[Call]]]  # returns the runs of each legacy plugin so far


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
    """Waits for the deletes of all pods; yields, in sentences, where plugins have not had one create and one delete."""
    created = {call.request["id"] for call in calls()["witness"] if call.key[0] == "create"}
    until(lambda: has_run(calls, "delete", created), "the deletes of all pods")
    for plugin, of_plugin in calls().items():
        count = Counter((call.request["id"], call.key[0]) for call in of_plugin)
        for name, ids in pods.ids.items():
            # A plugin that was started and not fed when the adapter was killed gets a delete, too.
            right = {(1, 1), (0, 0), (0, 1)} if name in burst else {(1, 1)}
            for kind, id_ in zip(("pod", "container"), ids, strict=True):
                times = count[id_, "create"], count[id_, "delete"]
                if times not in right:
                    yield f"{plugin}, the {kind} of {name}: {times[0]} creates, {times[1]} deletes"
