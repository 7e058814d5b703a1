"""An embedded NRI runtime: launches and accepts plugins and relays events to them, as containerd does.

Source of the rules: containerd/nri pkg/adaptation/adaptation.go.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Self, cast

from google.protobuf.message import Message

from nri import api, events
from nri.address import address
from nri.errors import NRIError, RegistrationError
from nri.testing.flavour import Flavour
from nri.testing.launch import PluginFile, spawn, undisturbed
from nri.testing.merge import Conflict, Merge
from nri.testing.plugin import Answer, Late, Plugin, Updates

DEFAULT = Flavour()


@dataclass
class Outcome:
    """The outcome of one event."""

    event: str
    answers: list[Answer] = field(default_factory=list)
    """One answer per plugin that was called, in order. The event ends with the first answer that fails it."""
    error: str = ""
    """Why the event has failed, empty if it has not."""
    update: list[api.ContainerUpdate] = field(default_factory=list)
    """The merged updates of other containers. At UpdateContainer, the event's own container comes last."""
    adjusted: api.ContainerAdjustment | None = None
    """`adjust`, but None if the event has failed."""
    requested: Message | None = None
    """`request`, but None if the event has failed."""

    @property
    def adjust(self) -> api.ContainerAdjustment | None:
        """The merged adjustment of a container at its creation, None for other events.

        Raises NRIError, with the error of the event, if it has failed.
        """
        self.check()
        return self.adjusted

    @property
    def request(self) -> Message | None:
        """The request with all adjustments, as a further plugin would get it. Raises NRIError as `adjust` does."""
        self.check()
        return self.requested

    def check(self) -> None:
        """Raises NRIError, with the error of the event, if it has failed."""
        if self.error:
            raise NRIError(f"{self.event} has failed: {self.error}")


class Runtime:
    """A runtime with NRI. As a context manager, it stops at the end.

    It works only inside its methods, in one thread. `pods` and `containers` may be changed at any time.
    """

    def __init__(self, flavour: Flavour = DEFAULT, *, output: int | None = None, state: str = "") -> None:
        """Launched plugins write to the descriptor `output`, else /dev/null, and keep their state below `state`."""
        self.flavour = flavour
        self.pods: list[api.PodSandbox] = []
        self.containers: list[api.Container] = []
        """The state of the node for Synchronize."""
        self.objects_per_part = 0
        """Maximum number of pods or containers in one message of a Synchronize; 0 means no maximum."""
        self.connected: list[Plugin] = []
        """All plugins that have ever connected. Their `closed` says why a connection has ended."""
        self.metadata: dict[str, str] = {}
        """What is sent beside the message of each call, such as the `traceparent` of a runtime that traces."""
        self.updates: Updates = []
        """The updates in answers to Synchronize, and the unsolicited ones. The caller may remove them."""
        self._output = output
        self._state = state
        self._listener: socket.socket | None = None
        self._path = Path()

    @property
    def plugins(self) -> list[Plugin]:
        """The plugins in service, in the order in which they are called."""
        return sorted((one for one in self.connected if one.events and not one.closed), key=lambda one: one.name[:2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def listen(self, path: Path) -> None:
        """Listens for external plugins. Raises OSError."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path = path
        with address(os.fspath(path)) as short:
            self._listener.bind(short)
        self._listener.listen()

    def launch(self, file: PluginFile) -> Plugin:
        """Launches a plugin and takes it into service. Raises RegistrationError and OSError."""
        with undisturbed():  # Ctrl-C finds no process that `stop` does not know
            trunk, process = spawn(file, self._output, self._state)
            self.connected.append(Plugin(trunk, self.flavour, self.updates, process, file.name))
        return self._join(file.config)

    def accept(self, timeout: float = 60.0) -> Plugin:
        """Waits for a plugin that connects, for the first time or again, and takes it into service.

        Raises Late after `timeout` seconds, and RegistrationError.
        """
        if self._listener is None:
            raise RegistrationError("the runtime does not listen")
        self._listener.settimeout(timeout)
        try:
            trunk, _ = self._listener.accept()
        except TimeoutError:
            raise Late(f"no plugin connected in {timeout:g} s") from None
        self.connected.append(Plugin(trunk, self.flavour, self.updates))
        return self._join("")

    def event(self, method: str, request: Message, timeout: float | None = None) -> Outcome:
        """Relays an event to every subscribed plugin, in order. `method` is the event's name.

        Each plugin has `timeout` seconds to answer, by default those of the flavour. Raises TypeError for a request of
        another event, and ValueError for an event that NRI does not have.
        """
        call = events.named(method)
        if not isinstance(request, call.request) or not call.event:
            raise TypeError(f"{method} with a {request.DESCRIPTOR.name}")
        outcome, merge = Outcome(method), Merge(request)
        self._relay(call, outcome, merge, timeout)
        if isinstance(request, api.CreateContainerRequest) and not outcome.error:
            outcome.error = self._validate(request, merge, timeout)
        if not outcome.error:
            outcome.adjusted, outcome.update, outcome.requested = merge.adjust, merge.update, merge.request
        return outcome

    def serve(self, done: Callable[[], bool], timeout: float) -> bool:
        """Handles the calls of plugins between events until `done()`; returns False after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not done():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            select.select(self.plugins, [], [], remaining)
            for plugin in self.plugins:
                plugin.serve()
        return True

    def end_plugins(self, timeout: float) -> None:
        """Sends SIGTERM to launched plugins, and waits at most `timeout` seconds for each."""
        for plugin in self.connected:
            if plugin.process is not None:
                plugin.process.terminate()
                with suppress(TimeoutExpired):
                    plugin.process.wait(timeout)

    def stop(self) -> None:
        """Kills launched plugins, as containerd does when it ends, and closes every connection."""
        for plugin in self.connected:
            plugin.close("the runtime stopped")
        if self._listener is not None:
            if self._listener.getsockname():
                self._path.unlink(missing_ok=True)
            self._listener.close()
            self._listener = None

    def _join(self, config: str) -> Plugin:
        """Takes the plugin that has connected last into service."""
        plugin = self.connected[-1]
        plugin.metadata = self.metadata
        plugin.register()
        plugin.configure(config)
        plugin.synchronize(list(self._state_in_parts()))
        return plugin

    def _state_in_parts(self) -> Iterator[api.SynchronizeRequest]:
        """Yields the state of the node: pods first, then containers."""
        size = self.objects_per_part
        if not size:
            yield api.SynchronizeRequest(pods=self.pods, containers=self.containers)
            return
        for start in range(0, len(self.pods), size):
            yield api.SynchronizeRequest(pods=self.pods[start : start + size])
        for start in range(0, max(1, len(self.containers)), size):  # the last part may be empty
            yield api.SynchronizeRequest(containers=self.containers[start : start + size])

    def _relay(self, call: events.Call, outcome: Outcome, merge: Merge, timeout: float | None) -> None:
        """Calls the plugins one after the other. Each gets the request with the changes of the plugins before it."""
        for plugin in self._subscribers(call):
            answer = plugin.relay(call, merge.request, timeout)
            outcome.answers.append(answer)
            if answer.fails:
                outcome.error = answer.error
            elif answer.reply is not None:
                try:
                    merge.apply(answer.plugin, answer.reply)
                except Conflict as conflict:
                    outcome.error = str(conflict)
            if outcome.error:
                return

    def _validate(self, request: api.CreateContainerRequest, merge: Merge, timeout: float | None) -> str:
        """Calls the validators with the merged adjustment; returns why a validator rejects it, empty if none does."""
        call = events.CALLS["ValidateContainerAdjustment"]
        validation = api.ValidateContainerAdjustmentRequest(
            pod=request.pod,
            container=request.container,
            adjust=merge.adjust,
            update=merge.update,
            owners=merge.owners.message(),
            plugins=[api.PluginInstance(name=one.name[3:], index=one.name[:2]) for one in self.plugins],
        )
        for plugin in self._subscribers(call):
            answer = plugin.relay(call, validation, timeout)
            reply = cast(api.ValidateContainerAdjustmentResponse | None, answer.reply)
            if reply is None:
                return f"validator plugin {plugin.name} failed: {answer.error}"
            if reply.reject:
                reason = reply.reason or "unknown rejection reason"
                return f"validator {plugin.name} rejected container adjustment, reason: {reason}"
        return ""

    def _subscribers(self, call: events.Call) -> Iterator[Plugin]:
        for plugin in self.plugins:
            plugin.serve()
            if not plugin.closed and plugin.subscribed(call):
                yield plugin
