"""Random histories of a node on which adapters wait beside the owner: killed, ended, dropped and rejoined in any order.

Each is a whole `Adapter`, and each event comes to one after the other, as containerd's NRI sends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adapter.daemon.bridge import Bridge
from adapter.daemon.daemon import GRACE
from adapter.daemon.lease import Lease
from adapter.daemon.router import Adapter
from adapter.errors import ConfigError
from adapter.host.lock import Lock
from adapter.nri import Context, Deferred, api
from adapter.settings import HooksSettings, Settings

from ..link import Link
from .histories import CONTAINERS, PODS, Try
from .judge import Judge, confs
from .lives import Life, Lives

POD_STOPS = ("StopPodSandbox", "RemovePodSandbox")


class PodProcesses:
    """In place of watched processes: the node of the history knows which pids live."""

    def __init__(self, node: Surges, life: Life, on_exit: Callable[[str], object]) -> None:
        self.node, self.life, self._on_exit = node, life, on_exit
        self.watched: dict[str, int] = {}
        node.watchers.append(self)

    def watch(self, id_: str, pid: int) -> None:
        self.watched.setdefault(id_, pid)
        self.look()

    def forget(self, id_: str) -> None:
        self.watched.pop(id_, None)

    def look(self) -> None:
        for id_, pid in list(self.watched.items()):
            if pid not in self.node.pids.values():
                self.forget(id_)
                self.life.call_soon(partial(self._on_exit, id_))


class Whole(Adapter):
    """An adapter with the lock and the bridge of a life."""

    def __init__(self, node: Surges, life: Life) -> None:
        own = Settings(hooks=HooksSettings(enabled=False))
        super().__init__(life, own, [], "adapter", Link())  # type: ignore[arg-type]
        self.node, self.life = node, life

    def _begin(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("adapter.daemon.serving.Lock", lambda *_: self.life.owner)
            patch.setattr("adapter.daemon.serving.Bridge", lambda *_: self.life.bridge)
            patch.setattr("adapter.daemon.serving.Lease", partial(PlayedLease, self.node))
            super()._begin()


class End:
    """One end of a connection between an adapter that waits and the owner."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.other = self
        self._data = b""
        self._is_closed = False
        life.on_end.append(self.close)

    def fileno(self) -> int:
        return id(self)

    def send(self, data: bytes) -> None:
        self.other._data += data
        self.other.life.become_ready(self.other.fileno())

    def recv(self, _size: int) -> bytes:
        if not (self._data or self.other._is_closed):
            raise BlockingIOError
        data, self._data = self._data, b""
        return data

    def close(self) -> None:
        self._is_closed = True
        self.life.on_end.remove(self.close)
        self.other.life.become_ready(self.other.fileno())


class PlayedListener:
    """In place of the owner's socket."""

    def __init__(self, life: Life, on_connection: Callable[[Any], object]) -> None:
        self.life = life
        self._on_connection = on_connection
        self.is_closed = False

    def connect(self, life: Life) -> End:
        theirs, mine = End(life), End(self.life)
        theirs.other, mine.other = mine, theirs
        self.life.call_soon(lambda: mine.close() if self.is_closed else self._on_connection(mine))
        return theirs

    def close(self) -> None:
        self.is_closed = True


class PlayedLease(Lease):
    """A lease without sockets."""

    def __init__(self, node: Surges, loop: Any, *arguments: Any) -> None:
        super().__init__(loop, *arguments)
        self._node, self._life = node, loop

    def _listen(self) -> None:
        self._listener = self._node.listener = PlayedListener(self._life, self._on_connection)  # type: ignore[assignment]

    def _connect(self) -> Any:
        listener = self._node.listener
        if listener is None or listener.is_closed or listener.life.is_dead:
            return None
        return listener.connect(self._life)


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

    def note_answered(self, context: Context, joins: int) -> None:
        """What the stub tells the adapter, if the connection of the call is there still."""
        if not (self.life.is_dead or self.is_apart) and self.joins == joins:
            self.adapter.answered(context)

    def serve(self, request: Any, context: Context) -> Any:
        return getattr(self.adapter, re.sub("(?<!^)(?=[A-Z])", "_", context.method).lower())(request, context)


class Surges(Lives):
    """One history of adapters that all are whole."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.peers: list[Peer] = []
        self.watchers: list[PodProcesses] = []
        self.joined: list[Peer] = []
        """The adapters in the order in which they have joined."""
        self.listener: PlayedListener | None = None
        """The socket of the last owner."""
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
        self._cut: list[Any] = []
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
        known = [peer for peer in self.peers if not (peer.life.is_dead or peer.is_apart)]
        known.sort(key=self.joined.index, reverse=self._is_reversed)
        return known

    @property
    def staying(self) -> list[Peer]:
        return [peer for peer in self.peers if not (peer.life.is_dead or peer.is_ending)]

    # What happens

    def play(self, steps: int) -> None:
        self.reconfigure()
        self.join(self.peers[0])
        self.clock.advance(0)  # what runs at the first start counts as created: nothing does
        happenings = (self.event, self.reconfigure, self.surge, self.terminate, self.kill, self.drop, self.restart)
        for _ in range(steps):
            (happening,) = self.dice.choices((*happenings, self.wait), (50, 4, 6, 4, 5, 3, 2, 26))
            happening()
        while len(self.staying) > 1:
            self.terminate()
        self.clock.advance(100)
        self.bridge = self.staying[0].life.bridge
        self.finish()
        for life in self.lives:
            life.end()

    def reconfigure(self) -> None:
        if not self._cut:  # an event that waits for the lock gets the plugins of the moment at which it has it
            super().reconfigure()

    def wait(self) -> None:
        self.clock.advance(self.dice.choice((0.0, 0.0005, 0.3, 1.8, 1.95, 6.0, 32.0)))

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
        if len(self.staying) < 3 and not self._cut:  # no runtime synchronizes an adapter while an event has no answer
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
            if any(asked is peer for asked, *_ in self._cut):  # it has got an event since it was idle
                self.clock.call_at(self.clock.now + 0.1, lambda: peer.adapter.when_idle(lambda: self._die_soon(peer)))
            else:
                self.die(peer)

        self.clock.call_soon(end)

    def kill(self) -> None:
        peer = self.dice.choice(self.staying)
        self.die(peer)
        if not self.staying:
            for id_ in self.dice.sample([*CONTAINERS, *PODS], self.dice.choice((0, 0, 1, 2))):
                if id_ not in {job.target.id for job in self.jobs()}:
                    self.happen_unseen(id_)
            self.start()

    def die(self, peer: Peer) -> None:
        """The process ends, whatever is under way."""
        if peer.life.is_dead:
            return
        running = [program for program in self.alive if self._life_of[program] is peer.life]
        for tried in self.trace:
            if tried.call.is_delete and tried.program in running:
                self._repeatable_at.append((len(self.trace), (tried.call.id, tried.type)))
        self._passed_on.add(len(self.calls) - 1)  # the next owner does not know whether this one has served it
        peer.life.end()
        self.cut()

    def cut(self) -> None:
        """Calls of connections that have ended have no answer; the event goes to the next adapter."""
        waiting, self._cut = self._cut, []
        for peer, number, go_on in waiting:
            if peer.life.is_dead or peer.is_apart:
                self._passed_on.add(number)
                go_on()
            else:
                self._cut.append((peer, number, go_on))

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
        pods = [api.PodSandbox(id=id_, labels={"call": "-1"}, pid=self.pids.get(id_, 0)) for id_ in PODS]
        return pods, super().listed()[1]

    # Events

    def send(self, event: str, id_: str, within: float) -> None:
        if len(self.connected) > 1:
            while self._cut:  # one event after the other
                self.clock.advance(0.1)
        if event in POD_STOPS:
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
        answer: Deferred[Any] = Deferred()
        peers = self.connected
        if self._is_shadowed and peers:
            peers = [max(peers, key=self.joined.index)]
        self._deliver(request, context, [(peer, peer.joins) for peer in peers], answer)
        return answer

    def _deliver(self, request: Any, context: Context, peers: list[tuple[Peer, int]], whole: Deferred[Any]) -> None:
        for number, (peer, joins) in enumerate(peers):
            if peer.life.is_dead or peer.is_apart or peer.joins != joins:
                continue
            self.clock.now += 1e-6  # no two adapters get an event at the same moment
            try:
                answer = peer.serve(request, context)
            except ConfigError:
                continue
            if isinstance(answer, Deferred) and not answer.done:
                went: list[bool] = []

                def go_on(
                    *_: object,
                    went: list[bool] = went,
                    rest: list[tuple[Peer, int]] = peers[number + 1 :],
                    asked: tuple[Peer, int] = (peer, joins),
                ) -> None:
                    if not went:
                        went.append(True)
                        asked[0].note_answered(context, asked[1])
                        self._cut = [each for each in self._cut if each[-1] is not go_on]
                        self._deliver(request, context, rest, whole)

                self._cut.append((peer, int(request.pod.labels["call"]), go_on))
                answer.then(go_on)
                return
            peer.note_answered(context, joins)
        whole.complete(None)

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
