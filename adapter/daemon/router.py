"""The adapter as an NRI plugin: which event goes to which bridge."""

from __future__ import annotations

import gc
import logging
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from math import isinf
from typing import TYPE_CHECKING, Any

from adapter import settings
from adapter.base.loop import Loop
from adapter.base.times import Histogram, quantiles
from adapter.daemon.create_container import create_container, if_refused
from adapter.daemon.inventory import Inventory
from adapter.errors import ConfigError, PluginError
from adapter.host.owner import Owner
from adapter.host.trust import Trust
from adapter.monitoring import logs
from adapter.nri import Answer, Context, Plugin, api, runtimes
from adapter.nri.events import mask
from adapter.nri.plugin import RESERVE
from adapter.settings import Settings

if TYPE_CHECKING:
    from adapter.daemon.bridge import Bridge
    from adapter.hooks.bridge import HookBridge
    from adapter.legacy.pending_updates import Send
    from adapter.programs.process import Program
    from adapter.programs.standby import Standby

log = logging.getLogger(__name__)

RESERVE_WHERE_DROPPED = 0.25
"""Seconds; see `reserve`."""
LEGACY_EVENTS = (
    "RunPodSandbox",
    "StartContainer",
    "StopContainer",
    "StopPodSandbox",
    # These make up for stop events that never come.
    "RemoveContainer",
    "RemovePodSandbox",
)


def reserve(own: Settings, nri: runtimes.Version) -> float:
    """Returns how many seconds before a call's deadline the answer is sent at the latest.

    If nothing is configured, there are more for a runtime that drops a late plugin.
    """
    if own.reserve is not None:
        return own.reserve
    return RESERVE if nri >= runtimes.LATE_PLUGINS_STAY else RESERVE_WHERE_DROPPED


class Adapter(Plugin):
    """Hands each of the runtime's events to the bridges that serve it."""

    def __init__(
        self, loop: Loop, own: Settings, name: str, on_joined: Callable[[], object], pid: Callable[[], int] = lambda: 0
    ) -> None:
        """Takes the loop, the settings that hold unless the runtime sends some, and the plugin's name.

        `on_joined` is called at Synchronize; `pid` returns the pid of the runtime, 0 if that is not known.
        """
        self._loop = loop
        self._name = name
        self._on_joined = on_joined
        self._runtime_pid = pid
        self._settings = own
        self._is_configured_by_runtime = False
        self._runtime = runtimes.Runtime()
        self._listed: api.SynchronizeRequest | None = None
        """What the runtime has sent with Synchronize, until the work on it begins."""
        self._inventory: Inventory | None = None
        """What the runtime has, as long as another adapter serves its events."""
        self._listed_at = 0.0
        """When the last Synchronize came."""
        self.send_updates: Send | None = None
        """Asks the runtime for updates of containers; the daemon sets it for each connection."""
        self.join_again: Callable[[], object] = lambda: None
        """Gives the connection up and makes another; the daemon sets it for each connection."""
        self.keep_configuration: Callable[[str, str], object] = lambda text, socket: None
        """Takes the runtime's configuration text, and the path of the socket in it."""
        self.configuration_errors: list[ConfigError] = []
        """What is wrong with the adapter's own configuration."""
        self._times: defaultdict[str, Histogram] = defaultdict(Histogram)
        """The time from a call's coming to its answer, by event."""
        self._late: Counter[str] = Counter()
        """The answers that were written after the call's deadline, by event."""

    @cached_property
    def legacy(self) -> Bridge:
        """The legacy bridge, loaded when the runtime does not wait for our registration any more."""
        from adapter.daemon.bridge import Bridge  # noqa: PLC0415

        bridge = Bridge(self._loop, self._settings.legacy, self._settings.host_root, self._owner)
        bridge.runner.standby = self._standby
        self._introduce(bridge)
        return bridge

    def _introduce(self, bridge: Bridge) -> None:
        """Tells the bridge which runtime this is, and how it takes updates."""
        bridge.runtime_is(*self._runtime, pid=self._runtime_pid())
        can_send = self._runtime.nri >= runtimes.UPDATES_AT_ANY_TIME
        bridge.updates.send = self.send_updates if can_send else None

    @cached_property
    def hooks(self) -> HookBridge:
        """The hook bridge, loaded when the registration is over."""
        from adapter.hooks.bridge import HookBridge  # noqa: PLC0415

        bridge = HookBridge(self._loop, self._settings.hooks, self._settings.host_root)
        bridge.standby = self._standby
        return bridge

    @cached_property
    def _standby(self) -> Standby | None:
        """The programs that are started ahead of events, None if none is configured to be."""
        legacy, hooks = self._settings.legacy, self._settings.hooks
        if not any((legacy.standby, hooks.standby, *(own.standby for own in legacy.plugins.values()))):
            return None
        from adapter.programs.standby import Standby  # noqa: PLC0415

        return Standby(self._loop, legacy.standby_max_age, self._programs_ahead)

    def _programs_ahead(self) -> Iterator[tuple[Program | PluginError, int]]:
        yield from self.legacy.standing_by()
        if self._hooks_wanted:
            yield from self.hooks.standing_by()

    @property
    def _hooks_wanted(self) -> bool:
        """Whether hooks are ours to inject."""
        enabled = self._settings.hooks.enabled
        return not self._runtime.habits.no_hooks if enabled is None else enabled

    def configure(self, request: api.ConfigureRequest, context: Context) -> api.ConfigureResponse:
        """Takes the runtime's configuration text, if it sends one, in place of the file's."""
        if request.config.strip():
            self.take_configuration(request.config)
        self._runtime = runtimes.of(request)
        self._tell_what_is_off()
        policy = api.FailurePolicy(keep_connected=True, fail_request=self._settings.fail_request)
        self.reserve = reserve(self._settings, self._runtime.nri)
        if "legacy" in self.__dict__:  # joined again
            self._introduce(self.legacy)
        return api.ConfigureResponse(events=mask(self._events()), failure_policy=policy)

    def _tell_what_is_off(self) -> None:
        habits = self._runtime.habits
        if habits.no_ends:
            log.warning("%s: legacy plugins run at CreateContainer or not at all", habits.no_ends)
        if habits.no_hooks and self._settings.hooks.enabled is None:
            log.info("hooks are off: %s (hooks.enabled)", habits.no_hooks)
        if without_effect := self._without_effect():
            log.warning("%s", without_effect)

    def _without_effect(self) -> str:
        """Returns what is configured and has no effect with this runtime."""
        if not self._settings.fail_request or self._runtime.nri >= runtimes.LATE_PLUGINS_STAY or not self._runtime.name:
            return ""
        name, version, _ = self._runtime
        return f"runtime.failRequest has no effect: the NRI of {name} {version} is older than 0.12.4"

    def reload(self, read: settings.Read) -> None:
        """Reads the configuration file again and applies the log's settings: others are in use by what they configure.

        A file with an error changes nothing. Logs what has taken effect, and what needs a restart.
        """
        if self._is_configured_by_runtime:
            log.warning("SIGHUP: the runtime has sent the configuration, and sends it again only when it is restarted")
            return
        new, errors = read()
        for error in errors:
            log.error("SIGHUP: %s (the configuration stays as it was)", error)
        self.configuration_errors = errors
        if errors:
            return
        self._settings = self._settings._replace(log=new.log)
        logs.setup(new.log)
        if (standby := self.__dict__.get("_standby")) is not None:
            standby.renew()
        waiting = settings.changed_keys(self._settings, new)
        rest = f"; a restart is needed for {', '.join(waiting)}" if waiting else ""
        log.info("SIGHUP: the configuration has been read again, the settings of the log are in force%s", rest)

    def take_configuration(self, text: str) -> None:
        """Takes the runtime's configuration text in place of the file's."""
        self._is_configured_by_runtime = True
        self._settings, self.configuration_errors = settings.parse(text, "configuration from the runtime")
        logs.setup(self._settings.log)
        settings.report(self.configuration_errors)
        self.keep_configuration(text, self._settings.socket)

    def _events(self) -> set[str]:
        """Returns the events that what is configured can need."""
        at_creation = self._hooks_wanted or self._settings.legacy.metadata_prefix
        events = {*LEGACY_EVENTS, *(["CreateContainer"] if at_creation else [])}
        return events.union(*(own.events or () for own in self._settings.legacy.plugins.values()))

    def synchronize(self, request: api.SynchronizeRequest, context: Context) -> None:
        """Takes the pods and containers that run already; the work on them follows the answer, before any event."""
        self._on_joined()
        self._listed, self._listed_at = request, self._loop.time()
        self._loop.call_soon(self._settle)

    @cached_property
    def _owner(self) -> Owner:
        """The lock of the state directory, by default one for all adapters of this name."""
        owner = Owner(self.state_directory, self._settings.legacy.trust)
        owner.on_lost = lambda: self._loop.call_soon(self.join_again)
        return owner

    @property
    def state_directory(self) -> str:
        """The state directory. systemd's RuntimeDirectory= comes first."""
        directory = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
        return directory or settings.state_directory(self._settings, self._name)

    @property
    def trust(self) -> Trust:
        """What decides whether a file may be used."""
        return self._settings.legacy.trust

    @property
    def metrics_listen(self) -> tuple[str, ...]:
        """Where metrics are served."""
        return self._settings.metrics_listen

    def describe(self) -> dict[str, Any]:
        """Returns what the adapter does, for `status`."""
        legacy, hooks, standby = map(self.__dict__.get, ("legacy", "hooks", "_standby"))
        bridges: list[Any] = [bridge for bridge in (legacy, hooks) if bridge is not None]
        accounts = {**(legacy.runner.accounts if legacy else {}), **(hooks.accounts if hooks else {})}
        name, version, nri = self._runtime
        return {
            "runtime": {"name": name, "version": version, "nri": ".".join(map(str, nri))},
            "owner": "_owner" in self.__dict__ and self._owner.is_held,
            "owed": len(legacy.ledger) if legacy else 0,
            "events": {event: self._times_of(event) for event in self._times},
            "programs": {name: account.describe() for name, account in accounts.items()},
            "standby": standby.describe() if standby is not None else {},
            "hooks": hooks.containers if hooks else {},
            "faults": [
                *map(str, self.configuration_errors),
                *(fault for bridge in bridges for fault in bridge.faults),
            ],
            "notes": list(filter(None, [self._without_effect(), legacy.sandboxes if legacy else ""])),
            "state_fault": legacy.state_fault if legacy else "",
        }

    def _times_of(self, event: str) -> dict[str, Any]:
        times = self._times[event]
        return {"late": self._late[event], "times": times.describe(), **quantiles(times)}

    def answered(self, context: Context) -> None:
        """Counts the time of an event."""
        self._times[context.method].add(context.elapsed())
        if context.remaining() < 0:
            self._late[context.method] += 1
            log.warning("%s was answered after its deadline: the runtime may drop the adapter", context.method)
        if self._standby is not None:
            self._standby.answered()

    def _serves(self, request: Any, context: Context) -> bool:
        """Whether this adapter serves an event: it is the owner, or becomes it now.

        An owner that ends may have served the very event with which a new owner begins. A runtime that has closed the
        connection has gone on without an answer: then only what has ended is served.
        """
        if not context.is_heard and not context.method.startswith(("Stop", "Remove")):
            return False
        owner = self._owner
        event = f"{context.method} {getattr(request, 'container', request.pod).id}"
        before, owner.last, owner.last_at = owner.last, event, self._loop.time()
        if owner.is_held:
            self.legacy.keep_state()
        if not owner.is_held and not self._becomes_owner(context.method, request):
            if self._inventory is not None:
                self._inventory.follow(context.method, request)
            return False
        if self._standby is not None:
            self._standby.event_came()
        was_served = event == owner.served_before != before
        owner.served_before = ""
        if was_served:
            self.legacy.was_served(request, context)
        return not was_served

    def _becomes_owner(self, event: str, request: Any) -> bool:
        self._settle(event, request)
        if self._owner.is_held:
            return True
        inventory, self._inventory = self._inventory, None
        if inventory is None:  # this adapter ends; if no other serves yet, they have passed this event on to it
            self._loop.call_soon(self.release)
            return self._owner.take_back()
        if not self._owner.take_back():
            if not self._owner.take():
                self._inventory = inventory
                return False
            self._take_over(inventory, event, request)
        self._start_ahead()
        return True

    def _take_over(self, inventory: Inventory, event: str, request: Any) -> None:
        """Resumes where the previous owner stopped. `event` is the event that comes now, empty at Synchronize.

        That owner may have served it, or the first one after Synchronize, only if this adapter had joined by then.
        """
        served_at = self._owner.served_before_at
        if served_at < self._listed_at or (not event and isinf(served_at)):  # an earlier version has told no moment
            self._owner.served_before = ""
        is_news = inventory.is_news(event, request)
        self.legacy.take_over(inventory.pods, inventory.containers, may_be_repeated=is_news)

    def _start_ahead(self) -> None:
        """Starts what is to stand by: this adapter serves the events from now on."""
        if self._standby is not None:
            self._standby.open()

    def release(self) -> None:
        """Lets another adapter serve the events that come from now on; chains under way go on."""
        if (standby := self.__dict__.get("_standby")) is not None:
            standby.close()
        self._inventory = None
        if "legacy" in self.__dict__:
            self.legacy.release()
        elif "_owner" in self.__dict__:
            self._owner.release(())

    def runtime_is_gone(self) -> None:
        """The connection is lost: chains under way are finished, creates that wait are not started."""
        if "_owner" in self.__dict__:
            self._owner.last = ""  # perhaps the runtime has not taken the answer
        self.release()
        if "legacy" in self.__dict__:
            self.legacy.runtime_is_gone()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Calls back, perhaps at once, when no chain is under way any more."""
        if "legacy" in self.__dict__:
            self.legacy.when_idle(callback)
        else:
            callback()

    def owed(self) -> list[str]:
        """Returns the names of the pods and containers that are owed a delete."""
        return self.legacy.owed() if "legacy" in self.__dict__ else []

    def _settle(self, event: str = "", request: Any = None) -> None:
        state, self._listed = self._listed, None
        if state is None:
            return  # done already, for an event has come before
        self._inventory = None
        if self._owner.is_held or self._owner.take_back():
            self.legacy.synchronize(state.pods, state.containers)
        elif self._owner.take():
            self._take_over(Inventory(state.pods, state.containers), event, request)
        else:
            self._inventory = Inventory(state.pods, state.containers)
        if self._owner.is_held:
            self._start_ahead()
        if self._hooks_wanted:
            self.hooks.start(self._runtime)
        counts = len(state.pods), len(state.containers)
        log.info("registered with %s %s: %d pods, %d containers", *self._runtime[:2], *counts)
        # The objects that exist now stay: the collector need not visit them again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(5000)
        gc.enable()

    def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> Answer[api.CreateContainerResponse]:
        """Runs the legacy plugins, injects the hooks of hooks.d, runs the precreate hooks: in this order."""
        if not self._serves(request, context):
            return api.CreateContainerResponse()
        hooks = self.hooks if self._hooks_wanted else None
        prefix = self._settings.legacy.metadata_prefix
        answer = create_container(request, context, self.legacy.handle, hooks, prefix)
        if self._runtime.habits.hides_refused:
            return if_refused(answer, lambda: self.legacy.has_gone(request.container.id))
        return answer

    def _legacy(self, request: Any, context: Context) -> Any:
        """Runs the legacy plugins that are subscribed to the event."""
        return self.legacy.handle(request, context) if self._serves(request, context) else None

    run_pod_sandbox = update_pod_sandbox = post_update_pod_sandbox = stop_pod_sandbox = remove_pod_sandbox = _legacy
    post_create_container = start_container = post_start_container = _legacy
    update_container = post_update_container = stop_container = remove_container = _legacy
