"""The runtime side of NRI, embedded: launches and accepts plugins and sends them events, as containerd does.

Source of the rules: containerd/nri pkg/adaptation/adaptation.go.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import cast

from google.protobuf.message import Message

from adapter.errors import RegistrationError
from adapter.nri import api, events
from adapter.runtime.flavour import Flavour
from adapter.runtime.launch import PluginFile, discover, plugin_file, spawn
from adapter.runtime.link import Late
from adapter.runtime.merge import Conflict, Merge
from adapter.runtime.outcome import Outcome
from adapter.runtime.plugin import Plugin, UpdateHandler

log = logging.getLogger(__name__)

DEFAULT = Flavour()


class Runtime:
    """A runtime with NRI; a context manager that stops it at the end.

    It works when it is called, in the caller's thread: in `start`, `launch` and `accept`, in `event`, and in `serve`
    between events. Attributes may be looked at freely, and `pods` and `containers` changed.
    """

    def __init__(
        self,
        plugins: Path | None = None,
        config: Path | None = None,
        socket_path: Path | None = None,
        flavour: Flavour = DEFAULT,
        *,
        stderr: int | None = None,
        on_update: UpdateHandler | None = None,
    ) -> None:
        """Takes the plugin directory, that of the drop-ins (`conf.d`), and the socket for external plugins.

        Launched plugins get the descriptor `stderr`, else /dev/null. `on_update(plugin, updates)` applies unsolicited
        updates and returns those that failed; it runs inside of `event` and `serve` and must not call them.
        """
        self.flavour = flavour
        self.pods: list[api.PodSandbox] = []
        self.containers: list[api.Container] = []
        """What a plugin is told of in Synchronize."""
        self.plugins: list[Plugin] = []
        """Those in service, in the order in which they are called."""
        self.connected: list[Plugin] = []
        """All that were ever connected, in that order."""
        self.updates: list[tuple[str, api.ContainerUpdate]] = []
        """What plugins asked for in answer to Synchronize and, without `on_update`, unsolicited."""
        self._plugins_path, self._config_path, self._socket_path = plugins, config, socket_path
        self._stderr = stderr
        self._on_update = on_update or self._collect
        self._listener: socket.socket | None = None
        self._lock = Lock()

    def __enter__(self) -> Runtime:
        """Starts it."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stops it."""
        self.stop()

    @property
    def dropped(self) -> list[Plugin]:
        """Those that are not in service any more, or never were; `closed` says why."""
        return [plugin for plugin in self.connected if plugin not in self.plugins]

    def start(self) -> None:
        """Launches every plugin of the directory, then listens. A plugin that fails is logged and dropped.

        Raises ConfigError for a directory that would keep containerd from starting.
        """
        started = []
        for file in discover(self._plugins_path, self._config_path) if self._plugins_path else []:
            try:
                started.append(self._launched(file))
            except (RegistrationError, OSError) as error:
                log.warning("failed to start pre-installed plugin %s: %s", file.path.name, error)
        for plugin in started:
            try:
                self._join(plugin)
            except RegistrationError as error:
                log.warning("%s", error)
        if self._socket_path is not None:
            self._listen(self._socket_path)

    def launch(self, plugin: Path | PluginFile) -> Plugin:
        """Launches one more executable: named `NN-NAME`, or with a name given. Raises AdapterError and OSError."""
        file = plugin_file(plugin, self._config_path) if isinstance(plugin, Path) else plugin
        return self._join(self._launched(file))

    def accept(self, timeout: float) -> Plugin:
        """Waits for one external plugin to connect, and lets it in. Raises Late and RegistrationError."""
        if self._listener is None:
            raise RegistrationError("the runtime does not listen")
        self._listener.settimeout(timeout)
        try:
            trunk, _ = self._listener.accept()
        except TimeoutError:
            raise Late(f"no plugin connected in {timeout:g} s") from None
        return self._join(self._introduced(Plugin(trunk, self.flavour, self._on_update), ""))

    def event(self, method: str, request: Message) -> Outcome:
        """Relays an event, named as its method, to every plugin that wants it, in order, one event at a time."""
        call = events.CALLS[method]
        if not isinstance(request, call.request) or not call.event:
            raise TypeError(f"{method} with a {request.DESCRIPTOR.name}")
        outcome, merge = Outcome(method), Merge(request)
        with self._lock:
            try:
                self._relay(call, outcome, merge)
                if isinstance(request, api.CreateContainerRequest) and not outcome.error:
                    self._validate(request, outcome, merge)
            finally:
                self._remove_closed()
        if not outcome.error:
            outcome.adjust, outcome.update, outcome.request = merge.adjust, merge.update, merge.request
        return outcome

    def serve(self, done: Callable[[], bool], timeout: float) -> bool:
        """Serves plugins between events and lets external ones in, until `done()`; returns whether it came to that."""
        deadline = time.monotonic() + timeout
        while not done():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            if self._serve_plugins(remaining):
                self._admit()
        return True

    def stop(self) -> None:
        """Kills launched plugins, as containerd does when it ends, and closes every connection."""
        with self._lock:
            self.plugins = []
            for plugin in self.connected:
                plugin.stop()
                plugin.close("the runtime stopped")
            if self._listener is not None and self._socket_path is not None:
                self._listener.close()
                self._socket_path.unlink(missing_ok=True)
                self._listener = None

    def _launched(self, file: PluginFile) -> Plugin:
        trunk, process = spawn(file, self._stderr)
        return self._introduced(
            Plugin(trunk, self.flavour, self._on_update, process, f"{file.idx}-{file.base}"), file.config
        )

    def _introduced(self, plugin: Plugin, config: str) -> Plugin:
        """Lets a plugin register and configures it."""
        self.connected.append(plugin)
        try:
            plugin.register(self.flavour.registration_timeout)
            plugin.configure(self.flavour.introduction(config), self.flavour.request_timeout)
        except RegistrationError:
            plugin.stop()
            raise
        return plugin

    def _join(self, plugin: Plugin) -> Plugin:
        """Synchronizes a plugin and takes it into service."""
        try:
            updates = plugin.synchronize(self.pods, self.containers, self.flavour.request_timeout)
        except RegistrationError:
            plugin.stop()
            raise
        self.updates += [(plugin.name, update) for update in updates]
        with self._lock:
            self.plugins = sorted([*self.plugins, plugin], key=lambda one: one.name[:2])
        return plugin

    def _relay(self, call: events.Call, outcome: Outcome, merge: Merge) -> None:
        """Asks one plugin after the other; each sees what the earlier ones changed."""
        for plugin in self._in_service():
            if not plugin.wants(call.event):
                continue
            answer = plugin.relay(call, merge.request, self.flavour.request_timeout)
            outcome.answers.append(answer)
            if answer.error:
                log.warning("%s", answer.error)
            if answer.fails:
                outcome.error = answer.error
            elif answer.reply is not None:
                outcome.error = _conflict(merge, answer.plugin, answer.reply)
            if outcome.error:
                return

    def _validate(self, request: api.CreateContainerRequest, outcome: Outcome, merge: Merge) -> None:
        """Asks the validators about what the others want of the container."""
        call = events.CALLS["ValidateContainerAdjustment"]
        validation = api.ValidateContainerAdjustmentRequest(
            pod=request.pod,
            container=request.container,
            adjust=merge.adjust,
            update=merge.update,
            owners=merge.owners.message(),
        )
        for plugin in self._in_service():
            validation.plugins.add(name=plugin.name[3:], index=plugin.name[:2])
        for plugin in self._in_service():
            if not plugin.wants(call.event):
                continue
            verdict = plugin.relay(call, validation, self.flavour.request_timeout)
            reply = cast(api.ValidateContainerAdjustmentResponse | None, verdict.reply)
            if reply is None:
                outcome.error = f"validator plugin {plugin.name} failed: {verdict.error}"
            elif reply.reject:
                reason = reply.reason or "unknown rejection reason"
                outcome.error = f"validator {plugin.name} rejected container adjustment, reason: {reason}"
            if outcome.error:
                return

    def _in_service(self) -> list[Plugin]:
        for plugin in self.plugins:
            if not plugin.closed:
                plugin.serve()
        return [plugin for plugin in self.plugins if not plugin.closed]

    def _remove_closed(self) -> None:
        closed = [plugin for plugin in self.plugins if plugin.closed]
        self.plugins = [plugin for plugin in self.plugins if not plugin.closed]
        for plugin in closed:
            plugin.stop()

    def _collect(self, plugin: str, updates: list[api.ContainerUpdate]) -> Iterable[api.ContainerUpdate]:
        self.updates += [(plugin, update) for update in updates]
        return ()

    def _listen(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(os.fspath(path))
        self._listener.listen()

    def _serve_plugins(self, timeout: float) -> bool:
        """Waits until somebody wants something, and handles it; returns whether a new plugin has connected."""
        with self._lock, selectors.DefaultSelector() as selector:
            for one in (self._listener, *self.plugins):
                if one is not None and one.fileno() >= 0:
                    selector.register(one, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(timeout)]
            for plugin in ready:
                if isinstance(plugin, Plugin):
                    plugin.serve()
        return self._listener in ready

    def _admit(self) -> None:
        try:
            self.accept(self.flavour.registration_timeout)
        except (Late, RegistrationError) as error:
            log.warning("failed to start external plugin: %s", error)


def _conflict(merge: Merge, plugin: str, reply: Message) -> str:
    """Merges a plugin's answer with those before it; returns why they cannot be, empty if they can."""
    try:
        merge.apply(plugin, reply)
    except Conflict as conflict:
        return str(conflict)
    return ""
