"""An adapter in a history: whole and real, on a loop that is played."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from nri import Context, Deferred
from nri.events import CALLS
from nri.wire import Code
from v010_adapter.base.loop import SHORT_WAIT
from v010_adapter.daemon.adapter import Adapter
from v010_adapter.daemon.daemon import GRACE
from v010_adapter.events.work import PluginWork
from v010_adapter.settings import HooksSettings, Settings

from ..rig.serving import Link
from .clock import Ended, Life
from .event import TIMEOUT, Call, Stop

if TYPE_CHECKING:
    from .world import World


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
        self.index = world.dice.random()
        """By which the runtime may ask one adapter after the other."""
        legacy = world.settings
        self.adapter = Whole(self.life, Settings(legacy=legacy, hooks=HooksSettings(enabled=True)), [], "a", Daemon())  # type: ignore[arg-type]
        self.adapter.world = world
        self.connection: object | None = None
        self.is_ending = self.is_configured = self.is_over = False
        self.stopped = 0.0, 0.0
        """The last stop, from and to."""
        self._inbox: list[tuple[Any, ...]] = []
        self.unanswered: set[Context] = set()
        self._calls: list[Call] = []
        self.hits: list[tuple[float, float]] = []
        """When it had a fault, from and to."""
        world.peers.append(self)
        self.life.call_soon(world.runtime.wants(self))

    def __str__(self) -> str:
        return self.life.name

    # The connection

    def receive(self, *message: Any) -> None:
        """Something comes through the connection."""
        if not self._inbox and not self.life.is_inside:  # else the loop had no time to see that there was nothing
            lag = SHORT_WAIT - 0.01 if self.life.is_watchful else 0.9
            idle = min(self.life.time(), self.stopped[0]) if self.life.is_stopped else self.life.time()
            self.life.quiet_at = max(self.life.quiet_at, idle - self.world.dice.choice((1e-6, lag)))
        self._inbox.append((self.life.time(), *message))
        self.life.is_ready = True
        self.life.call_ready(self._read)

    def _read(self) -> None:
        if not self._inbox or self.is_over:
            return
        has_hung_up = self._inbox[-1][1] == "end"
        inbox, self._inbox = self._inbox, []
        for came, kind, what in inbox:
            self._take(self._seems_to_come(came), kind, what, not has_hung_up)
        self.life.is_ready = bool(self._inbox)

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
            request = self.world.runtime.request(what.event)
            what.size = request.ByteSize()
            context = Context(what.event.method, what.event.timeout, clock, came, self.adapter.reserve, what.size)
            context.is_heard = is_heard
            self._serve(what, request, context)

    def _serve(self, call: Call, request: Any, context: Context) -> None:
        self.unanswered.add(context)
        self._calls.append(call)
        self.world.add(call)
        self.life.call = call
        handler = getattr(self.adapter, CALLS[context.method].handler)
        try:
            answer = handler(request, context)
        except Exception as error:
            self._answer(call, context, None, error)
        else:
            if isinstance(answer, Deferred):
                answer.then(partial(self._answer, call, context))
            else:
                self._answer(call, context, answer)
        call.waits = call.work in self.works

    def _answer(self, call: Call, context: Context, reply: Any, error: Exception | None = None) -> None:
        self.world.point("before the answer")
        self.unanswered.discard(context)
        call.answers.append((self.life.time(), error))
        self.world.runtime.take_answer(call, reply, error)
        self.world.point("after the answer")
        context.status = 0 if error is None else Code.UNKNOWN
        self.adapter.answered(context)
        call.noted_at = self.life.time()

    @property
    def works(self) -> list[PluginWork]:
        """What is under way."""
        serving = self.adapter._serving
        return serving.deletes.queue.works if serving is not None else []

    def _on_gone(self) -> None:
        for call in self._calls:
            if not (call.runs or call.event.is_delete or call.is_dropped or any(error for _, error in call.answers)):
                call.is_dropped, call.was_late = True, bool(call.answers)
        self.adapter.on_runtime_gone()
        if self.is_ending:
            self.adapter.when_idle(self._finish)
        else:
            self.life.call_at(self.life.time() + self.world.absence(), self.world.runtime.wants(self))

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
        self.adapter.end()
        self.die(is_kill=False)
        raise Ended

    def stop(self, seconds: float, *, is_killed: bool) -> None:
        """SIGSTOP comes, and later SIGCONT or SIGKILL."""
        now = self.world.clock.now
        self.hits.append((now, now + seconds + 0.1))
        self.stopped = now, now + seconds
        self.life.is_stopped = True
        self.world.stops.append(Stop(self, now, now + seconds, self._busy_with()))
        self.world.clock.call_at(now + seconds, self.die if is_killed else self._go_on)

    def _busy_with(self) -> frozenset[str]:
        events = [call.event for call in self._calls if call.noted_at > self.life.time()]
        of_events = {id_ for event in events for id_ in (event.id, event.pod)}
        return frozenset(of_events | {run.id for run in self.world.runs_of(self)})

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
            if (run := self.life.starting) is not None and run.is_noted and not run.is_fed:
                self.world.noted.append(run)
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
