"""Random histories of a node on which adapters wait beside the owner: killed, ended, dropped and rejoined in any order.

Each is a whole `Adapter`, and each event comes to one after the other, as containerd's NRI sends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adapter.daemon.bridge import Bridge
from adapter.daemon.daemon import GRACE
from adapter.errors import ConfigError
from adapter.host.lock import Lock
from adapter.nri import Context, Deferred, api
from adapter.nri.events import CALLS

from .histories import PODS, Try
from .judge import Judge, confs
from .lives import Life, Lives
from .whole import PlayedSocket, PodProcesses, Whole


class Peer:
    """One adapter, and its connection with the runtime."""

    def __init__(self, node: Surges, life: Life) -> None:
        self.life = life
        self.adapter = Whole(node, life)
        runtime = api.ConfigureRequest(runtime_name="containerd", runtime_version="1.7.35")
        self.adapter.configure(runtime, Context("Configure", 2.0, life.time, life.time()))
        self.is_ending = self.is_apart = False
        self.joins = 0
        """How often it has joined: each time is another connection."""

    @property
    def is_connected(self) -> bool:
        return not (self.life.is_dead or self.is_apart)

    def note_answered(self, context: Context, joins: int) -> None:
        """What the stub tells the adapter, if the connection of the call is there still."""
        if self.is_connected and self.joins == joins:
            self.adapter.answered(context)

    def serve(self, request: Any, context: Context) -> Any:
        return getattr(self.adapter, CALLS[context.method].handler)(request, context)


class Delivery:
    """An event on its way from one adapter to the next, each of which is asked when the one before has answered."""

    def __init__(self, node: Surges, request: Any, context: Context, peers: list[Peer]) -> None:
        self.node, self.request, self.context = node, request, context
        self.number = int(request.pod.labels["call"])
        self.answer: Deferred[Any] = Deferred()
        self._rest = [(peer, peer.joins) for peer in peers]

    def go_on(self) -> None:
        while self._rest:
            self.asked, joins = self._rest.pop(0)
            if not self.asked.is_connected or self.asked.joins != joins:
                continue
            self.node.clock.now += 1e-6  # no two adapters get an event at the same moment
            try:
                answer = self.asked.serve(self.request, self.context)
            except ConfigError:
                continue
            if isinstance(answer, Deferred) and not answer.done:
                self.node.waiting.append(self)
                answer.then(partial(self._on_answer, self.asked, joins))
                return
            self.asked.note_answered(self.context, joins)
        self.answer.complete(None)

    def _on_answer(self, peer: Peer, joins: int, *_: object) -> None:
        if self in self.node.waiting and self.asked is peer:  # else the connection has ended before
            peer.note_answered(self.context, joins)
            self.node.waiting.remove(self)
            self.go_on()


class Surges(Lives):
    """One history of adapters that all are whole."""

    HAPPENINGS: Mapping[str, int] = {
        **{"event": 50, "reconfigure": 4, "wait": 26},
        **{"surge": 6, "terminate": 4, "kill": 5, "drop": 3, "restart": 2},
    }

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.peers: list[Peer] = []
        self.watchers: list[PodProcesses] = []
        self.joined: list[Peer] = []
        """The adapters in the order in which they have joined."""
        self.listening: PlayedSocket | None = None
        """That of the last owner."""
        self.pids: dict[str, int] = {}
        """The processes of the pods that live."""
        self.silent: set[str] = set()
        """Pods whose end the runtime does not announce: it was restarted since their start."""
        self._started: set[str] = set()
        """Containers that have started, and that no event has ended."""
        self._starts_again: set[int] = set()
        """The starts of what an adapter that waits may know as started: in no runtime does that happen to an id."""
        self._passed_on: set[int] = set()
        """The events within which the adapter that had them was killed or dropped, and those like the one before."""
        self._last_sent = ""
        self._last_pid = 1
        self.waiting: list[Delivery] = []
        """The events that an adapter has not answered yet."""
        monkeypatch.setattr("adapter.owed.deletes.PodProcesses", partial(PodProcesses, self))
        monkeypatch.setattr("adapter.base.collector.gc.freeze", lambda: None)
        monkeypatch.setattr("adapter.host.cgroup.start_time", lambda pid: pid if pid in self.pids.values() else 0)
        super().__init__(seed, monkeypatch, directory)
        self._is_reversed = self.dice.random() < 0.5
        """Whether the runtime asks the newest adapter first."""
        self._is_shadowed = self.dice.random() < 0.3
        """Whether it asks the newest one alone, as with NRI's pull request 281."""
        self.peers.append(Peer(self, self.lives[-1]))

    def begin(self, clock: Any, lock: Lock | None = None) -> Bridge:
        bridge = super().begin(clock, lock)
        self.lives[-1].lateness = lambda: self.dice.choice((0.0, 0.0, 0.05, 0.3))
        return bridge

    @property
    def connected(self) -> list[Peer]:
        """The adapters that the runtime knows, in the order in which it asks them."""
        known = [peer for peer in self.peers if peer.is_connected]
        return sorted(known, key=self.joined.index, reverse=self._is_reversed)

    @property
    def staying(self) -> list[Peer]:
        return [peer for peer in self.peers if not (peer.life.is_dead or peer.is_ending)]

    # What happens

    def begin_to_serve(self) -> None:
        self.join(self.peers[0])
        self.clock.advance(0)  # what runs at the first start counts as created: nothing does

    def finish(self) -> None:
        while len(self.staying) > 1:
            self.terminate()
        self.clock.advance(100)
        self.bridge = self.staying[0].life.bridge
        super().finish()

    def reconfigure(self) -> None:
        if not self.waiting:  # an event that waits for the lock gets the plugins of the moment at which it has it
            super().reconfigure()

    def join(self, peer: Peer) -> None:
        peer.is_apart = False
        peer.joins += 1
        self.joined = [other for other in self.joined if other is not peer] + [peer]
        pods, containers = self.listed()
        context = Context("Synchronize", 2.0, self.clock.time, self.clock.now)
        peer.adapter.synchronize(api.SynchronizeRequest(pods=pods, containers=containers), context)
        is_asked_later = len(self.connected) > 1 and not self._is_reversed
        if self.dice.random() < 0.5 or is_asked_later:
            self.clock.advance(0)  # else the first event comes before the work on it

    def start(self) -> None:
        self.begin(self.clock)
        self.peers.append(Peer(self, self.lives[-1]))
        self.join(self.peers[-1])

    def surge(self) -> None:
        if (
            len(self.staying) < 3 and not self.waiting
        ):  # no runtime synchronizes an adapter while an event has no answer
            self.start()

    def terminate(self) -> None:
        """The oldest gets SIGTERM; there is another."""
        if len(self.staying) < 2:
            return
        peer = self.staying[0]
        peer.is_ending = True
        peer.adapter.end()
        self.clock.call_at(self.clock.now + GRACE, lambda: self.die(peer))
        peer.adapter.when_idle(lambda: self._die_soon(peer))

    def _die_soon(self, peer: Peer) -> None:
        def end() -> None:
            if any(delivery.asked is peer for delivery in self.waiting):  # it has got an event since it was idle
                self.clock.call_at(self.clock.now + 0.1, lambda: peer.adapter.when_idle(lambda: self._die_soon(peer)))
            else:
                self.die(peer)

        self.clock.call_soon(end)

    def kill(self) -> None:
        peer = self.dice.choice(self.staying)
        self.die(peer)
        if not self.staying:
            self.miss_some()
            self.start()

    def die(self, peer: Peer) -> None:
        """The process ends, whatever is under way."""
        if peer.life.is_dead:
            return
        self._passed_on.add(len(self.calls) - 1)  # the next owner does not know whether this one has served it
        self.end_in_between(peer.life)
        self.cut()

    def cut(self) -> None:
        """Calls of connections that have ended have no answer; the event goes to the next adapter."""
        ended = [delivery for delivery in self.waiting if not delivery.asked.is_connected]
        for delivery in ended:
            self.waiting.remove(delivery)
        for delivery in ended:
            self._passed_on.add(delivery.number)
            delivery.go_on()

    def drop(self) -> None:
        """The runtime drops a connection, and the adapter learns it later, perhaps after events."""
        peer = self.dice.choice(self.staying)
        peer.is_apart = True
        self.cut()
        if len(self.connected) > 0:
            for _ in range(self.dice.choice((0, 1, 2))):
                self.event()
        self.lose(peer)

    def lose(self, peer: Peer) -> None:
        if peer.life.is_dead:
            return
        peer.is_apart = True
        peer.adapter.on_runtime_gone()
        self.clock.advance(self.dice.choice((0.0, 1.0, 3.0, 40.0)))
        self.join(peer)

    def restart(self) -> None:
        """The runtime is restarted: it will not announce the end of the pods that are there."""
        for peer in self.connected:
            peer.is_apart = True
        self.cut()
        self.silent = set(PODS)
        for peer in self.staying:
            self.lose(peer)

    def happen_unseen(self, id_: str) -> None:
        self._started.add(id_)
        if id_ in PODS:
            self.end_process(id_)
            self._running.discard(id_)
        else:
            super().happen_unseen(id_)

    def end_process(self, pod: str) -> None:
        self.pids.pop(pod, None)
        for watcher in self.watchers:
            if not watcher.life.is_dead:
                watcher.look()

    def listed(self) -> tuple[list[api.PodSandbox], list[api.Container]]:
        """Returns what the runtime has: pods that have ended without a pid."""
        pods, containers = super().listed()
        for pod in pods:
            pod.pid = self.pids.get(pod.id, 0)
        return pods, containers

    # Events

    def send(self, event: str, id_: str, within: float) -> None:
        if len(self.connected) > 1:
            while self.waiting:  # one event after the other
                self.clock.advance(0.1)
        if event in ("StopPodSandbox", "RemovePodSandbox"):
            self.end_process(id_)
            if id_ in self.silent:
                self._running.discard(id_)
                return
        elif event == "RunPodSandbox":
            self.silent.discard(id_)
            if id_ not in self.pids:
                self._last_pid += 1
                self.pids[id_] = self._last_pid
        if event == "RunPodSandbox" or id_ in self._started:  # pods are always listed
            self._starts_again.add(len(self.calls))
        if f"{event} {id_}" == self._last_sent:
            self._passed_on.add(len(self.calls))
        self._last_sent = f"{event} {id_}"
        if event == "StartContainer":
            self._started.add(id_)
        elif event.startswith(("Stop", "Remove")):
            self._started.discard(id_)
        super().send(event, id_, within)

    def serve(self, request: Any, context: Context) -> Any:
        if request.pod.id in self.pids and context.method == "RunPodSandbox":
            request.pod.pid = self.pids[request.pod.id]
        peers = self.connected
        if self._is_shadowed and peers:
            peers = [max(peers, key=self.joined.index)]
        delivery = Delivery(self, request, context, peers)
        delivery.go_on()
        return delivery.answer

    def runs_again(self, each: Try) -> bool:
        if each.call.number in self._starts_again & self._passed_on:
            return True  # whether the owner has run it or died before it, nobody knows
        if each.call.number in self._passed_on and self._was_deleted_between(each):
            return True  # the delete that an earlier stop asked for came after the killed adapter's create
        return each.call.is_delete or self.settings.plugins[each.type].events is not None

    def judge_try(self, judge: Judge, each: Try, owed: set[tuple[str, str]], may_repeat: set[tuple[str, str]]) -> None:
        is_another_moment = each.is_late and each.type not in confs(each.call.config)  # it was left to the owner
        is_again = each.call.is_delete and (each.call.number in self._passed_on or is_another_moment)
        if is_again and (each.call.id, each.type) not in owed:
            return  # it runs with the plugins of the moment
        super().judge_try(judge, each, owed, may_repeat)

    def _was_deleted_between(self, each: Try) -> bool:
        """Whether a delete of the plugin ran between its runs at the event of a try."""
        runs = [tried for tried in self.trace if (tried.call.id, tried.type) == (each.call.id, each.type)]
        at = [number for number, tried in enumerate(runs) if tried.call is each.call]
        return any(tried.call.is_delete for tried in runs[at[0] : at[-1]])
