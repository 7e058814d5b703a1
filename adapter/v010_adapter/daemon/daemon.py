"""The daemon: joins a runtime, serves its events on one loop, and joins again when the connection is lost."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from nri import Identity, Stub, api
from nri.errors import NRIError, RegistrationError, RemoteProtocolError
from v010_adapter import __version__, settings
from v010_adapter.base.connected_socket import ConnectedSocket
from v010_adapter.base.loop import NO_TIMER, Loop
from v010_adapter.daemon import guard
from v010_adapter.daemon.adapter import Adapter
from v010_adapter.errors import ConfigError
from v010_adapter.monitoring import logs
from v010_adapter.monitoring.endpoints import Endpoints
from v010_adapter.monitoring.sanitize import bounded
from v010_adapter.monitoring.service import Service
from v010_adapter.programs.children import children
from v010_adapter.settings import Settings

if TYPE_CHECKING:
    from v010_adapter.legacy.pending_updates import OnUpdated

log = logging.getLogger(__name__)

GRACE = 10.0
"""Seconds that running plugins get at the end."""
LOOK = 0.2
"""Seconds between two looks, of an adapter that is told to end, whether another adapter has joined."""
FIRST_WAIT, LONGEST_WAIT = 0.1, 0.5
"""Seconds between two attempts to join: each wait is twice the one before. Pods that start meanwhile have no create."""
AFTER_BUG = 1.0
"""Seconds until the adapter joins again after a bug, which it may meet again at once."""
REMINDER = 10.0
"""Seconds between two log lines while the runtime takes its time to join us."""
OPEN_AFTER = 1.0
"""Seconds after the start at which `status` and probes can ask an adapter that waits for its runtime."""


class Origin(NamedTuple):
    """How the process was started: it decides how the daemon joins its runtime again, and when it ends."""

    connect: Callable[[], int] | None = None
    """Returns the descriptor of a socket connected to the runtime, to join again. Raises RegistrationError.

    Without it, the daemon ends when the connection is lost.
    """
    when_lost: int = 0
    """The exit code when the daemon ends because the connection is lost."""
    launch: guard.Launch | None = None
    """The runtime that has launched the process, if one has: the daemon ends when that runtime does."""
    linger: float = 0
    """How many seconds the daemon continues to serve when it is told to end, unless another adapter takes over."""


class ConnectionState(Enum):
    """The state of the connection with the runtime. The value is the message for systemd.

    The service is ready when it has joined a runtime, and also while it waits for one. A runtime may start much later:
    until then, the service must not fail, and units that are ordered after the service must not wait.
    """

    APART = "READY=1\nSTATUS=waits for the runtime"
    """No connection; a timer tries again."""
    JOINING = "STATUS=the runtime has not configured and synchronized the adapter yet"
    """Connected, but not synchronized. The runtime may take minutes: it holds NRI's lock during a StopContainer's grace
    period (containerd issue 14083), so the connection is never given up while it waits."""
    JOINED = "READY=1\nSTATUS=joined with the runtime"
    ENDING = "STOPPING=1\nSTATUS=waits for the running plugins"
    """No new connection; running plugins may finish."""


def _watch_signals(loop: Loop, end: Callable[[str], object], reload: Callable[[], object]) -> None:
    """Calls `end` with the name of each SIGTERM and SIGINT, and `reload` at each SIGHUP, as long as the loop runs."""
    wakeup, awake = os.pipe()
    for pipe_end in (wakeup, awake):
        os.set_blocking(pipe_end, False)
    signal.set_wakeup_fd(awake, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, guard.SIGNALS)

    def on_signals() -> None:
        for number in os.read(wakeup, 64):
            if number == signal.SIGHUP:
                reload()
            else:
                end(signal.Signals(number).name)

    loop.watch(wakeup, on_signals)


class Daemon:
    """The adapter's process, from its start to the exit code."""

    def __init__(
        self, own: Settings, errors: list[ConfigError], who: Identity, reread: settings.Read, origin: Origin
    ) -> None:
        """Takes the settings that hold unless the runtime sends some; `reread` reads their file again."""
        self.state = ConnectionState.APART
        self.runtime_pid = 0
        """The pid of the runtime, 0 if that is not known."""
        self._who, self._reread, self._origin = who, reread, origin
        self._started = time.time()
        self._joins = 0
        self._joined_at: float | None = None
        self._wait, self._reason = FIRST_WAIT, ""
        """The seconds before the next attempt to join; and why the last one has failed."""
        self._trunk: ConnectedSocket | None = None
        self._stub: Stub | None = None
        self._timer = NO_TIMER
        self._is_told_to_end = self._has_runtime_ended = False
        self._unfit = ""
        """Why this adapter does not join beside another one."""
        self._exit_code = 0
        self._loop = Loop()
        self._service = Service(self._loop, os.environ)
        self._endpoints = Endpoints(self._loop, self._describe)
        self._adapter = Adapter(self._loop, own, errors, who.name, self)
        if origin.launch is not None:
            self._follow(origin.launch, own)

    def _follow(self, launch: guard.Launch, own: Settings) -> None:
        """Joins the runtime that launched the daemon again after a loss, and ends when that runtime ends."""
        launch.socket = own.socket
        self._loop.watch(launch.pidfd, lambda: self._on_runtime_end(launch.pidfd))
        if launch.killed_by:
            if text := launch.text():
                self._adapter.take_configuration(text)
            log.error("the process before this one was killed by signal %d", launch.killed_by)

    def run(self, trunk: int | None) -> int:
        """Serves until a signal ends the daemon, or until a loss of the connection if it cannot join again.

        `trunk` is the descriptor of a connected socket; without one the daemon connects itself. Returns the exit code.
        """
        _watch_signals(self._loop, self._end_on, lambda: self._adapter.reload(self._reread))
        self._keep_house()
        if trunk is None:  # then no runtime sends the settings
            self._loop.call_at(self._loop.time() + OPEN_AFTER, self._open)
            self._try()
        else:
            self._adapter.end_left_holds()
            self._join(trunk)
        self._loop.run()
        self._adapter.end()
        self._endpoints.close()
        if self._has_runtime_ended and (owed := self._adapter.owed):
            log.info("still owed: the deletes of %s", ", ".join(owed))
        return self._exit_code

    # Joining

    def _try(self) -> None:
        if self._origin.connect is None:
            return
        try:
            self._unfit = self._adapter.unfit
            if self._unfit:
                raise RegistrationError(f"{self._unfit}: another adapter serves, and this one waits")
            self._adapter.end_left_holds()
            self._join(self._origin.connect())
        except RegistrationError as error:
            self._try_later(error)
        except Exception as error:
            if (text := f"a bug: {error}") != self._reason:
                log.exception("a bug: the adapter cannot join")
            self._try_later(RegistrationError(text))

    def _join(self, fd: int) -> None:
        self._enter(ConnectionState.JOINING)
        self._timer = self._loop.call_at(self._loop.time() + REMINDER, self._remind)
        self.runtime_pid = guard.peer(fd)
        trunk = self._trunk = ConnectedSocket(self._loop, fd)
        stub = self._stub = Stub(self._adapter, self._who.name, self._who.idx, trunk.write)
        trunk.on_data = partial(self._on_data, trunk, stub)
        trunk.on_close = lambda reason: self._on_lost(RemoteProtocolError(reason) if reason else None)
        stub.register()

    def _try_later(self, error: NRIError | None = None) -> None:
        """Tries again after a wait; logs a failure if it is not the one before."""
        is_new = error is not None and str(error) != self._reason
        if is_new or self.state is ConnectionState.JOINING:  # it may have failed after it had connected
            self._enter(ConnectionState.APART)
        if is_new:
            log.warning("%s: the adapter keeps trying to join", error)
            self._reason = str(error)
            self._loop.call_soon(self._open)
        self._timer = self._loop.call_at(self._loop.time() + self._wait, self._try)
        self._wait = min(2 * self._wait, LONGEST_WAIT)

    def _open(self) -> None:
        """Opens the sockets at which others ask the adapter. The settings must be known, and no runtime may wait."""
        own = self._adapter.settings
        self._endpoints.open(self._adapter.state_directory, own.metrics_listen, own.legacy.trust)

    def _describe(self) -> dict[str, Any]:
        described = self._adapter.describe()
        mistakes = len(described["faults"])
        if described["state_fault"]:
            described["faults"].append(described["state_fault"])
        described["faults"] += self._endpoints.faults
        if self.state is not ConnectionState.JOINED:
            described["faults"].append(f"not joined with a runtime: {self._reason or self.state.name.lower()}")
        shown = {
            "pid": os.getpid(),
            "version": __version__,
            "started": self._started,
            "state": self.state.name.lower(),
            "joined": self._joined_at,
            "joins": self._joins,
            "configuration_errors": mistakes,
            "unfit": bool(self._unfit),
            "stalls": {"count": self._loop.stalls, "longest": self._loop.longest},
            **described,
        }
        return dict(bounded(shown))

    def _remind(self) -> None:
        log.info("the runtime has not configured and synchronized the adapter yet")
        self._service.notify("READY=1")
        self._timer = self._loop.call_at(self._loop.time() + REMINDER, self._remind)

    # What the adapter calls

    def on_joined(self) -> None:
        """The runtime has synchronized the adapter."""
        if self.state is ConnectionState.JOINING:
            self._enter(ConnectionState.JOINED)
            self._reason = ""
            self._wait = FIRST_WAIT
            self._joins += 1
            self._joined_at = time.time()
            self._loop.call_soon(self._open)

    def on_served(self, is_ours: bool) -> None:
        """Notes whether this adapter, or another one, does the work."""
        self._endpoints.show(is_shown=is_ours and self.state is not ConnectionState.ENDING)

    def send_updates(self, updates: list[api.ContainerUpdate], on_reply: OnUpdated) -> None:
        """Asks the runtime for updates of containers."""
        if self._stub is not None:
            self._stub.update_containers(updates, on_reply)

    def keep_configuration(self, text: str, socket: str) -> None:
        """Keeps the runtime's configuration text for the server that the guard starts after this one."""
        if self._origin.launch is not None:
            self._origin.launch.keep(text, socket)

    # The connection

    def _on_data(self, trunk: ConnectedSocket, stub: Stub, data: bytes) -> None:
        try:
            stub.receive_data(data, self._loop.ready_since, is_heard=not self._loop.has_hung_up)
        except NRIError as error:
            trunk.close()
            self._on_lost(error)
        except Exception as error:
            self.on_bug(error)

    def on_bug(self, error: Exception) -> None:
        """Ends the connection with the runtime, and joins anew: nothing is known of what a bug has left undone."""
        log.error("a bug: the connection with the runtime cannot go on", exc_info=error)
        if self._trunk is not None:
            self._trunk.close()
        self._wait = AFTER_BUG
        self._on_lost(RegistrationError(f"a bug: {error}"))

    def _on_lost(self, error: NRIError | None) -> None:
        """The connection is gone: the runtime has closed it, or it was closed for an error."""
        was, origin = self.state, self._origin
        was_joined = self._joins or (origin.launch is not None and origin.launch.killed_by)
        if error is None:
            log.info("the runtime has closed the connection")
        else:
            log.error("%s", error)
        self._adapter.on_runtime_gone()
        if was is ConnectionState.ENDING:
            self._adapter.when_idle(self._end_when_sent)
        elif self._is_told_to_end:
            self._finish(0)
        elif origin.connect is not None and (was_joined or not isinstance(error, RegistrationError)):
            if was is ConnectionState.JOINED:
                log.warning("until the adapter has joined again, pods and containers start without it")
            self._enter(ConnectionState.APART)
            self._endpoints.show(is_shown=True)
            self._try_later()
        else:
            self._finish(origin.when_lost if was is ConnectionState.JOINED and error is None else 1)

    def _enter(self, state: ConnectionState) -> None:
        self.state = state
        self._service.notify(state.value)
        self._timer.cancel()

    # The end

    def _on_runtime_end(self, pidfd: int) -> None:
        """The runtime that launched the adapter is gone; the next runtime launches its own."""
        log.info("the runtime has ended")
        self._loop.unwatch(pidfd)
        self._has_runtime_ended = True
        self._adapter.on_runtime_gone()
        self._end_unless_ending()

    def _finish(self, exit_code: int) -> None:
        """Ends the daemon when no plugin runs, after GRACE seconds at the latest. Events are served until then."""
        self._enter(ConnectionState.ENDING)
        self._exit_code = exit_code
        self._endpoints.show(is_shown=False)
        self._loop.call_at(self._loop.time() + GRACE, self._on_grace_over)
        self._loop.call_soon(partial(self._adapter.when_idle, self._end_when_sent))

    def _end_when_sent(self) -> None:
        """Ends the loop when every event is answered and nothing is left to be sent."""
        if self._stub is None or self._trunk is None:
            self._loop.stop()
        else:
            self._stub.when_answered(partial(self._trunk.when_sent, self._loop.stop))

    def _on_grace_over(self, *, is_told: bool = False) -> None:
        if self._adapter.is_needed:
            if not is_told:
                log.error("this process stays until the other adapters can read its records, which cannot be written")
            self._loop.call_at(self._loop.time() + LOOK, partial(self._on_grace_over, is_told=True))
            return
        log.error("legacy plugins or the runtime were still busy after %g s", GRACE)
        self._loop.stop()

    def _end_on(self, name: str) -> None:
        """Ends the daemon in good order; at once if this is the second signal."""
        if self._is_told_to_end:
            log.warning("ending at once on a second signal, %s", name)
            self._loop.stop()
        else:
            self._is_told_to_end = True
            if (linger := self._origin.linger) and self.state is ConnectionState.JOINED:
                log.info("%s: serves until another adapter has joined, for %g s at most", name, linger)
                self._linger(self._loop.time() + linger)
            else:
                self._finish(0)
                log.info("ending on %s", name)

    def _linger(self, until: float) -> None:
        """Serves on until another adapter has joined."""
        if self._adapter.has_others or self._loop.time() >= until:
            self._end_unless_ending()
        else:
            self._loop.call_at(min(until, self._loop.time() + LOOK), partial(self._linger, until))

    def _end_unless_ending(self) -> None:
        if self.state is not ConnectionState.ENDING:
            self._finish(0)

    def _keep_house(self) -> None:
        """Does what is due each second, whether events come or not.

        Reaps the orphans that the daemon gets as PID 1 of a container; looks for the state directory; writes the kept
        log lines, of which a syslog socket may queue only ten.
        """
        children.reap_strangers()
        if self._origin.launch is None and self._adapter.has_lost_state and self.state is not ConnectionState.ENDING:
            log.error("the state directory was removed under its mount: this process ends, and its successor mounts it")
            self._finish(1)
        wait = 0.01 if logs.flush() else 1
        self._loop.call_at(self._loop.time() + wait, self._keep_house)
