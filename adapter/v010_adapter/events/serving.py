"""Serves a runtime that the adapter has joined: each event goes to the bridges, when it is this adapter's turn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from nri import Context, api, runtimes
from nri.deferred import in_turn
from nri.runtimes import Runtime
from v010_adapter.base.loop import Loop
from v010_adapter.errors import PluginError
from v010_adapter.events.bridge import Bridge
from v010_adapter.events.create_container import create_container
from v010_adapter.events.fates import SERVED_ELSEWHERE, Stage, State, Turn
from v010_adapter.events.turns import Turns
from v010_adapter.events.withheld import withhold_at_event, withhold_at_synchronize
from v010_adapter.legacy.request import of_event
from v010_adapter.settings import Settings

if TYPE_CHECKING:
    from v010_adapter.events.hooks import HookBridge
    from v010_adapter.legacy.pending_updates import OnUpdated
    from v010_adapter.programs.process import Program
    from v010_adapter.programs.standby import Standby


class Link(Protocol):
    """The `Daemon`, as this module needs it: the process, and its connection with the runtime."""

    @property
    def runtime_pid(self) -> int:
        """The pid of the runtime, 0 if that is not known."""

    def on_joined(self) -> None:
        """The runtime has synchronized the adapter."""

    def on_served(self, is_ours: bool) -> None:
        """Notes whether this adapter, or another one, does the work: as soon as that is known, and when it changes."""

    def send_updates(self, updates: list[api.ContainerUpdate], on_reply: OnUpdated) -> None:
        """Asks the runtime for updates of containers."""

    def keep_configuration(self, text: str, socket: str) -> None:
        """Keeps the runtime's configuration text, and the path of the socket in it, for a later process."""


class Serving:
    """Serves the events of one runtime with the two bridges."""

    def __init__(self, loop: Loop, own: Settings, turns: Turns, link: Link) -> None:
        """Call `set_runtime` and `on_synchronize` next."""
        self._own = own
        self._link = link
        self._loop = loop
        self._turns = turns
        self._runtime = Runtime()
        self._hides_refused = False
        self._unanswered: dict[Context, Turn] = {}
        """The events without an answer."""
        self.serves = self._is_decided = False
        """Whether this adapter has served the last event; before that, whether it is alone. And if that is decided."""
        self._standby = self._made_standby()
        self.legacy = Bridge(loop, own.legacy, turns, own.host_root, self._standby)
        """Runs the legacy plugins."""
        self._hooks: HookBridge | None = None

    def _made_standby(self) -> Standby | None:
        """Returns the programs that are started ahead of events, None if none is configured to be."""
        legacy, hooks = self._own.legacy, self._own.hooks
        if not any((legacy.standby, hooks.standby, *(plugin.standby for plugin in legacy.plugins.values()))):
            return None
        from v010_adapter.programs.standby import Standby  # noqa: PLC0415

        return Standby(self._loop, legacy.standby_max_age, self._programs_ahead)

    def _programs_ahead(self) -> Iterator[tuple[Program | PluginError, int]]:
        yield from self.legacy.standby_programs()
        if self._hooks is not None:
            yield from self._hooks.standby_programs()

    def set_runtime(self, runtime: Runtime, *, with_hooks: bool) -> None:
        """Learns which runtime this is, and whether hooks are ours to inject."""
        self._runtime = runtime
        self._hides_refused = runtime.habits.hides_refused
        can_send = runtime.nri >= runtimes.UPDATES_AT_ANY_TIME
        send = self._link.send_updates if can_send else None
        self.legacy.set_runtime(runtime, pid=self._link.runtime_pid, send=send)
        if with_hooks and self._hooks is None:
            from v010_adapter.events.hooks import HookBridge  # noqa: PLC0415 - only where there are hooks

            self._hooks = HookBridge(self._loop, self._own.hooks, self._standby, self._own.host_root)
        elif not with_hooks:
            self._hooks = None

    # The connection

    def on_synchronize(self, request: api.SynchronizeRequest) -> None:
        """Takes the pods and containers that the runtime has. Call it after the answer, before any event."""
        if prefix := self._own.legacy.metadata_prefix:
            withhold_at_synchronize(request, prefix)
        self.legacy.synchronize(request.pods, request.containers)
        self._note_served(is_ours=not self._turns.has_others)
        if self._hooks is not None:
            self._hooks.start(self._runtime)

    def on_runtime_gone(self) -> None:
        """The connection is lost: running plugins may finish, waiting creates do not start."""
        unanswered, self._unanswered = self._unanswered, {}
        for turn in unanswered.values():
            self._turns.end(turn, None)
        self.legacy.on_runtime_gone()

    # Events

    def on_event(self, request: Any, context: Context) -> Any:
        """Serves an event, unless another adapter has served it.

        A runtime that has closed the connection waits for no answer: then only stops and removals are served. So it is
        with an event that this process reads too late, for it was stopped, if other adapters have got the event.
        """
        target = of_event(context.method, request)
        timeout = context.deadline - context.came
        turn = self._turns.turn(context.method, target.sandbox_id, target.id, self._loop.quiet_at, timeout)
        if not context.is_heard and not turn.is_end:
            return None
        if self._standby is not None:
            self._standby.on_event()
        if turn.at >= context.deadline and self._turns.others_got(turn) and not turn.is_end:
            self.legacy.skip(target)
            return None
        self._unanswered[context] = turn
        prefix = self._own.legacy.metadata_prefix
        if context.method != "CreateContainer":
            if prefix:
                withhold_at_event(context.method, request, prefix)
            return self.legacy.handle(request, target, context, turn)
        plugins = partial(self.legacy.handle, request, target, context, turn)
        return in_turn(create_container(request, context, turn, plugins, self._hooks, prefix))

    def on_answered(self, context: Context) -> None:
        """The answer to an event has been sent."""
        turn = self._unanswered.pop(context, None)
        if turn is not None:
            if turn.stage is not Stage.COME or self._hides_refused:
                self._note_answer(context, turn)
            if turn.fate is not None and self.serves is (turn.fate in SERVED_ELSEWHERE):
                self._note_served(is_ours=not self.serves)
        if self._standby is not None:
            self._standby.on_answered()

    def _note_answer(self, context: Context, turn: Turn) -> None:
        """Tells other adapters that the runtime has the answer, if it is in time.

        A runtime that reports no end of a container that it was refused has heard the refusal: the container has gone.
        If that is not sure, for the event may have come while this process was stopped, its pod's removal tells.
        """
        is_in_time = context.is_heard and self._loop.time() < turn.deadline
        self._turns.end(turn, (State.FAILED if context.has_failed else State.ANSWERED) if is_in_time else None)
        is_refused = context.has_failed and context.method == "CreateContainer" and is_in_time
        if is_refused and self._hides_refused:
            self._loop.call_soon(lambda: self.legacy.run_for_gone(turn.id))

    def _note_served(self, *, is_ours: bool) -> None:
        """Notes which adapter does the work: programs that stand by and ports belong to that one."""
        if is_ours == self.serves and self._is_decided:
            return
        self.serves, self._is_decided = is_ours, True
        if self._standby is not None:
            (self._standby.open if is_ours else self._standby.close)()
        self._link.on_served(is_ours)

    def end(self) -> None:
        """The process ends while plugins run."""
        if self._standby is not None:
            self._standby.close()
        self.legacy.give_up()

    def renew(self) -> None:
        """Starts the programs that stand by anew."""
        if self._standby is not None:
            self._standby.renew()

    # What others ask

    def describe(self) -> dict[str, Any]:
        """Returns what the bridges do, for `status`."""
        legacy, hooks, standby = self.legacy.describe(), self._hooks, self._standby
        accounts = {**legacy["programs"], **(hooks.accounts if hooks else {})}
        return {
            **legacy,
            "serves": self.serves,
            "programs": {name: account.describe() for name, account in accounts.items()},
            "standby": standby.describe() if standby is not None else {},
            "hooks": hooks.containers if hooks else {},
            "faults": [*legacy["faults"], *(hooks.faults if hooks else ())],
        }
