"""Serves a runtime that the adapter has joined: each event goes to the bridges, if it is this adapter's to serve.

Of several adapters on a node one serves each event; `lease` says which. A new owner compares the events that it left to
the previous owner with those that the previous owner has served (`succession`): none is lost, and none runs twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from adapter.base.loop import Loop
from adapter.daemon.bridge import Bridge
from adapter.daemon.create_container import create_container
from adapter.daemon.inventory import Inventory
from adapter.daemon.lease import Lease
from adapter.daemon.succession import Event, Succession
from adapter.errors import ConfigError, PluginError
from adapter.host.lock import Lock, Told
from adapter.nri import Context, api, runtimes
from adapter.nri.deferred import in_turn
from adapter.nri.runtimes import Runtime
from adapter.settings import Settings

if TYPE_CHECKING:
    from adapter.hooks.bridge import HookBridge
    from adapter.legacy.pending_updates import OnUpdated
    from adapter.programs.process import Program
    from adapter.programs.standby import Standby

log = logging.getLogger(__name__)


class Link(Protocol):
    """The `Daemon`, as this module needs it: the process, and its connection with the runtime."""

    @property
    def runtime_pid(self) -> int:
        """The pid of the runtime, 0 if that is not known."""

    def on_joined(self) -> None:
        """The runtime has synchronized the adapter."""

    def on_turn(self, is_owner: bool) -> None:
        """Notes whether this adapter serves the events: as soon as that is known, and when it changes."""

    def join_again(self) -> None:
        """Gives the connection up and makes another."""

    def send_updates(self, updates: list[api.ContainerUpdate], on_reply: OnUpdated) -> None:
        """Asks the runtime for updates of containers."""

    def keep_configuration(self, text: str, socket: str) -> None:
        """Keeps the runtime's configuration text, and the path of the socket in it, for a later process."""


class Serving:
    """Serves the events of one runtime: the two bridges, and the lease, which says whether they serve."""

    def __init__(self, loop: Loop, own: Settings, directory: str, link: Link) -> None:
        """Call `set_runtime` and `on_synchronize` next."""
        self._loop = loop
        self._own = own
        self._link = link
        self._lock = Lock(directory, own.legacy.trust)
        self._lock.on_lost = lambda: loop.call_soon(link.join_again)
        self._lease = Lease(loop, self._lock, own.legacy.trust, self)
        self._inventory = Inventory((), ())
        self._runtime = Runtime()
        self._succession = Succession()
        self._is_first = False
        """Whether the next event is the first one after this adapter, which has waited, has become the owner."""
        self._told_unfit = ""
        """Why this adapter has not asked for the lock, as the log has it."""
        self._standby = self._made_standby()
        self.legacy = Bridge(loop, own.legacy, own.host_root, self._lock, self._standby)
        """Runs the legacy plugins."""
        self._hooks: HookBridge | None = None

    def _made_standby(self) -> Standby | None:
        """Returns the programs that are started ahead of events, None if none is configured to be."""
        legacy, hooks = self._own.legacy, self._own.hooks
        if not any((legacy.standby, hooks.standby, *(plugin.standby for plugin in legacy.plugins.values()))):
            return None
        from adapter.programs.standby import Standby  # noqa: PLC0415

        return Standby(self._loop, legacy.standby_max_age, self._programs_ahead)

    def _programs_ahead(self) -> Iterator[tuple[Program | PluginError, int]]:
        yield from self.legacy.standby_programs()
        if self._hooks is not None:
            yield from self._hooks.standby_programs()

    def set_runtime(self, runtime: Runtime, *, with_hooks: bool) -> None:
        """Learns which runtime this is, and whether hooks are ours to inject."""
        self._runtime = runtime
        can_send = runtime.nri >= runtimes.UPDATES_AT_ANY_TIME
        send = self._link.send_updates if can_send else None
        self.legacy.set_runtime(runtime, pid=self._link.runtime_pid, send=send)
        if with_hooks and self._hooks is None:
            from adapter.hooks.bridge import HookBridge  # noqa: PLC0415 - only where there are hooks

            self._hooks = HookBridge(self._loop, self._own.hooks, self._standby, self._own.host_root)
        elif not with_hooks:
            self._hooks = None

    # The connection

    def on_synchronize(self, request: api.SynchronizeRequest, came: float) -> None:
        """Takes the pods and containers that the runtime has, and when it has sent them.

        To be called after the answer, before any event.
        """
        self._inventory = Inventory(request.pods, request.containers)
        was_held, served = self._lease.is_held, self._succession.served
        self._succession.join(came)
        is_held = self._lease.join()
        self._is_first = False
        if was_held:
            self._lease.begin(Told(came, served))
            self.legacy.synchronize(request.pods, request.containers)
            if self._standby is not None:
                self._standby.open()
        elif not is_held:
            self.is_fit()  # the log says it if not
        self._link.on_turn(is_held)
        if self._hooks is not None:
            self._hooks.start(self._runtime)

    def on_runtime_gone(self) -> None:
        """The connection is lost: running plugins may finish, waiting creates do not start."""
        self._succession.disconnect()
        self._lease.leave(is_connected=False)
        self.on_asked()
        self.legacy.on_runtime_gone()

    def end(self) -> None:
        """Serves on only as long as no other adapter does."""
        self._lease.leave(is_connected=True)
        self.on_asked()

    # Events

    def on_event(self, request: Any, context: Context) -> Any:
        """Serves an event, if this adapter is the owner, or becomes it now.

        A runtime that has closed the connection waits for no answer: then only stops and removals are served.
        """
        event = Event(request, context, self._loop.time())
        if not context.is_heard and not event.is_end:
            return None
        if self._lease.is_held:
            self.legacy.handover.repair()
        elif not self._lease.take() and (turn := self._lease.ask(context.due)) is not None:
            return turn.followed_by(lambda _: self._serve_or_leave(event))
        return self._serve_or_leave(event)

    def _create_container(self, request: api.CreateContainerRequest, context: Context) -> Any:
        """Runs the legacy plugins, injects the hooks of hooks.d, runs the precreate hooks: in this order."""

        def on_refused() -> None:
            if self._runtime.habits.hides_refused:
                self._loop.call_soon(lambda: self.legacy.run_for_gone(request.container.id))

        prefix = self._own.legacy.metadata_prefix
        return in_turn(create_container(request, context, self.legacy.handle, self._hooks, prefix, on_refused))

    def on_answered(self, context: Context) -> None:
        """The answer to an event has been sent."""
        self._succession.note_answered(context)
        if self._standby is not None:
            self._standby.on_answered()

    def _serve_or_leave(self, event: Event) -> Any:
        return self._serve(event) if self._lease.is_held else self._leave_to_owner(event)

    def _serve(self, event: Event) -> Any:
        is_first, self._is_first = self._is_first, False
        if self._succession.is_done(event):
            self.legacy.note_served(event.request, event.context)
            return None
        self._succession.note_begun(event)
        if is_first and self._inventory.is_news(event.context.method, event.request):
            self.legacy.expect_repeat()  # the previous owner has ended, perhaps while it served this event
        if self._standby is not None:
            self._standby.on_event()
        serve = self._create_container if event.context.method == "CreateContainer" else self.legacy.handle
        return serve(event.request, event.context)

    def _leave_to_owner(self, event: Event) -> None:
        """Leaves an event to the owner."""
        self._succession.note_left(event)
        self._inventory.follow(event.context.method, event.request)
        self.legacy.note_left(event.request, event.context)

    # What the lease calls

    def is_fit(self) -> bool:
        """Whether plugins can run here, while another adapter serves; the log says why not."""
        unfit = self.legacy.unfit
        if unfit and unfit != self._told_unfit:
            log.error("%s: this adapter waits until another one ends, or until that is mended", unfit)
        self._told_unfit = unfit
        return not unfit

    def on_told(self, told: Told) -> bool:
        """Another adapter is the owner; returns whether this one must be, for events that nobody has served."""
        return self._succession.note_owner(told)

    def on_asked(self) -> None:
        """Lets another adapter serve the events that come from now on; running plugins may finish."""
        if self._standby is not None:
            self._standby.close()
        self.legacy.release(self._release)

    def _release(self, ids: Iterable[str]) -> None:
        """Releases the lock, except for the ids whose plugins still run."""
        self._lease.release(ids, self._succession.served)
        self._link.on_turn(self._lease.is_held)

    def on_taken(self) -> None:
        """Resumes where the previous owner has stopped.

        Events that were left to that owner and not served run now. After a kill, the last one may have been served.
        """
        served, inventory, is_unbroken = self._lock.served, self._inventory, self._lease.is_unbroken
        lost = self._succession.take_over(served)
        self._lease.begin(Told(self._succession.joined_at, served))
        last = [name.partition(" ")[2] for name in served[:2]]
        self.legacy.take_over([*inventory.pods, *inventory.containers, *last])
        self._is_first = True
        if lost:
            self.legacy.expect_repeat()
        for each in lost:
            log.info("the previous adapter may have ended without %s: its plugins run now", each.name)
            with suppress(ConfigError):  # conf.json cannot be read: the log says so, and nobody waits for the answer
                self.legacy.handle(each.request, each.context, is_awaited=False)
        self.legacy.deletes.run_missed()
        if is_unbroken:
            self.legacy.synchronize(inventory.pods.values(), inventory.containers.values())
        else:
            self.legacy.deletes.watch_pods()
        if self._standby is not None:
            self._standby.open()
        self._link.on_turn(True)

    def renew(self) -> None:
        """Starts the programs that stand by anew."""
        if self._standby is not None:
            self._standby.renew()

    # What others ask

    def describe(self) -> dict[str, Any]:
        """Returns what the bridges do, for `status`."""
        legacy, hooks, standby = self.legacy.describe(), self._hooks, self._standby
        unfit = "" if self._lease.is_held else self.legacy.unfit
        faults = [*legacy["faults"], *(hooks.faults if hooks else ())]
        accounts = {**legacy["programs"], **(hooks.accounts if hooks else {})}
        return {
            **legacy,
            "owner": self._lease.is_held,
            "programs": {name: account.describe() for name, account in accounts.items()},
            "standby": standby.describe() if standby is not None else {},
            "hooks": hooks.containers if hooks else {},
            "unfit": bool(unfit),
            "faults": faults if not unfit or unfit in faults else [*faults, unfit],
        }
