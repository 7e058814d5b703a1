"""What happens to the pods and containers of a node, and in the end: the story of a history."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from v010_adapter.events.deletes import LAST_RETRY
from v010_adapter.legacy.config import Entry

from .event import TIMEOUT, Event
from .peer import Peer
from .world import TYPES

if TYPE_CHECKING:
    from .world import World

PODS = {"c0": "pod0", "c1": "pod1", "c2": "pod0", "pod0": "pod0", "pod1": "pod1"}
"""The pods and containers of a node. In histories that are not wild, each has several lives, as `ID.NUMBER`."""
WILD = {
    "RunPodSandbox": 3,
    "UpdatePodSandbox": 1,
    "StopPodSandbox": 3,
    "RemovePodSandbox": 2,
    "CreateContainer": 3,
    "PostCreateContainer": 1,
    "StartContainer": 8,
    "PostStartContainer": 2,
    "UpdateContainer": 2,
    "StopContainer": 8,
    "RemoveContainer": 4,
}
"""How often each event comes in wild histories, compared with the others."""


class Story:
    """Plays a history."""

    def __init__(self, world: World) -> None:
        self.world, self.runtime = world, world.runtime
        self._slots: dict[str, str] = {}
        """The ids that are in use."""
        self._lives = Counter[str]()
        self._version = 0

    def play(self) -> None:
        world, dice = self.world, self.world.dice
        for _ in range(1 if world.is_calm else dice.choice((3, 4, 5) if world.is_crowded else (1, 1, 2, 3))):
            Peer(world)
            self.wait(0.1)
        if world.is_wild:
            self._be_wild()
        else:
            self._go_as_usual()
        self._finish()

    def wait(self, seconds: float) -> None:
        self.world.clock.advance(seconds)
        self.runtime.let_join()

    def _go_as_usual(self) -> None:
        world, dice = self.world, self.world.dice
        for _ in range(dice.choice((10, 25, 40))):
            if not any(not peer.life.is_dead and not peer.is_ending for peer in world.peers):
                Peer(world)
                self.wait(dice.choice((0.2, 3.0)))
            self._change_plugins()
            self._end_hold()
            self._happen(dice.choice([*PODS]))
            self.wait(dice.choice((0.0, 0.001, 0.05, 0.05, 1.0, 6.0)))
        for slot in sorted(self._slots):
            self._stop_id(self._slots[slot])

    def _be_wild(self) -> None:
        """Events come in any order, and while others wait for their answers, as from no runtime."""
        world, dice = self.world, self.world.dice
        self.runtime.pods.update(PODS)
        self.runtime.living.update(dict.fromkeys(PODS, "CREATED"))
        for _ in range(40):
            if not self.runtime.peers:
                self.wait(40)
            self._change_plugins()
            self._end_hold()
            if dice.random() < 0.7:
                (method,) = dice.choices([*WILD], [*WILD.values()])
                is_pod = method.endswith("PodSandbox")
                within = dice.choice((2.0, 2.0, 2.0, 0.3, 60.0, 0.0, -1.0))
                self._send(method, dice.choice([id_ for id_, pod in PODS.items() if is_pod is (id_ == pod)]), within)
            else:
                self.wait(dice.choice((0.0, 0.0005, 0.3, 1.8, 1.95, 6.0, 32.0)))
        world.faults.clear()
        self.wait(41)
        are_removed = dice.random() < 0.5
        for id_, pod in PODS.items():
            kind = "PodSandbox" if id_ == pod else "Container"
            for method in ("Stop", "Remove")[: 1 + are_removed]:
                self._send(f"{method}{kind}", id_, TIMEOUT)

    def _send(self, method: str, id_: str, within: float) -> None:
        jitter = self.world.dice.random() * 1e-4 if within > 0 else 0
        event = self.runtime.deliver(method, id_, within + jitter, waits=False)
        is_running = method in ("StartContainer", "RunPodSandbox")
        self.runtime.living[id_] = "RUNNING" if is_running else "CREATED"
        if event.is_delete:
            self.runtime.ends[id_].append(event.at)

    def _change_plugins(self) -> None:
        """What conf.json has, or which plugins are found, changes."""
        world, dice = self.world, self.world.dice
        if dice.random() < (0.1 if world.is_rough else 0.2 if "conf" in world.kinds else 0):
            self._version += 1
            some = dice.sample(TYPES, dice.choice((0, 2, 3, 4, 4)))
            entries = tuple(Entry(type_, 0, "0.1", b"%d" % self._version) for type_ in some)
            world.entries = None if world.is_rough and dice.random() < 0.1 else entries
            world.say(f"CONF {world.entries}")
        if "missing" in world.kinds and dice.random() < 0.15:
            world.missing = set(dice.sample(TYPES, dice.choice((0, 1, 1, 2))))
            world.say(f"MISSING {world.missing}")

    def _end_hold(self) -> None:
        """The keeper, or somebody else, ends a hold."""
        if self.world.is_calm and self.world.dice.random() < 0.05:
            self.world.end_hold()

    def _happen(self, slot: str) -> None:
        """The next event of a pod or container."""
        dice, runtime = self.world.dice, self.runtime
        is_pod = slot == PODS[slot]
        id_ = self._slots.get(slot, "")
        state = runtime.living.get(id_, "")
        if not state:
            pod = "" if is_pod else self._slots.get(PODS[slot], "")
            if not is_pod and pod not in runtime.living:
                return
            begins_again = id_ and dice.random() < 0.15 and runtime.pods.get(id_, id_) in (pod, id_)
            if not begins_again:
                self._lives[slot] += 1
                id_ = self._slots[slot] = f"{slot}.{self._lives[slot]}"
            runtime.pods[id_] = pod or id_
            self._begin_id(id_, is_pod=is_pod)
        elif state == "CREATED":
            runtime.living[id_] = "RUNNING"
            if runtime.deliver("StartContainer", id_).has_failed:
                self._stop_id(id_)
        elif is_pod:
            if dice.random() < 0.4:
                for other, pod in list(runtime.pods.items()):
                    if pod == id_ != other:
                        self._stop_id(other)
                self._stop_id(id_)
        else:
            self._change(id_)

    def _change(self, id_: str) -> None:
        """Something happens to a container that runs."""
        runtime, roll = self.runtime, self.world.dice.random()
        if roll < 0.3:
            runtime.deliver("UpdateContainer", id_)
            while self.world.dice.random() < 0.3:
                runtime.deliver("UpdateContainer", id_)
        elif roll < 0.4:
            runtime.deliver("StartContainer", id_)  # it has ended, which nobody has told, and starts again
        elif roll < 0.5:
            runtime.end(id_)  # it goes, which nobody tells
        else:
            self._stop_id(id_)

    def _begin_id(self, id_: str, *, is_pod: bool) -> None:
        runtime = self.runtime
        runtime.living[id_] = "RUNNING" if is_pod else "CREATED"
        event = runtime.deliver("RunPodSandbox" if is_pod else "CreateContainer", id_)
        if event.has_failed:
            if is_pod or runtime.tells_refused:
                self._stop_id(id_)
            else:
                runtime.end(id_)

    def _stop_id(self, id_: str) -> None:
        if id_ not in self.runtime.living:
            return
        kind = "Container" if self.runtime.pods[id_] != id_ else "PodSandbox"
        self.runtime.end(id_)
        self.runtime.deliver(f"Stop{kind}", id_)
        if self.world.dice.random() < 0.5:
            self.runtime.deliver(f"Remove{kind}", id_)

    # The end

    def _finish(self) -> None:
        """The faults end, all work ends; then a last adapter looks at what is left."""
        world = self.world
        world.faults.clear()
        world.is_full = False
        world.missing.clear()
        world.refusals = 0.0
        self.wait(41)  # who is stopped goes on, or is killed; who has lost its connection joins again
        longest = 4 * 31 * len(world.calls) if world.is_rough else 60
        self.wait(longest + (LAST_RETRY if world.is_rough or "missing" in world.kinds else 0))
        world.stuck += self._stuck()
        world.left += self._left()
        for run in world.trace:
            if not run.life.is_dead:
                run.end(0)  # those that never do
        for peer in world.peers:
            peer.term()
        self.wait(15)
        world.stuck += [f"{peer} does not end" for peer in world.peers if not peer.life.is_dead]
        last = Peer(world)
        self.wait(0.1)
        self.wait(60)
        world.left += [f"{name} is owed a delete" for name in last.adapter.owed]
        world.left += [f"the file {name}" for name in self._records()]
        last.die()

    def _stuck(self) -> list[str]:
        """Returns what waits for ever."""
        living = [peer for peer in self.world.peers if not peer.life.is_dead]
        works = [f"{peer} works on {work}" for peer in living for work in peer.works]
        turns = [(peer, peer.adapter._turns) for peer in living]
        return works + [f"{peer} has locks: {of._held}" for peer, of in turns if of is not None and of._held]

    def _left(self) -> list[str]:
        """Returns what is left though all work should have ended, and all deletes should have been tried again."""
        world = self.world
        latest: dict[str, Event] = {event.id: event for event in self.runtime.events}
        ended = {id_ for id_, event in latest.items() if event.is_delete}  # others may end and nobody tells
        left = [f"{name} was not tried again" for name in self._records() if name.rpartition("+")[2] in ended]
        left = [] if world.marks else left
        if world.is_calm and (serving := world.peers[0].adapter._serving):
            removed = [event.id for event in latest.values() if event.method.startswith("Remove") and event.got]
            left += [f"what creates of {id_} knew" for id_ in removed if serving.ledger.target(id_)]
            timers = [timer.callback for timer in world.peers[0].life.timers]
            left += [f"a timer of {callback}" for callback in timers if callback is not None]
        return left

    def _records(self) -> list[str]:
        return sorted(path.name for path in Path(self.world.directory).glob("*/*") if path.name[0] in "+n")
