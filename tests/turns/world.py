"""A node in a random history: a runtime that delivers events in turn, adapters that fail, plugins that they run.

The adapters are whole and real: `adapter.daemon.router.Adapter` on a loop that is played (`life`), all with one state
directory. A kill closes what they have open; both a kill and a stop come at any step, inside a callback, too.

Run many: python -m tests.turns.world NUMBER [FIRST SEED]
"""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adapter.daemon.daemon import GRACE
from adapter.daemon.router import Adapter
from adapter.errors import AdapterError
from adapter.host.runtime_directory import RuntimeDirectory
from adapter.host.trust import off
from adapter.legacy.config import Config, Entry
from adapter.legacy.request import Target
from adapter.nri import Context, Deferred, api
from adapter.nri.events import CALLS
from adapter.owed.ledger import Ledger
from adapter.settings import HooksSettings, LegacySettings, PluginSettings, Settings
from adapter.turns.file import TurnsFile

from ..link import Link
from .life import Clock, Ended, Life, Program

TIMEOUT = 2.0
CREATES = {"RunPodSandbox": "pr", "CreateContainer": "q", "StartContainer": "pr", "UpdateContainer": "u"}
"""The plugins that run at an event."""
FAULTS = ("kill", "kill", "kill", "stop", "stop", "stop", "lost", "term", "surge", "restart")
DISK = ("full", "removed", "garbled", "cut_file")
STEPS = 400
"""The steps of the adapters in which faults come."""


class HookBridge:
    """In place of the hooks: each container gets one change."""

    faults: tuple[str, ...] = ()
    accounts: dict[str, Any] = {}  # noqa: RUF012
    containers: dict[str, int] = {}  # noqa: RUF012

    def __init__(self, *_: object) -> None:
        pass

    def start(self, _: object) -> None:
        pass

    def update(self, _: float) -> None:
        pass

    def inject(self, _: object, response: api.CreateContainerResponse, *__: object) -> list[Any]:
        response.adjust.annotations["h"] = "1"
        return []

    def precreate(self, _: object, __: object, response: api.CreateContainerResponse, ___: float) -> Any:
        return response


class ConfFile:
    """In place of conf.json."""

    error, fault = None, ""
    config = Config("0.1", tuple(Entry(type_, 0, "0.1", None) for type_ in "pqru"))

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def current(self) -> Config:
        return self.config


class Event:
    """An event of the runtime."""

    def __init__(self, number: int, method: str, id_: str, pod: str, at: float) -> None:
        self.number, self.method, self.id, self.pod, self.at = number, method, id_, pod, at
        self.ended = at
        self.got: list[Call] = []
        self.accepted: list[Call] = []
        self.has_failed = False
        self.is_vetoed = False

    def __str__(self) -> str:
        return f"{self.method} {self.id} ({self.number})"


class Call:
    """An event at one adapter."""

    def __init__(self, event: Event, peer: Peer, now: float) -> None:
        self.event, self.peer, self.connection = event, peer, peer.connection
        self.at, self.deadline = now, now + TIMEOUT
        self.answered_at = 0.0
        """When the runtime has got the answer; 0 if it has not got it in time."""
        self.is_answered = False
        self.parts: list[str] = []
        self.noted_at = 1e9
        """When the adapter has told others of the answer."""
        self.is_over = False


class Daemon(Link):
    """In place of the daemon. Whether the processes of pods live is not its business: the runtime tells each end."""

    runtime_pid = 0


class Whole(Adapter):
    """An adapter with the state directory of a history."""

    world: World

    @property
    def state_directory(self) -> str:
        return self.world.directory


class Peer:
    """An adapter's process, and its connection with the runtime."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.life = Life(world, f"A{len(world.peers)}")
        legacy = world.settings
        self.adapter = Whole(self.life, Settings(legacy=legacy, hooks=HooksSettings(enabled=True)), [], "a", Daemon())  # type: ignore[arg-type]
        self.adapter.world = world
        self.connection: object | None = None
        self.is_ending = self.is_configured = self.is_over = False
        self._last_came = self._read_at = 0.0
        self.stopped = 0.0, 0.0
        """The last stop, from and to."""
        self._inbox: list[tuple[Any, ...]] = []
        self.unanswered: set[Context] = set()
        self.hits: list[tuple[float, float]] = []
        """When it had a fault, from and to."""
        world.peers.append(self)
        self.life.call_soon(world.runtime.wants(self))

    def __str__(self) -> str:
        return self.life.name

    # The connection

    def receive(self, *message: Any) -> None:
        """Something comes through the connection."""
        self._inbox.append((self.life.time(), *message))
        self.life.call_soon(self._read)

    def _read(self) -> None:
        if not self._inbox or self.is_over:
            return
        has_hung_up = self._inbox[-1][1] == "end"
        inbox, self._inbox = self._inbox, []
        for came, kind, what in inbox:
            self.life.quiet_at = self._quiet_before(came)
            self._read_at = self.life.time()
            self._take(self._seems_to_come(came), kind, what, not has_hung_up)

    def _quiet_before(self, came: float) -> float:
        """Returns when the loop was last known to have had nothing to read: perhaps when it last did something else."""
        begun, ended = self.stopped
        quiet = begun if begun <= came <= ended else came - self.world.dice.choice((1e-6, 0.9))
        if came > self._last_came:
            self._last_came = came
            return max(self.life.quiet_at, quiet, min(came - 1e-6, self._read_at))
        return self.life.quiet_at

    def _seems_to_come(self, came: float) -> float:
        """Returns when the loop believes that something has come: it notices only a longer stop."""
        begun, ended = self.stopped
        if not begun <= came <= ended:
            return came
        return begun if ended - begun > 1 else self.life.time()

    def _take(self, came: float, kind: str, what: Any, is_heard: bool) -> None:
        clock = self.life.time
        if kind == "end":
            self._on_gone()
        elif kind == "synchronize":
            context = Context("Synchronize", TIMEOUT, clock, came)
            if not self.is_configured:
                self.is_configured = True
                self.adapter.configure(self.world.runtime.configuration, Context("Configure", TIMEOUT, clock, came))
            self.adapter.synchronize(what.request, context)
            what.is_answered = True
        else:
            context = Context(what.event.method, TIMEOUT, clock, came, self.adapter.reserve)
            context.is_heard = is_heard
            self._serve(what, context)

    def _serve(self, call: Call, context: Context) -> None:
        self.unanswered.add(context)
        handler = getattr(self.adapter, CALLS[context.method].handler)
        try:
            answer = handler(self.world.runtime.request(call.event), context)
        except Exception as error:
            self._answer(call, context, None, error)
            return
        if isinstance(answer, Deferred):
            answer.then(partial(self._answer, call, context))
        else:
            self._answer(call, context, answer)

    def _answer(self, call: Call, context: Context, reply: Any, error: Exception | None = None) -> None:
        self.world.point("before the answer")
        self.unanswered.discard(context)
        self.world.runtime.take_answer(call, reply, error)
        self.world.point("after the answer")
        context.has_failed = error is not None
        self.adapter.answered(context)
        call.noted_at = self.life.time()

    def _on_gone(self) -> None:
        self.adapter.on_runtime_gone()
        if self.is_ending:
            self.adapter.when_idle(self._finish)
        else:
            self.life.call_at(self.life.time() + 0.1, self.world.runtime.wants(self))

    def hang_up(self) -> None:
        """The runtime closes the connection."""
        if self.connection is not None:
            self.connection = None
            self.world.runtime.forget(self)
            self.hits.append((self.world.clock.now, self.world.clock.now + 0.2))
            self.receive("end", None)

    # The process

    def term(self) -> None:
        """SIGTERM comes."""
        if self.is_ending or self.life.is_dead:
            return
        self.is_ending = True
        self.world.say(f"{self} is told to end")
        self.life.call_at(self.life.time() + GRACE, self._finish)
        self.life.call_soon(lambda: self.adapter.when_idle(self._end_when_sent))

    def _end_when_sent(self) -> None:
        if self.unanswered:
            self.life.call_at(self.life.time() + 0.01, self._end_when_sent)
        else:
            self.is_over = True  # what comes now is not read
            self.life.call_soon(self._finish)

    def _finish(self) -> None:
        if self.world.runs_of(self):
            self.world.graces.append((self, self.life.time()))
        self.adapter.end()
        self.die(is_kill=False)
        raise Ended

    def stop(self, seconds: float, *, is_killed: bool) -> None:
        """SIGSTOP comes, and later SIGCONT or SIGKILL."""
        now = self.world.clock.now
        self.hits.append((now, now + seconds + 0.1))
        self.stopped = now, now + seconds
        self.life.is_stopped = True
        self.world.holds.append((self, now, now + seconds))
        self.world.clock.call_at(now + seconds, self.die if is_killed else self._go_on)

    def _go_on(self) -> None:
        if not self.life.is_dead and self.life.is_stopped:
            self.world.say(f"{self} goes on")
            self.life.go_on()

    def die(self, *, is_kill: bool = True) -> None:
        """The process ends. The kernel closes what it has open."""
        if self.life.is_dead:
            return
        self.world.say(f"{self} {'is killed' if is_kill else 'ends'}")
        self.hits.append((self.world.clock.now, 1e9))
        if is_kill:
            self.world.cut_off(self)
            if self.life.noting is not None:
                self.world.noted.append(self.life.noting)
        self.life.is_dead = True
        turns = self.adapter._turns
        if turns is not None:
            turns._file.close()
            turns.directory.close()
        if self.connection is not None:
            self.connection = None
            self.world.runtime.forget(self)
        if self.life.is_inside:
            self.life.go_on()


class Joining:
    """A Synchronize on its way."""

    def __init__(self, request: api.SynchronizeRequest) -> None:
        self.request = request
        self.is_answered = False


def _is_done(what: Joining | Call, peer: Peer, connection: object) -> bool:
    """Whether the runtime waits no longer for the answer to a call."""
    return what.is_answered or peer.connection is not connection


class Runtime:
    """Delivers each event to one adapter after the other: the next one when the one before is done with."""

    def __init__(self, world: World) -> None:
        self.world = world
        dice = world.dice
        self.order = dice.choice(("old first", "new first", "newest"))
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
        self._waiting: list[Peer] = []

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
            peer.connection = connection = object()
            peer.receive("synchronize", joining)
            self.world.clock.run(
                self.world.clock.now + TIMEOUT,
                partial(_is_done, joining, peer, connection),
            )
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

    def request(self, event: Event) -> Any:
        request = getattr(api, f"{event.method}Request")(
            pod=api.PodSandbox(id=event.pod, labels={"call": str(event.number)})
        )
        if event.id != event.pod:
            request.container.CopyFrom(api.Container(id=event.id, pod_sandbox_id=event.pod))
            if event.method == "UpdateContainer":
                request.linux_resources.cpu.shares.value = 2
        return request

    def deliver(self, method: str, id_: str) -> Event:
        """Delivers one event, and returns what became of it."""
        self.let_join()
        world = self.world
        event = Event(len(self.events), method, id_, self.pods.get(id_, id_), world.clock.now)
        self.events.append(event)
        peers = {"old first": self.peers, "new first": self.peers[::-1], "newest": self.peers[-1:]}[self.order].copy()
        world.say(f"EVENT {event}: {', '.join(map(str, peers))}")
        vetoed = self.has_veto and method in CREATES and world.dice.random() < 0.2
        before = world.dice.randrange(len(peers) + 1) if vetoed else -1
        connections = [peer.connection for peer in peers]
        for number, (peer, connection) in enumerate(zip(peers, connections, strict=True)):
            if number == before:
                event.has_failed = event.is_vetoed = True
                break
            if peer.connection is not connection:
                continue
            world.clock.now += 1e-5
            call = Call(event, peer, world.clock.now)
            event.got.append(call)
            peer.receive("event", call)
            world.clock.run(
                call.deadline,
                partial(_is_done, call, peer, connection),
            )
            call.is_over = True
            if call.answered_at:
                event.accepted.append(call)
                if event.has_failed:
                    break
            elif peer.connection is connection:
                world.say(f"{peer} is late")
                if not self.keeps:
                    peer.hang_up()
        if before == len(peers) and not event.has_failed:
            event.has_failed = event.is_vetoed = True
        world.clock.now += 1e-5
        event.ended = world.clock.now
        return event

    def take_answer(self, call: Call, reply: Any, error: Exception | None) -> None:
        now = self.world.clock.now
        self.world.say(f"{call.peer} answers {call.event}: {error or reply!r}".replace("\n", " "))
        if error is not None and not isinstance(error, AdapterError):
            self.world.bugs.append(error)
        if call.is_over or call.peer.connection is not call.connection or now >= call.deadline:
            return
        call.answered_at, call.is_answered = now, True
        if error is not None:
            call.event.has_failed = True
        elif call.event.method == "CreateContainer" and reply is not None:
            call.parts = sorted(reply.adjust.annotations)


class World:
    """One history; `play` it, then judge it."""

    def __init__(self, seed: int, directory: str) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - no secret
        self.seed, self.directory = seed, directory
        self.clock = Clock()
        self.current: Life | None = None
        self.bugs: list[BaseException] = []
        self.peers: list[Peer] = []
        self.trace: list[Program] = []
        self.log: list[str] = []
        self.marks: Counter[str] = Counter()
        self.cut: list[tuple[Program, float]] = []
        """The runs whose adapter was killed, with when."""
        self.noted: list[tuple[int, str]] = []
        """Creates that were noted and not run when their adapter was killed: event and plugin."""
        self.graces: list[tuple[Peer, float]] = []
        self.holds: list[tuple[Peer, float, float]] = []
        self.is_full = False
        self.with_disk = self.dice.random() < 0.2
        events = {"q": frozenset({"CreateContainer", "StopContainer"}), "u": frozenset({"UpdateContainer"})}
        plugins = {type_: PluginSettings(events=of) for type_, of in events.items()}
        self.settings = LegacySettings(fail_create=self.dice.random() < 0.5, trust=off, plugins=plugins)
        kinds = (*FAULTS, *DISK) if self.with_disk else FAULTS
        number = self.dice.choice((0, 1, 1, 2, 3, 5))
        self.faults = {self.dice.randrange(STEPS): self.dice.choice(kinds) for _ in range(number)}
        self.steps = 0
        self.runtime = Runtime(self)

    def say(self, text: str) -> None:
        self.log.append(f"{self.clock.now:11.5f} {text}")

    def runs_of(self, peer: Peer) -> list[Program]:
        """Returns the programs of an adapter that run."""
        now = self.clock.now
        return [run for run in self.trace if run.life is peer.life and not run.is_noted and run.ends > now - 60]

    def cut_off(self, peer: Peer) -> None:
        self.cut += [(run, self.clock.now) for run in self.runs_of(peer)]

    # Faults

    def point(self, where: str) -> None:
        """A step of an adapter, in or after which a fault may come."""
        life = self.current
        if life is None:
            return
        if life.is_dead:
            raise Ended
        self.clock.now += 1e-6
        self.steps += 1
        kind = self.faults.pop(self.steps, None)
        if kind is None:
            return
        peer = next(peer for peer in self.peers if peer.life is life)
        if kind in ("kill", "stop") and self.dice.random() < 0.8:
            self.say(f"FAULT {kind} {peer} at {where}")
            self.marks[kind] += 1
            if kind == "kill":
                peer.die()
                raise Ended
            self._stop(peer)
            life.pause()
        else:
            self.clock.call_at(0, partial(self.fault, kind))

    def _stop(self, peer: Peer) -> None:
        peer.stop(self.dice.choice((0.5, 3.0, 30.0)), is_killed=self.dice.random() < 0.4)

    def fault(self, kind: str) -> None:
        """Something happens to an adapter, the runtime, or the state directory."""
        alive = [peer for peer in self.peers if not peer.life.is_dead]
        if not alive:
            return
        peer = self.dice.choice(alive)
        self.say(f"FAULT {kind} {peer}")
        self.marks[kind] += 1
        if kind == "kill":
            peer.die()
        elif kind == "stop" and not peer.life.is_stopped:
            self._stop(peer)
        elif kind == "lost":
            peer.hang_up()
        elif kind == "term":
            peer.term()
        elif kind == "restart":
            for each in self.runtime.peers.copy():
                each.hang_up()
        elif kind == "surge" and len(alive) < 3:
            Peer(self)
        elif kind in DISK:
            getattr(self, kind)()

    def full(self) -> None:
        self.is_full = True
        self.clock.call_at(self.clock.now + self.dice.choice((0.3, 3.0, 12.0)), self._free)

    def _free(self) -> None:
        self.is_full = False

    def removed(self) -> None:
        for path in Path(self.directory).glob("*.*"):
            shutil.rmtree(path)

    def _files(self) -> list[Path]:
        return [path for path in sorted(Path(self.directory).glob("*/*")) if path.is_file() and path.stat().st_size]

    def garbled(self) -> None:
        for path in self._files():
            if self.dice.random() < 0.5:
                with path.open("r+b") as file:
                    file.seek(self.dice.randrange(path.stat().st_size))
                    file.write(
                        self.dice.randbytes(self.dice.choice((1, 100, 1000 if path.name != "turns" else 300_000)))
                    )

    def cut_file(self) -> None:
        for path in self._files():
            if self.dice.random() < 0.5 and path.name != "turns":
                os.truncate(path, self.dice.randrange(path.stat().st_size))

    # What happens

    def play(self) -> None:
        dice = self.dice
        for _ in range(dice.choice((1, 1, 2, 3))):
            Peer(self)
            self.wait(0.1)
        slots: dict[str, str] = {}
        lives = Counter[str]()
        for _ in range(dice.choice((10, 25, 40))):
            if not any(not peer.life.is_dead and not peer.is_ending for peer in self.peers):
                Peer(self)
                self.wait(dice.choice((0.2, 3.0)))
            self._happen(dice.choice(("pod0", "pod1", "c0", "c1", "c2")), slots, lives)
            self.wait(dice.choice((0.0, 0.001, 0.05, 0.05, 1.0, 6.0)))
        for slot in sorted(slots):
            self._stop_id(slots[slot])
        self.finish()

    def _happen(self, slot: str, slots: dict[str, str], lives: Counter[str]) -> None:
        """The next event of a pod or container."""
        dice, runtime = self.dice, self.runtime
        is_pod = slot.startswith("pod")
        id_ = slots.get(slot, "")
        state = runtime.living.get(id_, "")
        if not state:
            pod = "" if is_pod else slots.get(f"pod{int(slot[1]) % 2}", "")
            if not is_pod and pod not in runtime.living:
                return
            if not (
                id_ and dice.random() < 0.15 and runtime.pods.get(id_, id_) in (pod, id_)
            ):  # else the same id again
                lives[slot] += 1
                id_ = slots[slot] = f"{slot}.{lives[slot]}"
            runtime.pods[id_] = pod or id_
            self._begin_id(id_, is_pod=is_pod)
        elif state == "CREATED":
            runtime.living[id_] = "RUNNING"
            if runtime.deliver("StartContainer", id_).has_failed:
                self._stop_id(id_)
        elif is_pod:
            if dice.random() < 0.4:
                for other, pod in list(runtime.pods.items()):
                    if pod == id_ != other and other in runtime.living:
                        self._stop_id(other)
                self._stop_id(id_)
        else:
            self._change(id_)

    def _change(self, id_: str) -> None:
        """Something happens to a container that runs."""
        runtime, roll = self.runtime, self.dice.random()
        if roll < 0.3:
            runtime.deliver("UpdateContainer", id_)
            while self.dice.random() < 0.3:
                runtime.deliver("UpdateContainer", id_)
        elif roll < 0.4:
            runtime.deliver("StartContainer", id_)  # it has ended, which nobody has told, and starts again
        elif roll < 0.5:
            runtime.living.pop(id_)  # it goes, which nobody tells
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
                runtime.living.pop(id_)

    def _stop_id(self, id_: str) -> None:
        kind = "Container" if self.runtime.pods[id_] != id_ else "PodSandbox"
        if self.runtime.living.pop(id_, None) is None:
            return
        self.runtime.deliver(f"Stop{kind}", id_)
        if self.dice.random() < 0.5:
            self.runtime.deliver(f"Remove{kind}", id_)

    def wait(self, seconds: float) -> None:
        until = self.clock.now + seconds
        self.clock.run(until)
        self.runtime.let_join()

    def finish(self) -> None:
        """The faults end, all work ends; then a last adapter looks at what is left."""
        self.faults.clear()
        self.is_full = False
        self.wait(31)  # who is stopped goes on, or is killed
        self.wait(60)
        self.stuck = [f"{peer}: {job}" for peer in self.peers if not peer.life.is_dead for job in self._jobs(peer)]
        self.stuck += [
            f"{p}: locks {p.adapter._turns._held}"
            for p in self.peers
            if not p.life.is_dead and p.adapter._turns and p.adapter._turns._held
        ]
        for peer in self.peers:
            peer.term()
        self.wait(15)
        for peer in self.peers:
            assert peer.life.is_dead, f"{peer} does not end"
        last = Peer(self)
        self.wait(0.1)
        self.wait(60)
        self.left = last.adapter.owed
        self.files = sorted(path.name for path in Path(self.directory).glob("*/*") if path.name[0] in "+n")
        last.die()

    def _jobs(self, peer: Peer) -> list[Any]:
        serving = peer.adapter._serving
        return serving.legacy.deletes.queue._jobs if serving is not None else []


class _Bugs(logging.Handler):
    """Bugs of the adapter, which it logs and survives."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        life = self.world.current
        self.world.say(f"  [{life}] {record.getMessage()[:300]}")
        if record.exc_info:
            self.world.bugs.append(record.exc_info[1] or AssertionError(record.getMessage()))


@contextmanager
def playing(world: World) -> Iterator[None]:
    """Puts a history's world in place of processes, files of settings, and the steps at which faults come."""
    log = logging.getLogger("adapter")
    handler = _Bugs(world)
    level, propagates = log.level, log.propagate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adapter.legacy.job.ConfigFile", ConfFile)
        patch.setattr("adapter.programs.runner.Process", partial(Program, world))
        patch.setattr("adapter.programs.find.find", lambda type_, *_: type_)
        patch.setattr("adapter.hooks.bridge.HookBridge", HookBridge)
        patch.setattr("adapter.host.cgroup.start_time", lambda pid: pid)
        patch.setattr("adapter.base.collector.gc.freeze", lambda: None)
        for name in ("write", "lock", "unlock"):
            patch.setattr(TurnsFile, name, _pointed(world, getattr(TurnsFile, name)))
        for name in ("read", "replace"):
            patch.setattr(RuntimeDirectory, name, _pointed(world, getattr(RuntimeDirectory, name)))
        patch.setattr(Ledger, "add", _noting(world, Ledger.add))
        patch.setattr(RuntimeDirectory, "_write_new", _pointed(world, RuntimeDirectory._write_new, fills=True))
        log.addHandler(handler)
        log.propagate = False
        log.setLevel(logging.INFO)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagates
            for peer in world.peers:
                peer.die()


def _noting(world: World, add: Any) -> Any:
    def noting(self: Ledger, target: Target, entry: Entry) -> None:
        number = json.loads(target.labels or b"{}").get("call", -1)
        if world.current is not None and int(number) >= 0:
            world.current.noting = int(number), entry.type
        add(self, target, entry)

    return noting


def _pointed(world: World, function: Any, *, fills: bool = False) -> Any:
    def pointed(self: Any, *of: Any, **how: Any) -> Any:
        world.point(f"before {function.__name__}")
        if fills and world.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = function(self, *of, **how)
        world.point(f"after {function.__name__}")
        return done

    return pointed


def play(seed: int, directory: str) -> tuple[World, list[str]]:
    """Plays one history; returns it, and what is wrong."""
    from .judge import Judge  # noqa: PLC0415

    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory, mode=0o700)
    world = World(seed, directory)
    try:
        with playing(world):
            world.play()
    except Exception as error:
        return world, [f"crash: {error!r}", *map(repr, world.bugs)]
    return world, [*map(repr, world.bugs), *dict.fromkeys(Judge(world).judge())]


def main() -> None:
    """Plays many histories. The order of sets is the same in each run."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.turns.world", *sys.argv[1:]])  # noqa: S606
    number, first = (
        int(sys.argv[1]),
        int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32),
    )
    marks, bad, events, runs = Counter[str](), 0, 0, 0
    with tempfile.TemporaryDirectory(dir="/dev/shm") as above:
        for seed in range(first, first + number):
            world, found = play(seed, f"{above}/state")
            marks += world.marks
            events, runs = events + len(world.runtime.events), runs + len(world.trace)
            if found:
                bad += 1
                print(
                    f"{seed}: {world.runtime.order}, keeps={world.runtime.keeps}, {dict(world.marks)}",
                    *found[:4],
                    sep="\n    ",
                    flush=True,
                )
                if number == 1:
                    print(*world.log, sep="\n")
    print(f"{number} histories from {first}, {events} events, {runs} runs of plugins, {bad} bad; faults: {dict(marks)}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
