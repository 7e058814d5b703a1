"""The adapter as an NRI plugin: its configuration, its subscription, and which `Serving` has its events."""

from __future__ import annotations

import logging
import os
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nri import Context, Plugin, api, runtimes
from nri.errors import RegistrationError
from nri.events import mask
from nri.plugin import RESERVE
from nri.runtimes import Runtime
from v010_adapter import settings
from v010_adapter.base import collector
from v010_adapter.base.loop import Loop
from v010_adapter.errors import ConfigError
from v010_adapter.events.turns import Turns, obstacle_in, owners_in, stranger
from v010_adapter.host import paths
from v010_adapter.monitoring import logs
from v010_adapter.monitoring.times import Histogram, quantiles
from v010_adapter.monitoring.trace import trace_of
from v010_adapter.settings import Settings
from v010_adapter.state.runtime_directory import RuntimeDirectory

if TYPE_CHECKING:
    from v010_adapter.events.holder import Holder
    from v010_adapter.events.serving import DaemonLink, Serving

log = logging.getLogger(__name__)

NOT_SERVING: dict[str, Any] = {
    **{"serves": False, "owed": 0, "programs": {}, "standby": {}, "hooks": {}, "faults": [], "notes": []},
    "state_fault": "",
}
"""What `status` shows before the runtime has synchronized the adapter."""
NO_HOLDS: dict[str, Any] = {"held": [], "times": {}, "missing": {}}
"""What `status` shows of holds before a container was to be held."""
RESERVE_WHERE_DROPPED = 0.25
"""Seconds; see `reserve`."""
LEGACY_EVENTS = (
    *("RunPodSandbox", "StartContainer", "StopContainer", "StopPodSandbox"),
    *("RemoveContainer", "RemovePodSandbox"),  # these make up for stop events that never come
)


def reserve(own: Settings, nri: runtimes.Version) -> float:
    """Returns how many seconds before a call's deadline the answer is sent at the latest.

    The default is longer for a runtime that drops a plugin whose answer is late.
    """
    if own.reserve is not None:
        return own.reserve
    return RESERVE if nri >= runtimes.LATE_PLUGINS_STAY else RESERVE_WHERE_DROPPED


class Adapter(Plugin):
    """Hands each of the runtime's events to `Serving`."""

    def __init__(self, loop: Loop, own: Settings, errors: list[ConfigError], name: str, link: DaemonLink) -> None:
        self._loop = loop
        self._name = name
        self._link = link
        self.settings = own
        """The settings in force: the runtime's, once it has sent some."""
        self._errors = errors
        """The errors in the adapter's own configuration."""
        self._is_configured_by_runtime = False
        self._file = own.file, paths.version_at(own.file)
        """The file that the settings come from, and its version when it was read."""
        self._waiting: list[str] = []
        """The keys whose values in the file need a restart to take effect."""
        self._runtime = Runtime()
        self._listed: api.SynchronizeRequest | None = None
        """What the runtime has sent with Synchronize, until the work on it begins."""
        self._turns: Turns | None = None
        self._serving: Serving | None = None
        """Both are None until the runtime has synchronized the adapter for the first time."""
        self._holder: Holder | None = None
        """Holds containers; made when one is to be held for the first time."""
        self._times: defaultdict[str, Histogram] = defaultdict(Histogram)
        """The time from a call's coming to its answer, by event."""
        self._late: Counter[str] = Counter()
        """The answers that were written after the call's deadline, by event."""

    @property
    def _with_hooks(self) -> bool:
        """Whether this adapter injects hooks."""
        enabled = self.settings.hooks.enabled
        return not self._runtime.habits.no_hooks if enabled is None else enabled

    def configure(self, request: api.ConfigureRequest, context: Context) -> api.ConfigureResponse:
        """Takes the runtime's configuration text, if it sends one, in place of the file's."""
        if request.config.strip():
            self.take_configuration(request.config)
        self._runtime = runtimes.of(request)
        self._log_what_is_off()
        policy = api.FailurePolicy(keep_connected=True, fail_request=self.settings.fail_request)
        self.reserve = reserve(self.settings, self._runtime.nri)
        return api.ConfigureResponse(events=mask(self._events()), failure_policy=policy)

    def _log_what_is_off(self) -> None:
        habits = self._runtime.habits
        if habits.no_ends:
            log.warning("%s: legacy plugins run at CreateContainer or not at all", habits.no_ends)
        if habits.no_hooks and self.settings.hooks.enabled is None:
            log.info("hooks are off: %s (hooks.enabled)", habits.no_hooks)
        if without_effect := self._without_effect():
            log.warning("%s", without_effect)

    def _without_effect(self) -> str:
        """Returns which setting has no effect with this runtime; empty if all have."""
        if not self.settings.fail_request or self._runtime.nri >= runtimes.LATE_PLUGINS_STAY or not self._runtime.name:
            return ""
        name, version, _ = self._runtime
        return f"runtime.failRequest has no effect: the NRI of {name} {version} is older than 0.12.4"

    def _restart_needed(self) -> str:
        """Returns why the configuration file needs a restart; empty if it does not. Reads only the file's status."""
        path, version = self._file
        if self._is_configured_by_runtime or not path:
            return ""
        if paths.version_at(path) != version:
            return f"restart needed: {path} has changed since it was read (SIGHUP says what needs the restart)"
        return f"restart needed for {', '.join(self._waiting)}: {path} has other values" if self._waiting else ""

    def reload(self, read: settings.Read) -> None:
        """Reads the configuration file again, and applies the settings of the log. All others stay in force.

        A file with an error changes nothing. Logs what has taken effect, and what needs a restart.
        """
        if self._is_configured_by_runtime:
            log.warning("SIGHUP: the runtime has sent the configuration, and sends it again only when it is restarted")
            return
        self._file = self._file[0], paths.version_at(self._file[0])
        new, errors = read()
        for error in errors:
            log.error("SIGHUP: %s (the configuration stays as it was)", error)
        self._errors = errors
        if errors:
            return
        self.settings = self.settings._replace(log=new.log)
        logs.setup(new.log)
        if self._serving is not None:
            self._serving.renew()
        waiting = self._waiting = settings.changed_keys(self.settings, new)
        rest = f"; a restart is needed for {', '.join(waiting)}" if waiting else ""
        log.info("SIGHUP: the configuration has been read again, the settings of the log are in force%s", rest)

    def take_configuration(self, text: str) -> None:
        """Takes the runtime's configuration text in place of the file's."""
        self._is_configured_by_runtime = True
        self.settings, self._errors = settings.parse(text, "configuration from the runtime")
        logs.setup(self.settings.log)
        settings.report(self._errors)
        self._link.keep_configuration(text, self.settings.socket)

    def _events(self) -> set[str]:
        """Returns the events that the configured plugins and hooks can need."""
        at_creation = self._with_hooks or self.settings.legacy.metadata_prefix
        events = {*LEGACY_EVENTS, *(["CreateContainer"] if at_creation else [])}
        return events.union(*(own.events or () for own in self.settings.legacy.plugins.values()))

    def synchronize(self, request: api.SynchronizeRequest, context: Context) -> None:
        """Takes the pods and containers that run already; the work on them follows the answer, before any event.

        Before the answer, other adapters must see that this one has joined.
        """
        if self._turns is None or self._turns.directory.runtime != self._runtime.name:
            directory = RuntimeDirectory(self.state_directory, self._runtime.name, self.settings.legacy.trust)
            self._turns, self._serving = Turns(directory, self._loop.time, self.settings.state_owner), None
        self._turns.join()
        if (other := self._turns.stranger) is not None:  # it has joined since `unfit` was asked
            self._turns.leave()
            raise RegistrationError(self._of_stranger(other))
        self._listed = request
        self._loop.call_soon(self._begin_or_leave)
        self._link.on_joined()

    def _begin_or_leave(self) -> None:
        """Begins, unless an event has come first and has begun it.

        An adapter that cannot begin must not stay: it would run nothing.
        """
        try:
            self._begin()
        except Exception as error:
            self._link.on_bug(error)

    def _begin(self) -> None:
        """Begins to serve the runtime that has synchronized the adapter."""
        if self._listed is None or self._turns is None:
            return  # an event has come earlier, and has begun it
        request, self._listed = self._listed, None
        if self._serving is None:
            from v010_adapter.events.serving import Serving  # noqa: PLC0415 - the runtime has waited for the answers so far

            self._serving = Serving(self._loop, self.settings, self._turns, self._link, self._made_holder)
        self._serving.set_runtime(self._runtime, with_hooks=self._with_hooks)
        self._serving.on_synchronize(request)
        counts = len(request.pods), len(request.containers)
        log.info("registered with %s %s: %d pods, %d containers", *self._runtime[:2], *counts)
        self._turns.directory.remove_earlier_boots()
        collector.begin()

    def _made_holder(self) -> Holder:
        if self._holder is None:
            from v010_adapter.events.holder import Holder  # noqa: PLC0415 - only where a container is to be held

            self._holder = Holder(self._loop, self.settings.legacy, self.state_directory)
        return self._holder

    def end_left_holds(self) -> None:
        """Ends the holds of adapters that were killed. Must be called before this adapter joins."""
        if self._holder is not None or os.path.isdir(f"{self.state_directory}/holds"):
            self._made_holder().end_left()

    @property
    def state_directory(self) -> str:
        """The state directory. systemd's RuntimeDirectory= comes first."""
        directory = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
        return directory or settings.state_directory(self.settings, self._name)

    def describe(self) -> dict[str, Any]:
        """Returns what the adapter does, for `status`."""
        name, version, nri = self._runtime
        serving = self._serving.describe() if self._serving is not None else NOT_SERVING
        holder = self._holder
        notes = [self._restart_needed(), self._without_effect(), *serving["notes"], *(holder.notes if holder else ())]
        return {
            **serving,
            "holds": holder.describe() if holder else NO_HOLDS,
            "runtime": {"name": name, "version": version, "nri": ".".join(map(str, nri))},
            "events": {
                event: {"late": self._late[event], "times": times.describe(), **quantiles(times)}
                for event, times in self._times.items()
            },
            "faults": [*map(str, self._errors), *serving["faults"]],
            "notes": list(filter(None, notes)),
        }

    def answered(self, context: Context) -> None:
        """Counts the time of a call."""
        seconds = self._loop.time() - context.came
        self._times[context.method].add(seconds)
        if context.came + seconds > context.deadline:
            self._late[context.method] += 1
            text = "%s was answered after its deadline: the runtime may drop the adapter"
            log.warning(text, context.method, extra=trace_of(context).extra)
        if self._serving is not None:
            self._serving.on_answered(context)

    def on_runtime_gone(self) -> None:
        """The connection is lost: running plugins may finish, waiting creates do not start."""
        self._listed = None
        try:
            if self._serving is not None:
                self._serving.on_runtime_gone()
        except Exception:  # the adapter must join again all the same
            log.exception("a bug: what the loss of the connection has left undone is unknown")
        if self._turns is not None:
            self._turns.leave()

    @property
    def has_others(self) -> bool:
        """Whether another adapter has joined the runtime."""
        return self._turns is not None and self._turns.has_others

    @property
    def has_lost_state(self) -> bool:
        """Whether this process cannot use the state directory any more, and its successor can; see `Turns.is_lost`."""
        return self._turns is not None and self._turns.is_lost

    @property
    def unfit(self) -> str:
        """Why this adapter must not join beside another one; empty if it may join.

        Creates may fail here. The other adapter may have another owner, and so perhaps other work; or another format of
        the state. The state directory may have no room for what one of the two must tell the other.
        """
        joined = owners_in(self.state_directory)
        if not joined:
            return ""
        if (other := stranger(joined, self.settings.state_owner)) is not None:
            return self._of_stranger(other)
        if reason := obstacle_in(self.state_directory):
            return reason
        from v010_adapter.legacy.plugins import unfit  # noqa: PLC0415 - only beside another adapter

        return unfit(self.settings.legacy)

    def _of_stranger(self, other: str) -> str:
        """Returns why this adapter does not join beside an adapter of the owner `other`."""
        own = self.settings.state_owner
        return f"state.owner: an adapter of {other or 'nobody'} has joined, and this one is of {own or 'nobody'}"

    def end(self) -> None:
        """The process ends, perhaps while plugins run."""
        if self._serving is not None:
            self._serving.end()

    def when_idle(self, callback: Callable[[], object]) -> None:
        """Calls back, perhaps at once, when no plugin runs any more."""
        if self._serving is not None:
            self._serving.when_idle(callback)
        else:
            callback()

    @property
    def is_needed(self) -> bool:
        """Whether other adapters would need records that this process cannot write."""
        return self._serving is not None and self._serving.ledger.is_needed

    @property
    def owed(self) -> list[str]:
        """The names of the pods and containers that are owed a delete."""
        return self._serving.owed() if self._serving is not None else []

    # Events

    def _on_event(self, request: Any, context: Context) -> Any:
        """Serves an event. Before Synchronize, a runtime should send none, and nothing runs."""
        if self._listed is not None:
            self._begin_or_leave()
        return self._serving and self._serving.on_event(request, context)

    run_pod_sandbox = update_pod_sandbox = post_update_pod_sandbox = stop_pod_sandbox = remove_pod_sandbox = _on_event
    create_container = post_create_container = start_container = post_start_container = _on_event
    update_container = post_update_container = stop_container = remove_container = _on_event
