"""The runtime of a history: it asks one adapter after the other, as NRI does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri import api
from nri.errors import NRIError

from .event import TIMEOUT, Call, Event, Joining
from .peer import Peer

if TYPE_CHECKING:
    from .world import World


class Runtime:
    """Delivers each event to one adapter after the other: the next one when the one before is done with."""

    def __init__(self, world: World) -> None:
        self.world = world
        dice = world.dice
        self.order = dice.choice(("old first", "new first", "by index"))  # "newest" is a proposal to NRI
        self.keeps = dice.random() < 0.5
        """Whether it keeps a plugin that is late."""
        self.has_veto = dice.random() < 0.15
        """Whether a third plugin between the adapters refuses some events."""
        name = dice.choice(("containerd", "cri-o"))
        self.configuration = api.ConfigureRequest(runtime_name=name, runtime_version="1.7.35")
        self.tells_refused = name == "containerd"
        self.peers: list[Peer] = []
        self.events: list[Event] = []
        self.living: dict[str, str] = {}
        """The ids that are there, with their state."""
        self.pods: dict[str, str] = {}
        self.ends: defaultdict[str, list[float]] = defaultdict(list)
        """When the ids have ended, and when they were refused."""
        self.first: set[str] = set()
        """The ids that were there before an adapter had counted what runs at the first start."""
        self._waiting: list[Peer] = []

    def __str__(self) -> str:
        name = self.configuration.runtime_name
        return f"{name} asks {self.order}, {'keeps' if self.keeps else 'drops'} who is late"

    def wants(self, peer: Peer) -> Callable[[], object]:
        return lambda: self._waiting.append(peer)

    def forget(self, peer: Peer) -> None:
        if peer in self.peers:
            self.peers.remove(peer)

    def let_join(self) -> None:
        """Between two events, those who wait may join."""
        self._waiting, waiting = [], self._waiting
        for peer in waiting:
            if peer.life.is_dead or peer.is_ending or peer.connection is not None:
                continue
            joining = Joining(self._listed())
            if not list(Path(self.world.directory).glob("*/joined-before")):
                self.first.update(self.living)
            peer.connection = connection = object()
            peer.receive("synchronize", joining)
            self.world.clock.advance(TIMEOUT, partial(_is_done, joining, peer, connection))
            if joining.is_answered and peer.connection is connection:
                self.world.say(f"{peer} has joined")
                self.peers.append(peer)
            else:
                peer.hang_up()

    def _listed(self) -> api.SynchronizeRequest:
        request = api.SynchronizeRequest()
        for id_, state in self.living.items():
            if id_.startswith("pod"):
                request.pods.add(id=id_, pid=1, labels={"call": "-1"})
            else:
                request.containers.add(id=id_, pod_sandbox_id=self.pods[id_], state=getattr(api, f"CONTAINER_{state}"))
        return request

    def end(self, id_: str) -> None:
        """A pod or container ends."""
        del self.living[id_]
        self.ends[id_].append(self.world.clock.now)

    def request(self, event: Event) -> Any:
        request = getattr(api, f"{event.method}Request")(
            pod=api.PodSandbox(id=event.pod, labels={"call": str(event.number)})
        )
        if event.id != event.pod:
            request.container.CopyFrom(api.Container(id=event.id, pod_sandbox_id=event.pod))
            if event.method == "UpdateContainer":
                request.linux_resources.cpu.shares.value = 2
        return request

    def _asked(self) -> list[Peer]:
        """Returns the adapters in the order in which they are asked."""
        if self.order == "by index":
            return sorted(self.peers, key=lambda peer: peer.index)
        return {"old first": self.peers, "new first": self.peers[::-1], "newest": self.peers[-1:]}[self.order].copy()

    def deliver(self, method: str, id_: str, timeout: float = TIMEOUT, *, waits: bool = True) -> Event:
        """Delivers one event, and returns what became of it by the answers, or what has without waiting for them."""
        self.let_join()
        world = self.world
        event = Event(len(self.events), method, id_, self.pods.get(id_, id_), world.clock.now, timeout)
        self.events.append(event)
        peers = self._asked()
        world.say(f"EVENT {event}: {', '.join(map(str, peers))}")
        vetoed = self.has_veto and not event.is_delete and world.dice.random() < 0.2
        before = world.dice.randrange(len(peers) + 1) if vetoed else -1
        connections = [peer.connection for peer in peers]
        for number, (peer, connection) in enumerate(zip(peers, connections, strict=True)):
            if number == before:
                event.has_failed = True
                break
            world.clock.advance(1e-5)
            if peer.connection is not connection:
                continue
            call = Call(event, peer, world.clock.now)
            event.got.append(call)
            peer.receive("event", call)
            world.clock.advance(timeout if waits else 0, partial(_is_done, call, peer, connection))
            if not waits:
                continue
            call.is_over = True
            if call.heard_at:
                event.accepted.append(call)
                if event.has_failed:
                    break
            elif peer.connection is connection:
                world.say(f"{peer} is late")
                if not self.keeps:
                    peer.hang_up()
        if before == len(peers) and not event.has_failed:
            event.has_failed = True
        world.clock.advance(1e-5)
        event.ended = world.clock.now
        return event

    def take_answer(self, call: Call, reply: Any, error: Exception | None) -> None:
        now = self.world.clock.now
        self.world.say(f"{call.peer} answers {call.event}: {error or reply!r}".replace("\n", " "))
        if error is not None and not isinstance(error, NRIError):
            self.world.bugs.append(error)
        if call.event.method == "CreateContainer" and reply is not None:
            call.parts = sorted(reply.adjust.annotations)
        if call.is_over or call.peer.connection is not call.connection or now >= call.deadline:
            return
        call.heard_at, call.is_answered = now, True
        if error is not None:
            call.event.has_failed = True
            self.ends[call.event.id].append(now)


def _is_done(what: Joining | Call, peer: Peer, connection: object) -> bool:
    """Whether the runtime waits no longer for the answer to a call."""
    return what.is_answered or peer.connection is not connection
